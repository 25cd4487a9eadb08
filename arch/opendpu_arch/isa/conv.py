# SPDX-License-Identifier: Apache-2.0
"""Instructions of CONV."""

from opendpu_arch.bits import bits
from opendpu_arch.isa.codes import Engine, Opcode
from opendpu_arch.isa.instruction import CHANNEL_SHIFT, SCALED, TABLE, Instruction


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
        3, 29, 18, doc="As bank_addr_in, after the first wrap over the banks of the group."
    )
    bank_id_out: int = bits(3, 17, 12, doc="Bank of the first output row.")
    bank_addr_bias: int = bits(3, 11, 0, doc="Bias word.")
    channel_offset: int = bits(
        4, 28, 24, doc="Lanes of the last group that hold no channel; they read as padding."
    )
    bank_addr_in_3: int = bits(4, 23, 12, doc="As bank_addr_in, after the third wrap.")
    bank_addr_in_2: int = bits(4, 11, 0, doc="As bank_addr_in, after the second wrap.")
    table: int = bits(1, 23, 20, extension="table", doc=TABLE)
    channel_shift: int = bits(4, 31, 31, extension="channel", doc=CHANNEL_SHIFT)
    scaled: int = bits(4, 30, 30, extension="scaled", doc=SCALED)
