# SPDX-License-Identifier: Apache-2.0
"""DPUCZDX8G ISA1: the instructions, written once.

A program is little-endian 32-bit words. Word 0 of every instruction holds the opcode [31:28],
``dpdon`` [27:24] and ``dpdby`` [23:20]; the rest is the instruction's own.
"""

import enum
import struct
from collections.abc import Iterable, Iterator
from typing import ClassVar

from opendpu_arch.bits import Record, bits
from opendpu_arch.columns import Columns
from opendpu_arch.errors import DecodeError


class Opcode(enum.IntEnum):
    """Bits [31:28] of word 0."""

    LOAD = 0x0
    ALUINIT = 0x1
    ALU = 0x2
    SAVE = 0x4
    POOLINIT = 0x6
    END = 0x7
    CONV = 0x8
    CONVINIT = 0x9
    DPTWISE = 0xA
    DWINIT = 0xB
    POOL = 0xC
    ELEWINIT = 0xD
    ELEW = 0xE


class Engine(enum.IntEnum):
    """The four in-order queues; the value is the bit in ``dpdon`` and ``dpdby``."""

    LOAD = 0
    SAVE = 1
    CONV = 2
    MISC = 3


class ActType(enum.IntEnum):
    """Activation applied before rounding."""

    NONE = 0
    RELU = 1
    PRELU = 2
    LEAKYRELU = 3
    RELU6 = 4
    HSIGMOID = 5
    HSWISH = 6


LOAD_CONSTANT = 7
"""``broadcast`` of a LOAD that writes ``const_value``; no other value has an effect."""


class AluMode(enum.IntEnum):
    """Values of ALUINIT ``exec_mode``."""

    DWCV = 0
    PRELU = 1
    AVEPOOL = 2
    MAXPOOL = 3
    LEAKYRELU = 4
    MAXREDUCE = 5
    DWCVB0 = 6
    HSIGMOID = 7
    DWCVW16B0 = 8


class ElewType(enum.IntEnum):
    """Values of ELEW ``elew_type``."""

    ADD = 0
    MULT = 1


class PoolType(enum.IntEnum):
    """Values of POOLINIT ``pool_type``."""

    MAX = 0
    AVERAGE = 1
    MAX_REDUCE = 2


_TABLE = "0: none; n: results go through the table in slot n - 1."

_CHANNEL_SHIFT = "1: each output channel adds its shifts in SHIFT; of ALU, DWCV only."

_SCALED = "1: results are made by the records in SCALE from bank_addr_bias on."


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
        3, 26, 22, doc="Bytes to zero, up to the last, in the first of those pixels."
    )
    mode_avg: int = bits(3, 21, 20, doc="0: copy; n: (uint8 - mean) >> (n - 1).")
    broadcast: int = bits(3, 19, 16, doc="7: write const_value instead of reading DDR.")
    const_value: int = bits(
        3, 15, 8,
        doc="The byte of a constant transfer; with scaled, what pad_start and pad_end leave.",
    )  # fmt: skip
    reg_id: int = bits(3, 2, 0, doc="Address register whose segment ddr_addr counts from.")
    ddr_addr: int = bits(4, 28, 0, doc="Byte offset in the segment.")


class AluInit(Instruction):
    """Set up the ALU instructions that follow."""

    OPCODE = Opcode.ALUINIT
    ENGINE = Engine.MISC
    WORDS = 6

    exec_mode: int = bits(0, 19, 16, doc="What the ALU does (`AluMode`).")
    kernel_h: int = bits(0, 15, 8, minus_one=True, doc="Kernel rows.")
    kernel_w: int = bits(0, 7, 0, minus_one=True, doc="Kernel columns.")
    stride_h: int = bits(1, 31, 24, minus_one=True, doc="Vertical stride.")
    stride_w: int = bits(1, 23, 16, minus_one=True, doc="Horizontal stride.")
    stride_offset_in: int = bits(
        1, 15, 8, doc="Place of the first input row among the stride_h rows of its bank."
    )
    stride_offset_out: int = bits(
        1, 7, 0, doc="Place of the first output row among the stride_out rows of its bank."
    )
    stride_out: int = bits(
        2, 31, 24, minus_one=True, doc="Consecutive output rows that live in one bank."
    )
    channel_group: int = bits(2, 23, 16, minus_one=True, doc="Groups of CP channels.")
    channel_offset: int = bits(
        2, 15, 11, doc="Lanes of the last group that hold no channel; they read as padding."
    )
    length: int = bits(2, 10, 0, minus_one=True, doc="Output columns.")
    shift_prelu_p: int = bits(
        3, 27, 22, doc="PRELU, LEAKYRELU: shift where x >= 0; n < 32 left by n, 32 + n right by n."
    )
    act_type: int = bits(3, 21, 18, doc="Activation (`ActType`); the DWCV modes only.")
    shift_bias: int = bits(
        3, 17, 12, doc="Left shift of the bias, at most 20; HSIGMOID: position of the input."
    )
    shift_cut: int = bits(
        3,
        11,
        6,
        doc="Right shift of the result; pooling modes: 8 + n right by n, n left by n.",
    )
    shift_prelu_n: int = bits(3, 5, 0, doc="The same where x < 0, after the factor.")
    multi_factor: int = bits(4, 30, 23, doc="Factor of AVEPOOL and LEAKYRELU, read as int8.")
    jump_read: int = bits(
        4, 22, 13, minus_one=True, doc="Words between two pixels of a row, input side."
    )
    jump_read_endl: int = bits(
        4, 12, 0, minus_one=True, doc="Words between two rows that live in one bank, input side."
    )
    jump_read_weights: int = bits(
        5, 31, 23, doc="Words between the taps of one channel group in DWCONVW."
    )
    jump_write: int = bits(
        5, 22, 13, minus_one=True, doc="Words between two pixels of a row, output side."
    )
    jump_write_endl: int = bits(
        5, 12, 0, minus_one=True, doc="Words between two rows that live in one bank, output side."
    )


class Alu(Instruction):
    """Depthwise convolution, pooling or activation of up to PP_ALU output rows."""

    OPCODE = Opcode.ALU
    ENGINE = Engine.MISC
    WORDS = 5

    bank_id_out: int = bits(0, 19, 14, doc="Bank of the first output row.")
    bank_addr_out: int = bits(0, 13, 0, doc="Word of the first output row.")
    pad_bottom: int = bits(1, 30, 23, doc="kernel_h - 1 - real bottom padding.")
    valid_pixel_parallel: int = bits(
        1, 22, 20, minus_one=True, doc="Output rows this instruction makes."
    )
    bank_id_in: int = bits(1, 19, 14, doc="Bank of the first input row.")
    bank_addr_in: int = bits(
        1, 13, 0, doc="Word of input row 0, padding counted, until the banks wrap."
    )
    pad_top: int = bits(2, 29, 26, doc="Zero rows on top.")
    pad_left: int = bits(2, 25, 22, doc="Zero columns on the left.")
    pad_right: int = bits(2, 21, 14, doc="kernel_w - 1 - real right padding.")
    bank_addr_in_1: int = bits(
        2, 13, 0, doc="The same after the first wrap over the banks of the group."
    )
    kernel_d: int = bits(3, 31, 28, minus_one=True, doc="Kernel depth; only 1 is accepted.")
    bank_addr_weights: int = bits(3, 27, 14, doc="First weight word.")
    bank_addr_in_2: int = bits(3, 13, 0, doc="The same after the second wrap.")
    bank_addr_bias: int = bits(4, 27, 14, doc="Bias word.")
    bank_addr_in_3: int = bits(4, 13, 0, doc="The same after the third wrap.")
    table: int = bits(4, 31, 28, extension="table", doc=_TABLE)
    channel_shift: int = bits(1, 31, 31, extension="channel", doc=_CHANNEL_SHIFT)
    scaled: int = bits(
        2,
        31,
        31,
        extension="scaled",
        doc="1: as of CONV; DWCV, AVEPOOL, MAXPOOL only. Padding of DWCV is multi_factor then.",
    )


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


class PoolInit(Instruction):
    """Set up the POOL instructions that follow (older code)."""

    OPCODE = Opcode.POOLINIT
    ENGINE = Engine.MISC
    WORDS = 2

    shift_cut: int = bits(
        0, 19, 16, doc="8 + n: right shift of the result by n; n: left shift by n."
    )
    kernel_w: int = bits(0, 15, 13, minus_one=True, doc="Kernel columns.")
    kernel_h: int = bits(0, 12, 10, minus_one=True, doc="Kernel rows.")
    jump_read: int = bits(
        0, 9, 0, minus_one=True, doc="Words between two pixels of a row, input side."
    )
    jump_write: int = bits(
        1, 30, 21, minus_one=True, doc="Words between two pixels of a row, output side."
    )
    stride_out: int = bits(
        1, 20, 17, minus_one=True, doc="Consecutive output rows that live in one bank."
    )
    stride_offset_out: int = bits(
        1, 16, 14, doc="Place of the first output row among the stride_out rows of its bank."
    )
    valid_pixel_parallel: int = bits(
        1, 13, 11, minus_one=True, doc="Output rows this instruction makes."
    )
    stride_offset_in: int = bits(
        1, 10, 8, doc="Place of the first input row among the stride_h rows of its bank."
    )
    stride_w: int = bits(1, 7, 5, minus_one=True, doc="Horizontal stride.")
    stride_h: int = bits(1, 4, 2, minus_one=True, doc="Vertical stride.")
    pool_type: int = bits(1, 1, 0, doc="Operation (`PoolType`).")


class End(Instruction):
    """End of the program: every queue empty, then interrupt."""

    OPCODE = Opcode.END
    ENGINE = Engine.SAVE
    WORDS = 1


class Conv(Instruction):
    """Convolve: up to PP output rows of OCP channels."""

    OPCODE = Opcode.CONV
    ENGINE = Engine.CONV
    WORDS = 5

    pad_left: int = bits(0, 19, 16, doc="Zero columns on the left.")
    pad_top: int = bits(0, 15, 12, doc="Zero rows on top.")
    bank_addr_in: int = bits(
        0, 11, 0, doc="Word of input row 0, padding counted, until the banks wrap."
    )
    channel_group: int = bits(1, 31, 24, minus_one=True, doc="Groups of CP input channels.")
    pad_right: int = bits(1, 19, 16, doc="kernel_w - 1 - real right padding.")
    pad_bottom: int = bits(1, 15, 12, doc="kernel_h - 1 - real bottom padding.")
    bank_addr_out: int = bits(1, 11, 0, doc="Word of the first output row.")
    length: int = bits(2, 31, 22, minus_one=True, doc="Output columns.")
    bank_id_in: int = bits(2, 17, 12, doc="Bank of the first input row.")
    bank_addr_weights: int = bits(2, 11, 0, doc="First weight word.")
    bank_addr_in_1: int = bits(
        3, 29, 18, doc="The same after the first wrap over the banks of the group."
    )
    bank_id_out: int = bits(3, 17, 12, doc="Bank of the first output row.")
    bank_addr_bias: int = bits(3, 11, 0, doc="Bias word.")
    channel_offset: int = bits(
        4, 28, 24, doc="Lanes of the last group that hold no channel; they read as padding."
    )
    bank_addr_in_3: int = bits(4, 23, 12, doc="The same after the third wrap.")
    bank_addr_in_2: int = bits(4, 11, 0, doc="The same after the second wrap.")
    table: int = bits(1, 23, 20, extension="table", doc=_TABLE)
    channel_shift: int = bits(4, 31, 31, extension="channel", doc=_CHANNEL_SHIFT)
    scaled: int = bits(4, 30, 30, extension="scaled", doc=_SCALED)


class ConvInit(Instruction):
    """Set up the CONV instructions that follow."""

    OPCODE = Opcode.CONVINIT
    ENGINE = Engine.CONV
    WORDS = 4

    act_type: int = bits(0, 19, 16, doc="Activation (`ActType`).")
    shift_cut: int = bits(0, 15, 10, doc="Right shift of the result: w + i - o.")
    jump_read: int = bits(
        0, 9, 0, minus_one=True, doc="Words between two pixels of a row, input side."
    )
    stride_out: int = bits(
        1, 31, 28, minus_one=True, doc="Consecutive output rows that live in one bank."
    )
    shift_bias: int = bits(1, 15, 10, doc="Left shift of the bias, at most 20: w + i - b + 1.")
    jump_read_endl: int = bits(
        1, 9, 0, minus_one=True, doc="Words between two rows that live in one bank, input side."
    )
    stride_h: int = bits(2, 31, 28, minus_one=True, doc="Vertical stride.")
    kernel_h: int = bits(2, 27, 24, minus_one=True, doc="Kernel rows.")
    valid_pixel_parallel: int = bits(
        2, 15, 13, minus_one=True, doc="Output rows this instruction makes."
    )
    stride_offset_in: int = bits(
        2, 12, 10, doc="Place of the first input row among the stride_h rows of its bank."
    )
    jump_write: int = bits(
        2, 9, 0, minus_one=True, doc="Words between two pixels of a row, output side."
    )
    stride_w: int = bits(3, 31, 28, minus_one=True, doc="Horizontal stride.")
    kernel_w: int = bits(3, 27, 24, minus_one=True, doc="Kernel columns.")
    stride_offset_out: int = bits(
        3, 12, 10, doc="Place of the first output row among the stride_out rows of its bank."
    )
    jump_write_endl: int = bits(
        3, 9, 0, minus_one=True, doc="Words between two rows that live in one bank, output side."
    )
    zero_in: int = bits(
        2, 23, 16, extension="scaled", doc="What padding reads under scaled, as int8."
    )


class DptWise(Instruction):
    """Depthwise convolution (older code)."""

    OPCODE = Opcode.DPTWISE
    ENGINE = Engine.MISC
    WORDS = 5

    channel_group: int = bits(0, 19, 12, minus_one=True, doc="Groups of CP channels.")
    bank_addr_in: int = bits(
        0, 11, 0, doc="Word of input row 0, padding counted, until the banks wrap."
    )
    pad_left: int = bits(1, 31, 28, doc="Zero columns on the left.")
    pad_right: int = bits(1, 27, 24, doc="kernel_w - 1 - real right padding.")
    pad_top: int = bits(1, 23, 20, doc="Zero rows on top.")
    pad_bottom: int = bits(1, 19, 16, doc="kernel_h - 1 - real bottom padding.")
    bank_addr_out: int = bits(1, 11, 0, doc="Word of the first output row.")
    act_type: int = bits(2, 31, 28, doc="Activation (`ActType`).")
    length: int = bits(2, 27, 18, minus_one=True, doc="Output columns.")
    bank_id_in: int = bits(2, 17, 12, doc="Bank of the first input row.")
    bank_addr_weights: int = bits(2, 11, 0, doc="First weight word.")
    bank_addr_in_1: int = bits(
        3, 29, 18, doc="The same after the first wrap over the banks of the group."
    )
    bank_id_out: int = bits(3, 17, 12, doc="Bank of the first output row.")
    bank_addr_bias: int = bits(3, 11, 0, doc="Bias word.")
    channel_offset: int = bits(
        4, 28, 24, doc="Lanes of the last group that hold no channel; they read as padding."
    )
    bank_addr_in_3: int = bits(4, 23, 12, doc="The same after the third wrap.")
    bank_addr_in_2: int = bits(4, 11, 0, doc="The same after the second wrap.")
    table: int = bits(1, 15, 12, extension="table", doc=_TABLE)
    channel_shift: int = bits(4, 31, 31, extension="channel", doc=_CHANNEL_SHIFT)


class DwInit(Instruction):
    """Set up the DPTWISE instructions that follow (older code)."""

    OPCODE = Opcode.DWINIT
    ENGINE = Engine.MISC
    WORDS = 3

    jump_read: int = bits(
        0, 19, 10, minus_one=True, doc="Words between two pixels of a row, input side."
    )
    jump_read_endl: int = bits(
        0, 9, 0, minus_one=True, doc="Words between two rows that live in one bank, input side."
    )
    stride_offset_in: int = bits(
        1, 31, 29, doc="Place of the first input row among the stride_h rows of its bank."
    )
    valid_pixel_parallel: int = bits(
        1, 28, 26, minus_one=True, doc="Output rows this instruction makes."
    )
    stride_w: int = bits(1, 25, 22, minus_one=True, doc="Horizontal stride.")
    stride_h: int = bits(1, 21, 18, minus_one=True, doc="Vertical stride.")
    kernel_w: int = bits(1, 17, 14, minus_one=True, doc="Kernel columns.")
    kernel_h: int = bits(1, 13, 10, minus_one=True, doc="Kernel rows.")
    jump_write_endl: int = bits(
        1, 9, 0, minus_one=True, doc="Words between two rows that live in one bank, output side."
    )
    jump_write: int = bits(
        2, 28, 19, minus_one=True, doc="Words between two pixels of a row, output side."
    )
    stride_out: int = bits(
        2, 18, 15, minus_one=True, doc="Consecutive output rows that live in one bank."
    )
    stride_offset_out: int = bits(
        2, 14, 12, doc="Place of the first output row among the stride_out rows of its bank."
    )
    shift_bias: int = bits(2, 11, 6, doc="Left shift of the bias, at most 20: w + i - b + 1.")
    shift_cut: int = bits(2, 5, 0, doc="Right shift of the result: w + i - o.")


class Pool(Instruction):
    """Pool up to PP output rows (older code)."""

    OPCODE = Opcode.POOL
    ENGINE = Engine.MISC
    WORDS = 5

    channel_group: int = bits(0, 19, 12, minus_one=True, doc="Groups of CP channels.")
    bank_addr_in: int = bits(
        0, 11, 0, doc="Word of input row 0, padding counted, until the banks wrap."
    )
    jump_write_endl: int = bits(
        1, 29, 18, minus_one=True, doc="Words between two rows that live in one bank, output side."
    )
    pad_left: int = bits(1, 17, 15, doc="Zero columns on the left.")
    pad_top: int = bits(1, 14, 12, doc="Zero rows on top.")
    pad_right: int = bits(1, 11, 9, doc="kernel_w - 1 - real right padding.")
    pad_bottom: int = bits(1, 8, 6, doc="kernel_h - 1 - real bottom padding.")
    bank_id_in: int = bits(1, 5, 0, doc="Bank of the first input row.")
    jump_read_endl: int = bits(
        2, 27, 16, minus_one=True, doc="Words between two rows that live in one bank, input side."
    )
    length: int = bits(2, 15, 6, minus_one=True, doc="Output columns.")
    bank_id_out: int = bits(2, 5, 0, doc="Bank of the first output row.")
    downsample_kernel_w: int = bits(
        3, 31, 24, minus_one=True, doc="MAX_REDUCE: kernel and stride columns."
    )
    bank_addr_in_1: int = bits(
        3, 23, 12, doc="The same after the first wrap over the banks of the group."
    )
    bank_addr_out: int = bits(3, 11, 0, doc="Word of the first output row.")
    downsample_kernel_h: int = bits(
        4, 31, 24, minus_one=True, doc="MAX_REDUCE: kernel and stride rows."
    )
    bank_addr_in_3: int = bits(4, 23, 12, doc="The same after the third wrap.")
    bank_addr_in_2: int = bits(4, 11, 0, doc="The same after the second wrap.")
    table: int = bits(2, 31, 28, extension="table", doc=_TABLE)


class ElewInit(Instruction):
    """Describe one input of the ELEW that follows."""

    OPCODE = Opcode.ELEWINIT
    ENGINE = Engine.MISC
    WORDS = 3

    bank_id_in: int = bits(0, 19, 14, doc="Bank of the first input row.")
    share_pp: int = bits(0, 13, 13, doc="1: every output row reads the same input row.")
    jump_bank: int = bits(1, 31, 29, minus_one=True, doc="Banks between two input rows.")
    id: int = bits(1, 28, 27, doc="Which input this describes.")
    jump_read_endl: int = bits(
        1, 26, 14, minus_one=True, doc="Words between two rows that live in one bank, input side."
    )
    bank_addr_in: int = bits(
        1, 13, 0, doc="Word of input row 0, padding counted, until the banks wrap."
    )
    shift_read: int = bits(2, 15, 12, doc="Right shift of this input.")
    jump_read: int = bits(2, 11, 0, doc="Words between two pixels of a row; 0 repeats one pixel.")
    term: int = bits(
        2,
        16,
        16,
        extension="scaled",
        doc="Slot of TERM whose entries stand for its bytes under scaled.",
    )
    bank_addr_scale: int = bits(
        2, 31, 20, extension="scaled", doc="First record in SCALE; of input 0 only."
    )


class Elew(Instruction):
    """Element-wise sum or product of two to four inputs."""

    OPCODE = Opcode.ELEW
    ENGINE = Engine.MISC
    WORDS = 3

    bank_id_out: int = bits(0, 19, 14, doc="Bank of the first output row.")
    elew_type: int = bits(0, 13, 12, doc="Operation (`ElewType`).")
    act_type: int = bits(0, 11, 11, doc="0 none, 1 RELU.")
    length: int = bits(0, 10, 0, minus_one=True, doc="Output columns.")
    valid_pixel_parallel: int = bits(
        1, 31, 29, minus_one=True, doc="Output rows this instruction makes."
    )
    num: int = bits(1, 28, 27, minus_one=True, doc="Number of inputs.")
    jump_write_endl: int = bits(
        1, 26, 14, minus_one=True, doc="Words between two rows that live in one bank, output side."
    )
    bank_addr_out: int = bits(1, 13, 0, doc="Word of the first output row.")
    channel_group: int = bits(2, 24, 17, minus_one=True, doc="Groups of CP channels.")
    shift_write: int = bits(
        2, 16, 12, doc="n < 16: left shift of the result by n; 16 + n: right shift by n."
    )
    jump_write: int = bits(
        2, 11, 0, minus_one=True, doc="Words between two pixels of a row, output side."
    )
    table: int = bits(2, 31, 28, extension="table", doc=_TABLE)
    scaled: int = bits(
        2,
        27,
        27,
        extension="scaled",
        doc="1: inputs are terms, results are made by records in SCALE.",
    )


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
