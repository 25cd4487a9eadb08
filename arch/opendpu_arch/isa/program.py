# SPDX-License-Identifier: Apache-2.0
"""Machine code: every instruction by opcode, reading and writing programs."""

import struct
from collections.abc import Iterable, Iterator

from opendpu_arch.columns import Columns
from opendpu_arch.errors import DecodeError
from opendpu_arch.isa.alu import Alu, AluInit, DptWise, DwInit, Pool, PoolInit
from opendpu_arch.isa.codes import Opcode
from opendpu_arch.isa.conv import Conv, ConvInit
from opendpu_arch.isa.eltwise import Elew, ElewInit
from opendpu_arch.isa.instruction import Instruction
from opendpu_arch.isa.transfers import End, Load, Save

INSTRUCTIONS: dict[Opcode, type[Instruction]] = {
    cls.OPCODE: cls
    for cls in (
        Load,
        AluInit,
        Alu,
        Save,
        PoolInit,
        End,
        Conv,
        ConvInit,
        DptWise,
        DwInit,
        Pool,
        ElewInit,
        Elew,
    )
}
"""Every instruction by opcode."""


def iter_decode(code: bytes) -> Iterator[Instruction]:
    """Yield the instructions of ``code``, everything after END included.

    Raises
    ------
    DecodeError
        The length is not a multiple of four, an opcode is unknown, or the last instruction is cut.
    """
    if len(code) % 4:
        raise DecodeError(f"machine code is {len(code)} bytes, but must be a multiple of 4")
    words = struct.unpack(f"<{len(code) // 4}I", code)
    at = number = 0
    while at < len(words):
        opcode = words[at] >> 28
        if opcode not in INSTRUCTIONS:
            known = ", ".join(f"{o.name}={o:#x}" for o in Opcode)
            raise DecodeError(
                f"instruction {number} at byte {4 * at:#x}: "
                f"unknown opcode {opcode:#x} (known: {known})"
            )
        cls = INSTRUCTIONS[Opcode(opcode)]
        if at + cls.WORDS > len(words):
            raise DecodeError(
                f"instruction {number} at byte {4 * at:#x}: {cls.mnemonic()} needs "
                f"{cls.WORDS} words, but only {len(words) - at} are left"
            )
        yield cls.decode(words[at : at + cls.WORDS])
        at += cls.WORDS
        number += 1


def decode(code: bytes) -> list[Instruction]:
    """Return the instructions of ``code``; see :func:`iter_decode`."""
    return list(iter_decode(code))


def encode(program: Iterable[Instruction]) -> bytes:
    """Return the machine code of ``program``.

    Raises
    ------
    EncodingError
        A field is no integer or out of its range, or reserved bits overlap a field.
    """
    return Columns([*program]).encode()
