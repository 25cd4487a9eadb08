# SPDX-License-Identifier: Apache-2.0
"""The registers of a DPU, in the order that software has to use them, whatever they lie behind."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

from opendpu.runtime.device import Job
from opendpu.runtime.faults import fault_error
from opendpu_arch.errors import DPUError, FingerprintError, ProgramError, TensorError
from opendpu_arch.isa import Engine
from opendpu_arch.regs import OFFSET
from opendpu_arch.target import MAX_ADDRESS_REGISTERS, Target

START, DONE, IDLE = 1 << 0, 1 << 1, 1 << 2
"""Bits of ``AP_CTRL``."""

_NO_DEVICE = (0, 2**64 - 1)
"""What reads as fingerprint where nothing answers."""


class Registers(Protocol):
    """32-bit registers by byte offset."""

    def read(self, offset: int) -> int:
        """Return a register's value."""
        ...

    def write(self, offset: int, value: int) -> None:
        """Write a register."""
        ...


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where a job lies in the DPU's memory: byte addresses of its code and of all segments."""

    code: int
    bases: Sequence[int]
    """By ``reg_id``, :data:`~opendpu_arch.target.MAX_ADDRESS_REGISTERS` of them."""


@dataclasses.dataclass(frozen=True)
class Counts:
    """What the DPU counted: of the last program."""

    instructions: int
    cycles: int
    busy_cycles: Mapping[str, int]


class Driver:
    """Software's side of the registers.

    Parameters
    ----------
    registers
        The DPU's.
    target
        What they should belong to.
    """

    def __init__(self, registers: Registers, target: Target) -> None:
        self._registers = registers
        self._target = target

    def check(self) -> None:
        """Check that the DPU is there, that it is the target, and that it is idle.

        Raises
        ------
        DPUError
            Nothing answers, or it is busy.
        FingerprintError
            It is another DPU.
        """
        found = self._read64("FINGERPRINT")
        if found in _NO_DEVICE:
            raise DPUError(
                f"no DPU answers: its fingerprint reads as {found:#x}; is the bitstream loaded?",
                code="VART_OPEN_DEVICE_FAIL",
            )
        if found != self._target.fingerprint:
            raise FingerprintError(
                f"the device has DPU fingerprint {found:#x}, but target {self._target.name} has "
                f"{self._target.fingerprint:#x}; open it with its own target"
            )
        self.check_idle()

    def check_idle(self) -> None:
        """Raise DPUError if a program still runs: only a reset ends it."""
        if not self._read("AP_CTRL") & IDLE:
            raise DPUError(
                "the DPU still runs an earlier program; load the bitstream again to reset it",
                code="VART_OPEN_DEVICE_FAIL",
            )

    def prepare(self, job: Job, place: Placement) -> None:
        """Write all that a start needs but the start: addresses, sizes, interrupt enables."""
        self._write64("INSTR_ADDR", place.code)
        for i, base in enumerate(place.bases):
            self._write64(f"ADDR_{i}", base)
            size = job.segments[i].size if i in job.segments else 0
            self._write(f"SEGMENT_SIZE_{i}", size)
        self._write("GIE", 1)
        self._write("IER", 1)

    def start(self) -> None:
        """Start the program."""
        self._write("AP_CTRL", START)

    def unfinished(self) -> list[str]:
        """Return the engines that have begun an instruction and not ended it."""
        return [
            e.name for e in Engine if self._read(f"{e.name}_START") != self._read(f"{e.name}_END")
        ]

    def failure(self, job: Job, place: Placement) -> DPUError | None:
        """Return why the program stopped, or None where it came to its END."""
        status = self._read("STATUS")
        if not status:
            return None
        return fault_error(
            job,
            self._target,
            status=status,
            number=self._read("FAULT_INSTRUCTION"),
            address=self._read64("FAULT_ADDR"),
            started={e: self._read(f"{e.name}_START") for e in Engine},
            bases=place.bases,
            code_base=place.code,
        )

    def counts(self) -> Counts:
        """Return what was counted."""
        return Counts(
            instructions=sum(self._read(f"{e.name}_END") for e in Engine),
            cycles=self._read64("CYCLE"),
            busy_cycles={
                "load": self._read("BUSY_LOAD"),
                "save": self._read("BUSY_SAVE"),
                "conv": self._read("BUSY_CONV"),
                "misc": self._read("BUSY_MISC"),
                "array": self._read("ACTIVE_CONV"),
                "misc_array": self._read("ACTIVE_MISC"),
            },
        )

    def acknowledge(self) -> None:
        """Clear the interrupt and the done bit."""
        self._write("ISR", 1)
        self._read("AP_CTRL")  # reading clears done

    def _read(self, name: str) -> int:
        return self._registers.read(OFFSET[name])

    def _write(self, name: str, value: int) -> None:
        self._registers.write(OFFSET[name], value)

    def _read64(self, name: str) -> int:
        return self._read(f"{name}_L") | self._read(f"{name}_H") << 32

    def _write64(self, name: str, value: int) -> None:
        self._write(f"{name}_L", value & 0xFFFF_FFFF)
        self._write(f"{name}_H", value >> 32)


def check_job(job: Job) -> None:
    """Check what the registers can take: whole words of code, eight segments of bytes.

    Raises
    ------
    ProgramError
        The code is no words, or a ``reg_id`` is none.
    TensorError
        A segment is no contiguous bytes.
    """
    if not job.code or len(job.code) % 4:
        raise ProgramError(
            f"machine code is {len(job.code)} bytes, but must be a positive multiple of 4"
        )
    for reg_id, memory in job.segments.items():
        if not 0 <= reg_id < MAX_ADDRESS_REGISTERS:
            raise ProgramError(f"reg_id is {reg_id}, but must be in 0..{MAX_ADDRESS_REGISTERS - 1}")
        if memory.dtype != "u1" or memory.ndim != 1 or not memory.flags.c_contiguous:
            raise TensorError(
                f"segment {reg_id} is {memory.dtype} with shape {memory.shape}, strides "
                f"{memory.strides}; must be one-dimensional contiguous uint8"
            )
