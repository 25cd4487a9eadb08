# SPDX-License-Identifier: Apache-2.0
"""Instructions of LOAD and SAVE."""

from opendpu_arch.bits import bits
from opendpu_arch.isa.codes import Engine, Opcode
from opendpu_arch.isa.instruction import Instruction


class Load(Instruction):
    """Copy pixels from DDR to a bank."""

    OPCODE = Opcode.LOAD
    ENGINE = Engine.LOAD
    WORDS = 5

    bank_id: int = bits(0, 19, 14, doc="Bank that is written.")
    bank_addr: int = bits(0, 11, 0, doc="Word of the first pixel.")
    jump_read: int = bits(1, 25, 10, minus_one=True, doc="Bytes between two pixels in DDR.")
    jump_write: int = bits(1, 9, 0, minus_one=True, doc="Words between two pixels in the bank.")
    pad_idx: int = bits(
        2, 31, 27, minus_one=True, doc="How many of the last pixels pad_end applies to."
    )
    channel: int = bits(2, 23, 10, minus_one=True, doc="Bytes of one pixel.")
    length: int = bits(2, 9, 0, minus_one=True, doc="Pixels.")
    pad_start: int = bits(
        3, 31, 27, doc="Bytes of pixel 0 to zero, from the first (channel augmentation)."
    )
    pad_end: int = bits(
        3, 26, 22, doc="Bytes to zero, up to the last, in the first of the pixels of pad_idx."
    )
    mode_avg: int = bits(3, 21, 20, doc="0: copy; n: (uint8 - mean) >> (n - 1).")
    broadcast: int = bits(3, 19, 16, doc="7: write const_value instead of reading DDR.")
    const_value: int = bits(
        3, 15, 8,
        doc="The byte of a constant transfer; with scaled, what pad_start and pad_end leave.",
    )  # fmt: skip
    reg_id: int = bits(3, 2, 0, doc="Address register whose segment ddr_addr counts from.")
    ddr_addr: int = bits(4, 28, 0, doc="Byte offset in the segment.")


class Save(Instruction):
    """Copy pixels from a bank to DDR."""

    OPCODE = Opcode.SAVE
    ENGINE = Engine.SAVE
    WORDS = 5

    bank_id: int = bits(0, 19, 14, doc="Bank that is read (image banks only).")
    bank_addr: int = bits(0, 11, 0, doc="Word of the first pixel.")
    hp_id: int = bits(1, 30, 29, doc="Data port to use; a hint.")
    argmax: int = bits(1, 28, 27, doc="Bit 1 enables it; bit 0 picks index (0) or value (1).")
    jump_write: int = bits(1, 25, 10, minus_one=True, doc="Bytes between two pixels in DDR.")
    jump_read: int = bits(1, 9, 0, minus_one=True, doc="Words between two pixels in the bank.")
    channel: int = bits(2, 21, 10, minus_one=True, doc="Bytes of one pixel.")
    length: int = bits(2, 9, 0, minus_one=True, doc="Pixels.")
    const_en: int = bits(3, 16, 16, doc="1: write const_value instead of reading the bank.")
    const_value: int = bits(3, 15, 8, doc="The byte of a constant transfer.")
    reg_id: int = bits(3, 2, 0, doc="Address register whose segment ddr_addr counts from.")
    ddr_addr: int = bits(4, 28, 0, doc="Byte offset in the segment.")


class End(Instruction):
    """End of the program: every queue empty, then interrupt."""

    OPCODE = Opcode.END
    ENGINE = Engine.SAVE
    WORDS = 1
