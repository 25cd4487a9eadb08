# SPDX-License-Identifier: Apache-2.0
"""Where jobs lie in a board's memory: programs and weights stay, the rest is laid out anew."""

from collections.abc import Mapping

import numpy as np

from opendpu.runtime.board.transport import SharedMemory
from opendpu.runtime.device import Job, Segment
from opendpu.runtime.driver import Placement
from opendpu_arch.errors import DPUError
from opendpu_arch.target import MAX_ADDRESS_REGISTERS

ALIGNMENT = 4096
"""AMD's code buffers are aligned so; bursts of aligned segments are the longest."""
PREFETCH = 2048
"""Bytes that the DPU may fetch beyond its program; they have to be memory."""


def constant_content(memory: Segment) -> bytes | None:
    """Return the ``bytes`` that an array is a view of, which nobody can change, or None."""
    content: object = memory.base
    if not isinstance(content, bytes) or len(content) != memory.size or memory.flags.writeable:
        return None
    return content


class Arena:
    """Hands out a :class:`~opendpu.runtime.board.transport.SharedMemory`.

    Code and constant segments are written once and stay, from the bottom up, until the memory is
    full; those of the job that does not fit are then the first of a new beginning.
    """

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory
        self._resident: dict[int, tuple[bytes, int]] = {}  # by identity of the bytes, kept alive
        self._uploaded: set[int] = set()
        self._top = 0

    def forget(self) -> None:
        """Take nothing for granted that is in the memory."""
        self._resident.clear()
        self._uploaded.clear()
        self._top = 0

    def place(self, job: Job) -> tuple[Placement, Mapping[int, int]]:
        """Write a job into memory.

        Returns
        -------
        Placement
            Addresses for the registers; segments that the job has not are at the memory's start.
        dict of int to int
            Offset in memory of each segment, by ``reg_id``.

        Raises
        ------
        DPUError
            It does not fit.
        """
        for _ in range(2):
            code = self._keep(job.code, PREFETCH)
            constants = {
                reg_id: self._keep(content, 0)
                for reg_id, memory in job.segments.items()
                if (content := constant_content(memory)) is not None
            }
            at, offsets = self._top, dict(constants)
            for reg_id, memory in job.segments.items():
                if reg_id not in constants:
                    offsets[reg_id], at = at, at + _aligned(memory.size)
            if at <= self._memory.size:
                break
            self.forget()
        else:
            raise DPUError(
                f"the job needs {at} bytes of the board's memory, which has {self._memory.size}"
            )
        self._upload_new()
        for reg_id, offset in offsets.items():
            if reg_id not in constants and job.segments[reg_id].size:
                self._memory.store(offset, job.segments[reg_id])
        bases = [self._memory.address + offsets.get(i, 0) for i in range(MAX_ADDRESS_REGISTERS)]
        return Placement(self._memory.address + code, bases), offsets

    def fetch(self, offset: int, memory: Segment) -> None:
        """Fill a segment with what the DPU has left of it."""
        if memory.size:
            self._memory.load(offset, memory)

    def _keep(self, content: bytes, beyond: int) -> int:
        """Return where bytes lie that stay; they are uploaded by :meth:`_upload_new`."""
        known = self._resident.get(id(content))
        if known is None:
            known = content, self._top
            self._resident[id(content)] = known
            self._top += _aligned(len(content) + beyond)
        return known[1]

    def _upload_new(self) -> None:
        for key, (content, offset) in self._resident.items():
            if key not in self._uploaded:
                self._memory.store(offset, np.frombuffer(content, np.uint8))
                self._uploaded.add(key)


def _aligned(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
