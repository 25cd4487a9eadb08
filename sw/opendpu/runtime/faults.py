# SPDX-License-Identifier: Apache-2.0
"""What the DPU's status registers say, as an exception that names instruction and cause."""

import struct
from collections.abc import Mapping, Sequence

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
from opendpu_arch.isa import Engine
from opendpu_arch.regs import Fault
from opendpu_arch.target import Target

_OF_ENGINE = (
    Fault.LOAD_BUS_ERROR,
    Fault.SAVE_BUS_ERROR,
    Fault.LOAD_ADDRESS,
    Fault.SAVE_ADDRESS,
)
"""Faults of engines; they count their own instructions, the decoder counts all."""

_Found = tuple[int, int, isa.Instruction | None]
"""Number and byte offset of an instruction, and itself where it decodes."""


def fault_error(
    job: Job,
    target: Target,
    *,
    status: int,
    number: int,
    address: int,
    started: Mapping[Engine, int],
    bases: Sequence[int],
    code_base: int,
) -> DPUError:
    """Return the error for a job that stopped before END.

    Parameters
    ----------
    status, number, address
        Registers STATUS, FAULT_INSTRUCTION and FAULT_ADDR.
    started
        Instructions each engine started.
    bases, code_base
        DDR addresses of the segments and of the program.
    """
    cause = status & 0xFF
    engine = Engine(status >> 8 & 3) if cause in _OF_ENGINE else None
    found = _instruction(job.code, number, engine)
    index, at, instruction = found
    where = _name(found)
    reg_id: int = getattr(instruction, "reg_id", 0)
    place = _place(address, bases, code_base)
    match cause:
        case Fault.UNKNOWN_OPCODE:
            word = struct.unpack_from("<I", job.code, at)[0] if at + 4 <= len(job.code) else 0
            known = ", ".join(f"{o.name}={o:#x}" for o in isa.Opcode)
            return DecodeError(
                f"instruction {index} at byte {at:#x}: "
                f"unknown opcode {word >> 28:#x} (known: {known})"
            )
        case Fault.ILLEGAL_FIELD:
            return IllegalInstructionError(f"{where}: a field asks what {target.name} cannot do")
        case Fault.FETCH_ERROR:
            inside = instruction is not None or code_base <= address < code_base + len(job.code)
            if not inside:
                return ProgramError(
                    f"program of {len(job.code)} bytes has no END: "
                    f"the DPU fetched instruction {index} beyond it"
                )
            return BusError(f"{where}: the memory answered its fetch with an error")
        case Fault.LOAD_BUS_ERROR | Fault.SAVE_BUS_ERROR:
            if instruction is not None and reg_id not in job.segments:
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
            return TokenError("a token counter is not zero at END")
        case Fault.DEADLOCK:
            waiting = [_instruction(job.code, n, e) for e, n in started.items()]
            lines = [
                f"{_name(w)} waits for {' and '.join(e.name for e in w[2].waits_for())}"
                for w in waiting
                if w[2] is not None and w[2].waits_for()
            ]
            return DeadlockError("no engine can go on; " + "; ".join(lines or ["unknown why"]))
    return DPUError(f"{where}: the DPU stopped with status {status:#x}, which is no known fault")


def _instruction(code: bytes, number: int, engine: Engine | None) -> _Found:
    """Find instruction ``number`` of an engine's own, or of all."""
    at = index = 0
    try:
        for i in isa.iter_decode(code):
            if engine is None or engine == i.ENGINE:
                if number == 0:
                    return index, at, i
                number -= 1
            at += 4 * i.WORDS
            index += 1
    except DecodeError:
        pass
    return index, at, None


def _name(found: _Found) -> str:
    index, at, instruction = found
    text = f": {format_instruction(instruction)}" if instruction is not None else ""
    return f"instruction {index} at byte {at:#x}{text}"


def _place(address: int, bases: Sequence[int], code_base: int) -> str:
    """Name a DDR address by the segment it counts from."""
    named = {code_base: "the program", **{b: f"segment {i}" for i, b in enumerate(bases)}}
    below = [base for base in named if base <= address]
    if not below:
        return f"address {address:#x}"
    base = max(below)
    return f"byte {address - base:#x} of {named[base]}"
