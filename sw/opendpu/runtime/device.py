# SPDX-License-Identifier: Apache-2.0
"""What a device is: something that runs one DPU program on memory segments."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from opendpu_arch.target import Target
from xir import Subgraph

Segment = npt.NDArray[np.uint8]
"""Memory behind one address register: one-dimensional, contiguous bytes."""


@dataclasses.dataclass(frozen=True)
class Job:
    """One run of a program.

    ``subgraph`` is what ``code`` was compiled to, with the ops that it stands for, where the
    caller has it; devices that execute machine code do not look at it.

    ``segments`` maps ``reg_id`` to its memory. LOAD reads and SAVE writes these arrays in place;
    two jobs that run at the same time must not share a segment that either writes.

    ``given`` and ``wanted`` are the registers whose segments hold something before the job, the
    others are zero, and those whose content matters after it; nothing means all. A device that has
    memory of its own need not move the rest.
    """

    code: bytes
    segments: Mapping[int, Segment]
    subgraph: Subgraph | None = None
    given: frozenset[int] | None = None
    wanted: frozenset[int] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Timeline:
    """When each instruction of a program was worked on.

    Both arrays are int64, one element an instruction in the order of the program up to its END,
    in cycles; cycle 0 is the first one in which the device runs the program. An instruction that
    was not reached has -1.

    ``start`` is the cycle in which the instruction leaves its engine's queue: it was the first
    there, its tokens had come and the engine took it. ``end`` is the cycle in which it gives its
    tokens; its results are visible, and who waits for it may start one cycle later. An engine
    takes instructions before it has finished the ones before them, so the intervals of one engine
    overlap; both arrays rise along each engine's instructions.
    """

    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]


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
    timeline: Timeline | None = None
    """When each instruction ran, where the device was asked to tell (``trace``)."""

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-ready values; the timeline is none of them."""
        figures = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        del figures["timeline"]
        return {**figures, "busy_cycles": dict(self.busy_cycles)}


@runtime_checkable
class Device(Protocol):
    """A DPU: the functional simulator, the RTL in a simulator, later a board; or what it computes.

    ``run`` may be called from several threads; a device that can run one job at a time locks. A
    device that leaves segments as they are, because it only predicts, has ``computes = False``;
    runners refuse to take outputs from it.
    """

    name: str
    target: Target

    def run(self, job: Job) -> JobStatistics:
        """Run a job to its END; raise a :class:`~opendpu_arch.errors.DPUError` when it fails."""
        ...

    def close(self) -> None:
        """Free what the device holds."""
        ...
