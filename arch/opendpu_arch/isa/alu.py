# SPDX-License-Identifier: Apache-2.0
"""Instructions of the misc engine for depthwise convolutions, pooling and activations."""

from opendpu_arch.bits import bits
from opendpu_arch.isa.codes import Engine, Opcode
from opendpu_arch.isa.instruction import CHANNEL_SHIFT, TABLE, Instruction


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
    shift_prelu_n: int = bits(3, 5, 0, doc="As shift_prelu_p, where x < 0, after the factor.")
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
        2, 13, 0, doc="As bank_addr_in, after the first wrap over the banks of the group."
    )
    kernel_d: int = bits(3, 31, 28, minus_one=True, doc="Kernel depth; only 1 is accepted.")
    bank_addr_weights: int = bits(3, 27, 14, doc="First weight word.")
    bank_addr_in_2: int = bits(3, 13, 0, doc="As bank_addr_in, after the second wrap.")
    bank_addr_bias: int = bits(4, 27, 14, doc="Bias word.")
    bank_addr_in_3: int = bits(4, 13, 0, doc="As bank_addr_in, after the third wrap.")
    table: int = bits(4, 31, 28, extension="table", doc=TABLE)
    channel_shift: int = bits(1, 31, 31, extension="channel", doc=CHANNEL_SHIFT)
    scaled: int = bits(
        2,
        31,
        31,
        extension="scaled",
        doc="1: as CONV's; DWCV, AVEPOOL, MAXPOOL only. Padding of DWCV is multi_factor then.",
    )


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
        3, 29, 18, doc="As bank_addr_in, after the first wrap over the banks of the group."
    )
    bank_id_out: int = bits(3, 17, 12, doc="Bank of the first output row.")
    bank_addr_bias: int = bits(3, 11, 0, doc="Bias word.")
    channel_offset: int = bits(
        4, 28, 24, doc="Lanes of the last group that hold no channel; they read as padding."
    )
    bank_addr_in_3: int = bits(4, 23, 12, doc="As bank_addr_in, after the third wrap.")
    bank_addr_in_2: int = bits(4, 11, 0, doc="As bank_addr_in, after the second wrap.")
    table: int = bits(1, 15, 12, extension="table", doc=TABLE)
    channel_shift: int = bits(4, 31, 31, extension="channel", doc=CHANNEL_SHIFT)


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
        3, 23, 12, doc="As bank_addr_in, after the first wrap over the banks of the group."
    )
    bank_addr_out: int = bits(3, 11, 0, doc="Word of the first output row.")
    downsample_kernel_h: int = bits(
        4, 31, 24, minus_one=True, doc="MAX_REDUCE: kernel and stride rows."
    )
    bank_addr_in_3: int = bits(4, 23, 12, doc="As bank_addr_in, after the third wrap.")
    bank_addr_in_2: int = bits(4, 11, 0, doc="As bank_addr_in, after the second wrap.")
    table: int = bits(2, 31, 28, extension="table", doc=TABLE)
