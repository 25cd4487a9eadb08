# SPDX-License-Identifier: Apache-2.0
"""What all instructions have, and what fields of several of them mean."""

from typing import ClassVar

from opendpu_arch.bits import Record, bits
from opendpu_arch.isa.codes import Engine, Opcode

TABLE = "0: none; n: results go through the table in slot n - 1."

CHANNEL_SHIFT = "1: each output channel adds its shifts in SHIFT; of ALU, DWCV only."

SCALED = "1: results are made by the records in SCALE from bank_addr_bias on."


class Instruction(Record):
    """Base of the instructions."""

    OPCODE: ClassVar[Opcode]
    ENGINE: ClassVar[Engine]

    dpdon: int = bits(0, 27, 24, doc="Engines whose token this waits for, one bit each (`Engine`).")
    dpdby: int = bits(0, 23, 20, doc="Engines that get a token when this has finished.")

    def __init_subclass__(cls) -> None:
        cls.FIXED = ((0xF0000000, cls.OPCODE << 28), *((0, 0),) * (cls.WORDS - 1))
        super().__init_subclass__()

    @classmethod
    def mnemonic(cls) -> str:
        """Return the name in assembly text."""
        return cls.OPCODE.name

    def waits_for(self) -> tuple[Engine, ...]:
        """Return the other engines whose tokens this consumes."""
        return tuple(e for e in Engine if self.dpdon >> e & 1 and e != self.ENGINE)

    def signals(self) -> tuple[Engine, ...]:
        """Return the other engines that get a token from this."""
        return tuple(e for e in Engine if self.dpdby >> e & 1 and e != self.ENGINE)
