# SPDX-License-Identifier: Apache-2.0
"""Records of the calls of traced functions: lines of JSON in a folder, a file a process."""

import dataclasses
import json
import os
import pathlib
import threading

from opendpu_arch import outputs

_LOCK = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of a traced function; times in seconds, ``start`` of ``time.time()``."""

    function: str
    thread: int
    start: float
    seconds: float


def record(call: Call, folder: pathlib.Path) -> None:
    """Append a call to this process's file in a folder; OutputError if that cannot be written."""
    path = folder / f"vart_function_{os.getpid()}.jsonl"
    try:
        with _LOCK, path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(call)) + "\n")
    except OSError as error:
        raise outputs.refusal(path, error.strerror or str(error)) from error


def read(folder: pathlib.Path) -> list[Call]:
    """Return the calls that all processes have recorded in a folder, in order of their start."""
    lines = [
        line
        for path in sorted(folder.glob("vart_function_*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return sorted((Call(**json.loads(line)) for line in lines), key=lambda call: call.start)
