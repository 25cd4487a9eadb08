# SPDX-License-Identifier: Apache-2.0
"""How far an instruction reaches: what its fields can carry, as the compiler's limits."""

import dataclasses

from opendpu_arch.isa import Alu, AluInit, Conv, ConvInit, Elew, ElewInit, Instruction, Load, Save
from opendpu_arch.numerics import prelu_shift, write_shift

ADDRESS_GROUPS = sum(field.name.startswith("bank_addr_in") for field in Conv.bit_fields())
"""Address groups of its input that an instruction names."""


def largest(instruction: type[Instruction], field: str) -> int:
    """Return the largest value that a field of an instruction can carry."""
    return instruction.values_of(field)[-1]


MAX_COLUMNS = min(largest(Conv, "length"), largest(AluInit, "length"), largest(Elew, "length"))
"""Output columns of one instruction of either engine."""
MAX_PIXELS = min(largest(Load, "length"), largest(Save, "length"))
"""Pixels of one LOAD or SAVE."""
MAX_PIXEL_JUMP = min(largest(Load, "jump_read"), largest(Save, "jump_write"))
"""Bytes between two pixels of a LOAD or SAVE in DDR."""
MAX_WORD_JUMP = largest(Load, "jump_write")
"""Words between two pixels of a LOAD in its bank."""
MAX_SAVE_BYTES = largest(Save, "channel")
"""Bytes a pixel of one SAVE."""
MAX_LOAD_PAD = min(largest(Load, "pad_start"), largest(Load, "pad_end"))
"""Bytes at either end of a pixel that LOAD zeroes."""
MAX_PADDED_BYTES = 64
"""Bytes of a pixel up to which LOAD zeroes any of them."""
MAX_CHANNEL_GROUPS = min(
    largest(Conv, "channel_group"),
    largest(AluInit, "channel_group"),
    largest(Elew, "channel_group"),
)
"""Channel groups of one instruction: those it reads, for the misc engine also those it writes."""
MAX_CONV_KERNEL = min(largest(ConvInit, "kernel_h"), largest(ConvInit, "kernel_w"))
"""Rows and columns of a kernel of CONV."""
MAX_ALU_KERNEL = min(largest(AluInit, "kernel_h"), largest(AluInit, "kernel_w"))
"""Rows and columns of a kernel of ALU."""
MAX_CONV_STRIDE = 8
"""Rows and columns that a kernel of CONV moves on by; the guide's limit, the field says more."""
MAX_PAD_BEFORE = min(
    largest(Conv, "pad_top"), largest(Conv, "pad_left"),
    largest(Alu, "pad_top"), largest(Alu, "pad_left"),
)  # fmt: skip
"""Top and left padding of an instruction."""
MAX_STRIDE_OUT = 4
"""Rows a bank that several output rows at a time are written to; a row alone goes anywhere."""
MAX_SHIFT_CUT = largest(ConvInit, "shift_cut")
"""Bits by which a result of CONV or ALU goes to the right."""
MAX_SHIFT_READ = largest(ElewInit, "shift_read")
"""Bits by which an input of ELEW goes to the right."""
MAX_SHIFT_WRITE = max(map(write_shift, Elew.values_of("shift_write")))
"""Bits by which a result of ELEW goes either way."""
MAX_SHIFT_PRELU = max(map(prelu_shift, AluInit.values_of("shift_prelu_p")))
"""Bits of ``shift_prelu_p`` and ``shift_prelu_n``, either way."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reach:
    """How far the instructions of an engine reach in the image banks."""

    rows_per_bank: int
    """Input rows that may share a bank."""
    row_jump: int
    """Words between two rows that share a bank, and between address groups of a result."""


CONV_REACH = Reach(
    rows_per_bank=min(largest(ConvInit, "stride_h"), largest(ConvInit, "stride_offset_in") + 1),
    row_jump=min(largest(ConvInit, "jump_read_endl"), largest(ConvInit, "jump_write_endl")),
)
MISC_REACH = Reach(
    rows_per_bank=min(largest(AluInit, "stride_h"), largest(AluInit, "stride_offset_in") + 1),
    row_jump=min(largest(AluInit, "jump_read_endl"), largest(AluInit, "jump_write_endl")),
)
