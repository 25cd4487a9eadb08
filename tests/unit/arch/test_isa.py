# SPDX-License-Identifier: Apache-2.0
"""Instructions: the formats against AMD's files, and round trips over all encodings."""

import pathlib
import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xir
from opendpu_arch import isa
from opendpu_arch.errors import DecodeError

CLASSES = list(isa.INSTRUCTIONS.values())

WORDS = {
    "LOAD": 5, "SAVE": 5, "CONVINIT": 4, "CONV": 5, "POOLINIT": 2, "POOL": 5, "ALUINIT": 6,
    "ALU": 5, "DWINIT": 3, "DPTWISE": 5, "ELEWINIT": 3, "ELEW": 3, "END": 1,
}  # fmt: skip

QUEUES = {
    isa.Engine.LOAD: {"LOAD"},
    isa.Engine.SAVE: {"SAVE", "END"},
    isa.Engine.CONV: {"CONVINIT", "CONV"},
    isa.Engine.MISC: set(WORDS) - {"LOAD", "SAVE", "END", "CONVINIT", "CONV"},
}


@st.composite
def instructions(draw: st.DrawFn) -> isa.Instruction:
    """Any instruction: every field anywhere in its range, reserved bits too."""
    cls = draw(st.sampled_from(CLASSES))
    values = {f.name: draw(st.integers(f.minimum, f.maximum)) for f in cls.bit_fields()}
    reserved = tuple(draw(st.integers(0, 0xFFFF_FFFF)) & ~claimed for claimed in cls.claimed())
    return cls(reserved=reserved if any(reserved) else (), **values)


@given(st.lists(instructions(), max_size=8))
def test_values_come_back(program: list[isa.Instruction]) -> None:
    assert isa.decode(isa.encode(program)) == program


@given(st.data())
def test_words_come_back(data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from(CLASSES))
    words = [data.draw(st.integers(0, 0xFFFF_FFFF)) for _ in range(cls.WORDS)]
    words[0] = words[0] & 0x0FFF_FFFF | cls.OPCODE << 28
    code = struct.pack(f"<{cls.WORDS}I", *words)
    [decoded] = isa.decode(code)
    assert type(decoded) is cls
    assert isa.encode([decoded]) == code


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.mnemonic())
def test_no_two_fields_share_a_bit(cls: type[isa.Instruction]) -> None:
    taken = [mask for mask, _ in cls.FIXED]
    for f in cls.bit_fields():
        assert 0 <= f.low <= f.high < 32
        assert not taken[f.word] & f.mask, f.name
        taken[f.word] |= f.mask
        assert f.doc.endswith("."), f.name


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.mnemonic())
def test_each_format_has_its_length_and_queue(cls: type[isa.Instruction]) -> None:
    assert WORDS[cls.mnemonic()] == cls.WORDS
    assert cls.mnemonic() in QUEUES[cls.ENGINE]


def test_every_opcode_has_a_format() -> None:
    assert set(isa.INSTRUCTIONS) == set(isa.Opcode)
    assert {cls.mnemonic() for cls in CLASSES} == set(WORDS)


@pytest.mark.parametrize(
    ("instruction", "words"),
    [
        (isa.End(dpdon=2, dpdby=2), (0x7220_0000,)),
        (
            isa.Load(
                dpdon=1, dpdby=5, bank_id=16, bank_addr=0x7F2, jump_read=9, jump_write=1,
                channel=16, length=9, reg_id=0, ddr_addr=0x1000,
            ),
            (0x0154_07F2, 0x0000_2000, 0x0000_3C08, 0, 0x1000),
        ),
        (
            isa.Save(hp_id=1, argmax=3, jump_write=16, jump_read=2, channel=10, length=3, reg_id=3),
            (0x4000_0000, 0x3800_3C01, 0x0000_2402, 3, 0),
        ),
        (
            isa.Conv(pad_left=1, pad_top=2, bank_addr_in=3, channel_group=4, pad_right=5,
                     pad_bottom=15, bank_addr_out=6, length=26, bank_id_in=7, bank_addr_weights=8,
                     bank_addr_in_1=9, bank_id_out=10, bank_addr_bias=11, channel_offset=12,
                     bank_addr_in_3=13, bank_addr_in_2=14),
            (0x8001_2003, 0x0305_F006, 0x0640_7008, 0x0024_A00B, 0x0C00_D00E),
        ),
    ],
    ids=["END", "LOAD", "SAVE", "CONV"],
)  # fmt: skip
def test_encodings_worked_out_by_hand(instruction: isa.Instruction, words: tuple[int, ...]) -> None:
    assert instruction.encode() == words
    assert isa.decode(struct.pack(f"<{len(words)}I", *words)) == [instruction]


def test_tokens_go_to_and_come_from_other_engines() -> None:
    conv = isa.Conv(dpdon=0b0101, dpdby=0b1110)
    assert conv.waits_for() == (isa.Engine.LOAD,)
    assert conv.signals() == (isa.Engine.SAVE, isa.Engine.MISC)
    assert isa.End(dpdon=0b0010).waits_for() == ()


def test_code_of_odd_length_is_refused() -> None:
    with pytest.raises(
        DecodeError, match=r"^machine code is 5 bytes, but must be a multiple of 4$"
    ):
        isa.decode(b"\0" * 5)


def test_an_unknown_opcode_is_named_with_its_place() -> None:
    code = isa.encode([isa.ElewInit(), isa.End()]) + struct.pack("<I", 0x3000_0000)
    with pytest.raises(DecodeError) as caught:
        isa.decode(code)
    message = str(caught.value)
    assert message.startswith("instruction 2 at byte 0x10: unknown opcode 0x3 (known: LOAD=0x0, ")
    assert "END=0x7" in message


def test_an_instruction_that_is_cut_is_named_with_its_place() -> None:
    code = isa.encode([isa.End(), isa.Conv()])[:-4]
    with pytest.raises(
        DecodeError,
        match=r"^instruction 1 at byte 0x4: CONV needs 5 words, but only 4 are left$",
    ):
        isa.decode(code)


def test_formats_are_those_of_the_reference(models: pathlib.Path) -> None:
    page = models.parent / "reference" / "isa.md"
    if not page.is_file():
        pytest.skip(f"no reference in {page}")
    listed = {}
    for name, opcode, words, fields in re.findall(
        r"^(\w+) opcode=0x(\w+) words=(\d): (.*)$", page.read_text(encoding="utf-8"), re.M
    ):
        listed[name] = (
            (int(opcode, 16), int(words)),
            {
                (field, int(word), int(high), int(low), bool(biased))
                for field, word, high, low, biased in re.findall(
                    r"(\w+) w(\d)\[(\d+):(\d+)\]( \(v-1\))?", fields
                )
            },
        )
    for cls in CLASSES:
        head, fields = listed[cls.mnemonic()]
        assert head == (cls.OPCODE, cls.WORDS)
        own = {
            (f.name, f.word, f.high, f.low, f.minus_one)
            for f in cls.bit_fields()
            if not f.extension
        }
        assert own == fields - {("opcode", 0, 31, 28, False)}, cls.mnemonic()


def _programs(path: pathlib.Path) -> list[bytes]:
    root = xir.Graph.deserialize(str(path)).get_root_subgraph()
    return [
        bytes(s.get_attr("mc_code"))
        for s in root.toposort_child_subgraph()
        if s.has_attr("mc_code")
    ]


@pytest.mark.parametrize(
    ("name", "counts"),
    [("dpu_mnist_classifier.xmodel", [230]), ("tf2_custom_op.xmodel", [185, 19])],
)
def test_programs_of_amd_come_back(models: pathlib.Path, name: str, counts: list[int]) -> None:
    codes = _programs(models / "amd_compiled" / name)
    programs = [isa.decode(code) for code in codes]
    assert [len(p) for p in programs] == counts
    for code, program in zip(codes, programs, strict=True):
        assert isa.encode(program) == code
        assert isinstance(program[-1], isa.End)


def test_amds_compiler_writes_fields_of_extensions_as_zero(models: pathlib.Path) -> None:
    seen: dict[str, int] = {}
    for path in sorted((models / "amd_compiled").glob("*.xmodel")):
        for code in _programs(path):
            for i in isa.iter_decode(code):
                fields = [f.name for f in i.bit_fields() if f.extension]
                assert not any(getattr(i, name) for name in fields), i
                seen[i.mnemonic()] = seen.get(i.mnemonic(), 0) + len(fields)
                if isinstance(i, isa.Load) and i.broadcast != isa.LOAD_CONSTANT:
                    assert not i.const_value, i  # what padding is with ``scaled``
    assert seen["CONV"] >= 32
    assert seen["ALU"] >= 8


def test_extensions_have_the_fields_that_the_page_says() -> None:
    fields = {
        (c.mnemonic(), f.name, f.extension) for c in CLASSES for f in c.bit_fields() if f.extension
    }
    tabled = {"CONV", "ALU", "POOL", "DPTWISE", "ELEW"}
    shifted = {"CONV", "ALU", "DPTWISE"}
    assert fields == {(name, "table", "table") for name in tabled} | {
        (name, "channel_shift", "channel") for name in shifted
    } | {(name, "scaled", "scaled") for name in ("CONV", "ALU", "ELEW")} | {
        ("CONVINIT", "zero_in", "scaled"),
        ("ELEWINIT", "term", "scaled"),
        ("ELEWINIT", "bank_addr_scale", "scaled"),
    }


@pytest.mark.parametrize("name", ["dpu_mnist_classifier.xmodel", "tf2_custom_op.xmodel"])
def test_tokens_of_amd_balance(models: pathlib.Path, name: str) -> None:
    for code in _programs(models / "amd_compiled" / name):
        balance: dict[tuple[isa.Engine, isa.Engine], int] = {}
        for i in isa.iter_decode(code):
            for giver in i.waits_for():
                balance[giver, i.ENGINE] = balance.get((giver, i.ENGINE), 0) - 1
            for taker in i.signals():
                balance[i.ENGINE, taker] = balance.get((i.ENGINE, taker), 0) + 1
        assert balance
        assert not any(balance.values()), balance
