# SPDX-License-Identifier: Apache-2.0
"""Records of the jobs that DPU subgraphs ran, for ``vaitrace``: lines of JSON in a folder.

With ``VAI_TRACE_DIR`` in the environment, every process writes ``vart_trace_<pid>.jsonl`` there,
a line a job. Times are seconds of ``time.time()``.
"""

import dataclasses
import json
import os
import pathlib
import threading
from typing import Any

from opendpu.runtime.device import JobStatistics
from opendpu_arch import outputs
from opendpu_arch.errors import ModelFormatError

DIRECTORY_VARIABLE = "VAI_TRACE_DIR"
_PATTERN = "vart_trace_*.jsonl"
_LOCK = threading.Lock()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """One job of a DPU subgraph."""

    subgraph: str
    dpu: str
    """Name of the target."""
    device: str
    thread: int
    start: float
    seconds: float
    cycles: int
    """0 on devices that do not count them."""
    workload: int
    """Operations, two a multiply-accumulate."""
    weight_bytes: int
    input_bytes: int
    output_bytes: int
    bytes_read: int
    bytes_written: int


def is_enabled() -> bool:
    """Return whether jobs are recorded."""
    return bool(os.environ.get(DIRECTORY_VARIABLE))


def record(
    shape: "SubgraphShape", dpu: str, start: float, seconds: float, statistics: JobStatistics
) -> None:
    """Append a job to the file of this process; OutputError if that cannot be written."""
    line = Record(
        **dataclasses.asdict(shape), dpu=dpu, device=statistics.device,
        thread=threading.get_native_id(), start=start, seconds=seconds, cycles=statistics.cycles,
        bytes_read=statistics.bytes_read, bytes_written=statistics.bytes_written,
    )  # fmt: skip
    path = pathlib.Path(os.environ[DIRECTORY_VARIABLE]) / f"vart_trace_{os.getpid()}.jsonl"
    try:
        with _LOCK, path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(line)) + "\n")
    except OSError as error:
        raise outputs.refusal(path, error.strerror or str(error)) from error


@dataclasses.dataclass(frozen=True)
class SubgraphShape:
    """What every job of a subgraph has in common."""

    subgraph: str
    workload: int
    weight_bytes: int
    input_bytes: int
    output_bytes: int


def read(folder: pathlib.Path) -> list[Record]:
    """Return the jobs that all processes have recorded in a folder, in order of their start.

    Raises
    ------
    ModelFormatError
        A line is no record.
    """
    found = []
    for path in sorted(folder.glob(_PATTERN)):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(Record(**_fields(json.loads(line))))
            except (ValueError, TypeError) as error:
                raise ModelFormatError(f"{path} holds a line that is no job: {error}") from error
    return sorted(found, key=lambda job: job.start)


def _fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{type(value).__name__} instead of an object")
    return value
