# SPDX-License-Identifier: Apache-2.0
"""What the DPU's status registers say, as an exception that names instruction and cause."""

import struct
from collections.abc import Sequence

from opendpu.runtime.device import Job
from opendpu_arch import isa
from opendpu_arch.asm import format_instruction
from opendpu_arch.errors import (
    AddressError,
    BusError,
    DeadlockError,
    DecodeError,
    DPUError,
    IllegalInstructionError,
    ProgramError,
    TokenError,
)
from opendpu_arch.regs import Fault
from opendpu_arch.target import Target


def fault_error(
    job: Job,
    target: Target,
    *,
    status: int,
    number: int,
    address: int,
    bases: Sequence[int],
    code_base: int,
) -> DPUError:
    """Return the error for a job that stopped before END.

    Parameters
    ----------
    status, number, address
        Registers STATUS, FAULT_INSTRUCTION and FAULT_ADDR.
    bases, code_base
        DDR addresses of the segments and of the program.
    """
    cause = status & 0xFF
    at, instruction = _instruction(job.code, number)
    text = f": {format_instruction(instruction)}" if instruction is not None else ""
    where = f"instruction {number} at byte {at:#x}{text}"
    reg_id: int = getattr(instruction, "reg_id", 0)
    place = _place(address, bases, code_base)
    match cause:
        case Fault.UNKNOWN_OPCODE:
            word = struct.unpack_from("<I", job.code, at)[0] if at + 4 <= len(job.code) else 0
            known = ", ".join(f"{o.name}={o:#x}" for o in isa.Opcode)
            return DecodeError(
                f"instruction {number} at byte {at:#x}: "
                f"unknown opcode {word >> 28:#x} (known: {known})"
            )
        case Fault.ILLEGAL_FIELD:
            return IllegalInstructionError(f"{where}: a field asks what {target.name} cannot do")
        case Fault.FETCH_ERROR:
            if address >= code_base + len(job.code):
                return ProgramError(
                    f"program of {len(job.code)} bytes has no END: "
                    f"after instruction {number} the DPU fetched beyond it, at byte "
                    f"{address - code_base:#x}"
                )
            return BusError(f"{where}: the memory answered the fetch at {place} with an error")
        case Fault.LOAD_BUS_ERROR | Fault.SAVE_BUS_ERROR:
            if reg_id not in job.segments:
                have = ", ".join(map(str, sorted(job.segments))) or "none"
                return AddressError(
                    f"{where}: reg_id {reg_id} has no segment; the job's segments are {have}"
                )
            verb = "read" if cause == Fault.LOAD_BUS_ERROR else "write"
            return BusError(f"{where}: the memory answered the {verb} at {place} with an error")
        case Fault.LOAD_ADDRESS | Fault.SAVE_ADDRESS:
            size = job.segments[reg_id].size if reg_id in job.segments else 0
            return AddressError(
                f"{where}: {place} is outside segment {reg_id}, which has {size} bytes"
            )
        case Fault.LEFTOVER_TOKEN:
            return TokenError(f"{where}: a token counter is not zero at END")
        case Fault.DEADLOCK:
            return DeadlockError(
                f"{where}: deadlock; every engine is idle and instructions wait for tokens "
                "that nobody will give"
            )
    return DPUError(f"{where}: the DPU stopped with status {status:#x}, which is no known fault")


def _instruction(code: bytes, number: int) -> tuple[int, isa.Instruction | None]:
    """Return the byte offset of an instruction, and itself where the program decodes so far."""
    at = 0
    try:
        for i, instruction in enumerate(isa.iter_decode(code)):
            if i == number:
                return at, instruction
            at += 4 * instruction.WORDS
    except DecodeError:
        pass
    return at, None


def _place(address: int, bases: Sequence[int], code_base: int) -> str:
    """Name a DDR address by the segment it counts from."""
    named = {code_base: "the program", **{b: f"segment {i}" for i, b in enumerate(bases)}}
    below = [base for base in named if base <= address]
    if not below:
        return f"address {address:#x}"
    base = max(below)
    return f"byte {address - base:#x} of {named[base]}"
