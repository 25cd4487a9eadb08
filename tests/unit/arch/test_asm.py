# SPDX-License-Identifier: Apache-2.0
"""Assembly text: round trips and what the assembler says about bad text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendpu_arch import asm, isa
from opendpu_arch.errors import DecodeError, DPUError, EncodingError


@given(st.data())
def test_text_comes_back(data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from(list(isa.INSTRUCTIONS.values())))
    values = {f.name: data.draw(st.integers(f.minimum, f.maximum)) for f in cls.bit_fields()}
    reserved = tuple(
        data.draw(st.sampled_from([0, 0xFFFF_FFFF])) & ~claimed for claimed in cls.claimed()
    )
    instruction = cls(reserved=reserved if any(reserved) else (), **values)
    text = asm.disassemble([instruction, isa.End()])
    assert asm.parse(text) == [instruction, isa.End()]
    assert asm.assemble(text) == isa.encode([instruction, isa.End()])
    assert asm.disassemble(asm.assemble(text)) == text


def test_a_line_names_every_field() -> None:
    assert asm.format_instruction(isa.Elew(num=2, length=7, elew_type=isa.ElewType.MULT)) == (
        "ELEW dpdon=0 dpdby=0 bank_id_out=0 elew_type=1 act_type=0 length=7 "
        "valid_pixel_parallel=1 num=2 jump_write_endl=1 bank_addr_out=0 channel_group=1 "
        "shift_write=0 jump_write=1"
    )


def test_fields_of_extensions_are_shown_only_where_they_are_set() -> None:
    assert asm.format_instruction(isa.Elew()).endswith(" shift_write=0 jump_write=1")
    text = asm.format_instruction(isa.Elew(table=3))
    assert text.endswith(" shift_write=0 jump_write=1 table=3")
    assert asm.parse(text) == [isa.Elew(table=3)]


def test_reserved_bits_are_shown_only_where_there_are_any() -> None:
    assert asm.format_instruction(isa.End()) == "END dpdon=0 dpdby=0"
    assert (
        asm.format_instruction(isa.End(reserved=(0xABC,))) == "END dpdon=0 dpdby=0 reserved=0xabc"
    )


def test_comments_blank_lines_and_other_bases_are_read() -> None:
    text = "# a program\n\n  LOAD length=0x10 channel=0b100  # four bytes each\nEND\n"
    assert asm.parse(text) == [isa.Load(length=16, channel=4), isa.End()]


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("JUMP", DecodeError, "line 2: unknown mnemonic 'JUMP', must be one of ALU, ALUINIT, CONV"),
        ("END speed=1", DecodeError, "line 2: END has no field 'speed', only dpdby, dpdon"),
        ("END dpdon", DecodeError, "line 2: 'dpdon' is not field=integer"),
        ("END dpdon=", DecodeError, "line 2: 'dpdon=' is not field=integer"),
        ("END dpdon=two", DecodeError, "line 2: 'dpdon=two' is not field=integer"),
        ("END reserved=x", DecodeError, "line 2: 'reserved=x' is not field=integer"),
        ("END dpdon=1 dpdon=2", DecodeError, "line 2: END has field 'dpdon' twice"),
        ("END dpdon=1 dpdon=1", DecodeError, "line 2: END has field 'dpdon' twice"),
        ("END dpdon=16", EncodingError, "line 2: End.dpdon is 16, but must be in 0..15"),
        ("CONV length=0", EncodingError, "line 2: Conv.length is 0, but must be in 1..1024"),
        (
            "END reserved=0x80000000",
            EncodingError,
            "line 2: End.reserved is (2147483648,), but must be 1 words outside the fields",
        ),
    ],
)
def test_bad_text_is_named_with_its_line(line: str, kind: type[DPUError], message: str) -> None:
    with pytest.raises(kind) as caught:
        asm.assemble(f"END\n{line}\n")
    assert str(caught.value).startswith(message)


def test_bad_code_is_an_error_of_the_disassembler_too() -> None:
    with pytest.raises(DecodeError, match="unknown opcode 0xf"):
        asm.disassemble(b"\0\0\0\xf0")
