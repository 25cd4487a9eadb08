# SPDX-License-Identifier: Apache-2.0
"""Runs a Python program with some of its functions traced: ``python -m vaitrace.launch X.py ...``.

``VAI_TRACE_FUNCTIONS`` holds the functions' names, separated by commas: ``module.function`` or
``module.Class.method``; those of the program itself without a module or as ``__main__.function``.
Each call is recorded in ``VAI_TRACE_DIR``, see :mod:`vaitrace.calls`.
"""

import os
import pathlib
import runpy
import sys
import threading
import time
from types import FrameType
from typing import Any

from opendpu.runtime.tracing import DIRECTORY_VARIABLE
from vaitrace.calls import Call, record

FUNCTIONS_VARIABLE = "VAI_TRACE_FUNCTIONS"


class Tracer:
    """Profile function of the interpreter that times the calls of some functions."""

    def __init__(self, names: set[str], folder: pathlib.Path) -> None:
        self._names = names
        self._folder = folder
        self._running: dict[int, tuple[str, float, float]] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take a call or a return."""
        if event == "call":
            module = frame.f_globals.get("__name__", "")
            name = f"{module}.{frame.f_code.co_qualname}"
            if name in self._names:
                self._running[id(frame)] = name, time.time(), time.perf_counter()
        elif event == "return" and id(frame) in self._running:
            name, begin, start = self._running.pop(id(frame))
            seconds = time.perf_counter() - start
            record(Call(name, threading.get_native_id(), begin, seconds), self._folder)


def full_name(name: str) -> str:
    """Return the name of a function with its module; the program's own may be without."""
    return name if "." in name else f"__main__.{name}"


def main() -> None:
    """Run the program that the arguments name, as ``python`` would."""
    sys.argv = sys.argv[1:]
    sys.path[0] = str(pathlib.Path(sys.argv[0]).resolve().parent)
    names = [name for name in os.environ.get(FUNCTIONS_VARIABLE, "").split(",") if name]
    if names:
        folder = pathlib.Path(os.environ[DIRECTORY_VARIABLE])
        tracer = Tracer(set(map(full_name, names)), folder)
        threading.setprofile(tracer)
        sys.setprofile(tracer)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
