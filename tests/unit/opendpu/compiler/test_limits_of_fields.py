# SPDX-License-Identifier: Apache-2.0
"""What instructions reach, as fields can say it: one more does not encode."""

import pytest

from opendpu.compiler import limits
from opendpu_arch.errors import EncodingError
from opendpu_arch.isa import Alu, AluInit, Conv, ConvInit, Elew, ElewInit, Instruction, Load, Save

FIELDS: list[tuple[int, list[tuple[type[Instruction], str]]]] = [
    (limits.MAX_COLUMNS, [(Conv, "length"), (AluInit, "length"), (Elew, "length")]),
    (limits.MAX_PIXELS, [(Load, "length"), (Save, "length")]),
    (limits.MAX_PIXEL_JUMP, [(Load, "jump_read"), (Save, "jump_write")]),
    (limits.MAX_WORD_JUMP, [(Load, "jump_write")]),
    (limits.MAX_SAVE_BYTES, [(Save, "channel")]),
    (limits.MAX_LOAD_PAD, [(Load, "pad_start"), (Load, "pad_end")]),
    (
        limits.MAX_CHANNEL_GROUPS,
        [(Conv, "channel_group"), (AluInit, "channel_group"), (Elew, "channel_group")],
    ),
    (limits.MAX_CONV_KERNEL, [(ConvInit, "kernel_h"), (ConvInit, "kernel_w")]),
    (limits.MAX_ALU_KERNEL, [(AluInit, "kernel_h"), (AluInit, "kernel_w")]),
    (
        limits.MAX_PAD_BEFORE,
        [(Conv, "pad_top"), (Conv, "pad_left"), (Alu, "pad_top"), (Alu, "pad_left")],
    ),
    (limits.CONV_REACH.rows_per_bank - 1, [(ConvInit, "stride_offset_in")]),
    (limits.CONV_REACH.row_jump, [(ConvInit, "jump_read_endl"), (ConvInit, "jump_write_endl")]),
    (limits.MISC_REACH.rows_per_bank, [(AluInit, "stride_h")]),
    (
        limits.MISC_REACH.row_jump,
        [
            (AluInit, "jump_read_endl"), (AluInit, "jump_write_endl"),
            (ElewInit, "jump_read_endl"), (Elew, "jump_write_endl"),
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("most", "fields"), FIELDS)
def test_a_limit_is_the_narrowest_field(
    most: int, fields: list[tuple[type[Instruction], str]]
) -> None:
    for instruction, field in fields:
        instruction(**{field: most}).encode()
    refused = 0
    for instruction, field in fields:
        try:
            instruction(**{field: most + 1}).encode()
        except EncodingError:
            refused += 1
    assert refused


def test_an_instruction_names_four_address_groups() -> None:
    assert limits.ADDRESS_GROUPS == 4
    for instruction in (Conv, Alu):
        names = [f.name for f in instruction.bit_fields() if f.name.startswith("bank_addr_in")]
        assert len(names) == limits.ADDRESS_GROUPS
