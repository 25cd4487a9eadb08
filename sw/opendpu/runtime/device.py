# SPDX-License-Identifier: Apache-2.0
"""What a device is: something that runs one DPU program on memory segments."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from opendpu_arch.target import Target

Segment = npt.NDArray[np.uint8]
"""Memory behind one address register: one-dimensional, contiguous bytes."""


@dataclasses.dataclass(frozen=True)
class Job:
    """One run of a program.

    ``segments`` maps ``reg_id`` to its memory. LOAD reads and SAVE writes these arrays in place;
    two jobs that run at the same time must not share a segment that either writes.
    """

    code: bytes
    segments: Mapping[int, Segment]


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobStatistics:
    """What a job took. Cycle figures are zero on devices that do not count cycles."""

    device: str
    memory: str = ""
    instructions: int = 0
    cycles: int = 0
    busy_cycles: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Cycles by name: ``load save conv misc`` (unfinished work), ``array`` (a useful step)."""
    bytes_read: int = 0
    bytes_written: int = 0
    wall_seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-ready values."""
        return {**dataclasses.asdict(self), "busy_cycles": dict(self.busy_cycles)}


@runtime_checkable
class Device(Protocol):
    """A DPU: the functional simulator, the RTL in a simulator, later a board.

    ``run`` may be called from several threads; a device that can run one job at a time locks.
    """

    name: str
    target: Target

    def run(self, job: Job) -> JobStatistics:
        """Run a job to its END; raise a :class:`~opendpu_arch.errors.DPUError` when it fails."""
        ...

    def close(self) -> None:
        """Free what the device holds."""
        ...
