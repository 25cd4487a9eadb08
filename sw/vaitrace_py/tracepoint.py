# SPDX-License-Identifier: Apache-2.0
"""The decorator of functions whose calls ``vaitrace`` tells of."""

import functools
import os
import pathlib
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from opendpu.runtime.tracing import DIRECTORY_VARIABLE
from vaitrace.calls import Call, record

P = ParamSpec("P")
R = TypeVar("R")


def vai_tracepoint(func: Callable[P, R]) -> Callable[P, R]:
    """Return a function that does the same, and is traced where ``VAI_TRACE_DIR`` names a folder.

    ``vaitrace`` sets that for the programs that it runs. A call that raises is recorded, too.
    """
    name = f"{func.__module__}.{func.__qualname__}"

    @functools.wraps(func)
    def traced(*args: P.args, **kwargs: P.kwargs) -> R:
        folder = os.environ.get(DIRECTORY_VARIABLE)
        if not folder:
            return func(*args, **kwargs)
        begin, start = time.time(), time.perf_counter()
        try:
            return func(*args, **kwargs)
        finally:
            seconds = time.perf_counter() - start
            record(Call(name, threading.get_native_id(), begin, seconds), pathlib.Path(folder))

    return traced
