# SPDX-License-Identifier: Apache-2.0
"""Targets: the registered ones, every option in the fingerprint, both forms of arch.json."""

import dataclasses
import itertools
import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendpu_arch import table
from opendpu_arch.errors import TargetError
from opendpu_arch.extensions import Extension
from opendpu_arch.target import ARCHITECTURES, Target, registered

PUBLISHED = {
    "B512": (4, 8, 0x0101_0000_5601_0200),
    "B800": (4, 10, 0x0101_0000_5601_0201),
    "B1024": (8, 8, 0x0101_0000_5601_0402),
    "B1152": (4, 12, 0x0101_0000_5601_0203),
    "B1600": (8, 10, 0x0101_0000_5601_0404),
    "B2304": (8, 12, 0x0101_0000_5601_0405),
    "B3136": (8, 14, 0x0101_0000_5601_0406),
    "B4096": (8, 16, 0x0101_0000_5601_0407),
}
SMALL = {"B128": (4, 4), "B144": (2, 6), "B256": (2, 8), "B64": (2, 4)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_targets_have_their_fingerprint(name: str) -> None:
    target = Target.from_name(name)
    pixels, channels, fingerprint = PUBLISHED[name]
    assert (target.pixel_parallel, target.channel_parallel) == (pixels, channels)
    assert target.fingerprint == fingerprint
    assert target.name == f"DPUCZDX8G_ISA1_{name}"


def test_case_does_not_matter() -> None:
    b512 = Target.from_name("B512")
    for name in ("b512", "dpuczdx8g_isa1_b512", f"0X{b512.fingerprint:X}"):
        assert Target.from_name(name) == b512


def test_an_unregistered_name_in_small_letters() -> None:
    target = Target.from_fingerprint(0x0101_0000_1601_0407)
    assert Target.from_name(target.name.lower()) == target


@pytest.mark.parametrize("name", SMALL)
def test_small_targets_exist(name: str) -> None:
    target = Target.from_name(name)
    assert (target.pixel_parallel, target.channel_parallel) == SMALL[name]
    assert target.peak == int(name[1:])


def test_every_architecture_is_registered_smallest_first() -> None:
    targets = [Target.from_name(name) for name in registered()]
    assert {t.arch for t in targets} == set(range(len(ARCHITECTURES)))
    peaks = [t.peak for t in targets]
    assert peaks == sorted(set(peaks))


@pytest.mark.parametrize("full", registered())
def test_every_spelling_of_a_target_is_the_same(full: str) -> None:
    target = Target.from_name(full)
    assert Target.from_name(full.rpartition("_")[2]) == target
    assert Target.from_name(hex(target.fingerprint)) == target
    assert Target.from_fingerprint(target.fingerprint) == target
    assert target.name == full
    assert target.peak == 2 * target.pixel_parallel * target.channel_parallel**2


def test_banks_of_b4096_are_where_amd_puts_them() -> None:
    target = Target.from_name("B4096")
    assert (target.image_banks, target.convw_base, target.dwconvw_bank, target.bias_bank) == (
        16, 16, 32, 33,
    )  # fmt: skip
    assert (target.bank_count, target.bank_depth, target.alu_pixel_parallel) == (34, 2048, 4)
    assert target.input_channel_parallel == target.output_channel_parallel == 16
    assert target.macs_per_cycle == 2048


@st.composite
def targets(draw: st.DrawFn) -> Target:
    """Any machine that a fingerprint can describe."""
    arch = draw(st.integers(0, len(ARCHITECTURES) - 1))
    return Target(
        arch=arch,
        alu_pixel_parallel=draw(st.integers(1, ARCHITECTURES[arch][0])),
        bank_groups=draw(st.integers(1, 3)),
        channel_augmentation=draw(st.booleans()),
        load_mean=draw(st.booleans()),
        conv_leaky_relu=draw(st.booleans()),
        alu_leaky_relu=draw(st.booleans()),
        save_argmax=draw(st.booleans()),
        log2_conv_write_parallel=draw(st.integers(0, 3)),
        log2_alu_write_parallel=draw(st.integers(0, 3)),
        reserved_features=draw(st.integers(0, (1 << 48) - 1)) & 0x8FF0_80FF_F0F0,
        extensions=draw(st.frozensets(st.sampled_from(Extension))),
    )


@given(targets())
def test_a_fingerprint_says_everything(target: Target) -> None:
    assert target.fingerprint >> 48 == 0x0101
    assert Target.from_fingerprint(target.fingerprint) == target
    assert Target.from_name(target.name) == target
    assert Target.from_name(f"0x{target.fingerprint:X}") == target


OPTIONS: dict[str, tuple[object, ...]] = {
    "alu_pixel_parallel": (1, 2, 4, 8),
    "bank_groups": (1, 2, 3),
    "channel_augmentation": (False, True),
    "load_mean": (False, True),
    "conv_leaky_relu": (False, True),
    "alu_leaky_relu": (False, True),
    "save_argmax": (False, True),
    "log2_conv_write_parallel": (0, 1, 2, 3),
    "log2_alu_write_parallel": (0, 1, 2, 3),
    "extensions": tuple(
        frozenset(e for e in Extension if n >> e & 1) for n in range(1 << len(Extension))
    ),
}


def test_every_option_changes_the_fingerprint() -> None:
    base = Target.from_name("B4096")
    fields = {f.name for f in dataclasses.fields(Target)}
    assert set(OPTIONS) == fields - {"arch", "reserved_features", "bank_depth"}
    for option, values in OPTIONS.items():
        prints = {dataclasses.replace(base, **{option: v}).fingerprint for v in values}
        assert len(prints) == len(values), option


def test_all_combinations_of_options_differ() -> None:
    base = Target.from_name("B4096")
    names = list(OPTIONS)
    combinations = list(itertools.product(*OPTIONS.values()))
    prints = {
        dataclasses.replace(base, **dict(zip(names, c, strict=True))).fingerprint
        for c in combinations
    }
    assert len(prints) == len(combinations)


def test_the_image_of_vitis_ai_2_5_has_no_argmax_and_an_unregistered_name() -> None:
    target = Target.from_fingerprint(0x0101_0000_1601_0407)
    assert not target.save_argmax
    assert target.conv_leaky_relu
    assert target.channel_augmentation
    assert target.bank_groups == 2
    assert target.name == "DPUCZDX8G_ISA1_B4096_0101000016010407"


@pytest.mark.parametrize(
    ("fingerprint", "message"),
    [
        (
            0x0603_000B_5601_1861,
            "fingerprint 0x603000b56011861 is DPU type 6, ISA 3, "
            "but must be type 1 (DPUCZDX8G), ISA 1",
        ),
        (
            0x0100_0020_F601_4407,
            "fingerprint 0x1000020f6014407 is DPU type 1, ISA 0, "
            "but must be type 1 (DPUCZDX8G), ISA 1",
        ),
        (0x0101_0000_5601_040C, "ARCH index is 12, but must be in 0..11"),
        (0x0101_0000_5601_0507, None),
        (0x0101_0000_5601_0507 + 0x400, "ALU pixel parallel is 9, but must be in 1..8"),
        (0x0101_0000_5601_0007, "ALU pixel parallel is 0, but must be in 1..8"),
        (0x0101_0000_5401_0407, "image bank groups are 0, but must be in 1..3"),
    ],
)
def test_fingerprints_of_other_machines_are_refused(fingerprint: int, message: str | None) -> None:
    if message is None:
        assert Target.from_fingerprint(fingerprint).alu_pixel_parallel == 5
        return
    with pytest.raises(TargetError) as caught:
        Target.from_fingerprint(fingerprint)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arch": -1}, "ARCH index is -1, but must be in 0..11"),
        ({"bank_groups": 4}, "image bank groups are 4, but must be in 1..3"),
        ({"log2_conv_write_parallel": 4}, "log2_conv_write_parallel is 4, but must be in 0..3"),
        ({"log2_alu_write_parallel": -1}, "log2_alu_write_parallel is -1, but must be in 0..3"),
        (
            {"reserved_features": 0x107},
            "reserved_features is 0x107, but must keep to the bits 0x8ff080fff0f0",
        ),
        ({"bank_depth": 1000}, "bank depth is 1000, but must be a power of two"),
    ],
)
def test_machines_that_cannot_be_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(TargetError) as caught:
        dataclasses.replace(Target.from_name("B4096"), **options)
    assert caught.value.message == message


@pytest.mark.parametrize(
    "name",
    [
        "B4097",
        "",
        "c4096",
        "DPUCZDX8G_ISA1_B512_0101000056010407",
        "DPUCZDX8G_ISA0_B4096",
        "x" * 16,
    ],
)
def test_unknown_names_list_the_known_ones(name: str) -> None:
    with pytest.raises(TargetError) as caught:
        Target.from_name(name)
    message = caught.value.message
    assert message.startswith(f"no target is called {name!r}; known: DPUCZDX8G_ISA1_B64, ")
    assert message.endswith("DPUCZDX8G_ISA1_B4096")


def test_extensions_are_in_name_fingerprint_and_arch_json() -> None:
    plain, target = Target.from_name("B4096"), Target.from_name("b4096+Table")
    assert target.name == "DPUCZDX8G_ISA1_B4096+table"
    assert target.extensions == {Extension.TABLE}
    assert target.fingerprint == plain.fingerprint | 1 << 44 == 0x0101_1000_5601_0407
    assert Target.from_name(target.name) == target
    assert Target.from_name("0x101000056010407+table") == target
    assert Target.from_name("DPUCZDX8G_ISA1_B4096_0101100056010407") == target
    assert Target.from_arch_json({"target": target.name}) == target
    assert Target.from_arch_json({"fingerprint": "0x101100056010407"}) == target
    both = {"target": "DPUCZDX8G_ISA1_B4096+table", "fingerprint": "0x101000056010407"}
    with pytest.raises(TargetError, match="not 0x101000056010407"):
        Target.from_arch_json(both)


def test_a_target_without_a_registered_name_has_extensions_behind_it() -> None:
    target = Target.from_fingerprint(0x0101_1000_1601_0407)
    assert target.name == "DPUCZDX8G_ISA1_B4096_0101000016010407+table"
    assert Target.from_name(target.name) == target


def test_a_target_runs_what_needs_fewer_extensions() -> None:
    plain, target = Target.from_name("B4096"), Target.from_name("B4096+table")
    assert target.plain == plain
    assert target.runs(plain)
    assert target.runs(target)
    assert not plain.runs(target)
    assert not target.runs(Target.from_name("B512"))


def test_what_a_target_lacks_of_a_program() -> None:
    plain, target = Target.from_name("B4096"), Target.from_name("B4096+table")
    assert plain.lacks(target.fingerprint) == target.extensions
    assert target.lacks(plain.fingerprint) == target.lacks(target.fingerprint) == frozenset()
    assert plain.lacks(Target.from_name("B512+table").fingerprint) is None
    assert plain.lacks(0x0200_0000_0000_0001) is None  # no DPU that is known


def test_the_tables_have_a_bank_of_their_own() -> None:
    plain, target = Target.from_name("B512"), Target.from_name("B512+table")
    assert (plain.bank_count, target.bank_count) == (18, 19)
    assert target.table_bank == 18
    both, channel = Target.from_name("B512+channel+table"), Target.from_name("B512+channel")
    assert both.name == "DPUCZDX8G_ISA1_B512+table+channel"
    assert (both.table_bank, both.shift_bank, both.bank_count) == (18, 19, 20)
    assert (channel.shift_bank, channel.bank_count) == (18, 19)
    scaled, each = (Target.from_name(f"B512{e}") for e in ("+scaled", "+table+channel+scaled"))
    assert (scaled.scale_bank, scaled.term_bank, scaled.bank_count) == (18, 19, 20)
    assert (each.scale_bank, each.term_bank, each.bank_count) == (20, 21, 22)
    assert table.SLOTS * table.ENTRIES == table.WORDS * table.WORD_BYTES


def test_an_extension_that_does_not_exist_is_refused() -> None:
    text = r"no extension is called 'matmul'; known: table, channel, scaled$"
    with pytest.raises(TargetError, match=text):
        Target.from_name("B4096+table+matmul")


def test_a_fingerprint_that_is_no_number_is_named() -> None:
    text = r"^\[TARGET_FACTORY_PARSE_TARGET_FAIL\] fingerprint '0xhello' is not a hexad"
    with pytest.raises(TargetError, match=text):
        Target.from_name("0xhello")


@pytest.mark.parametrize("full", registered())
@pytest.mark.parametrize("form", ["target", "fingerprint", "both"])
def test_both_forms_of_arch_json_are_read(tmp_path: pathlib.Path, full: str, form: str) -> None:
    target = Target.from_name(full)
    both = {"target": full, "fingerprint": hex(target.fingerprint)}
    content = both if form == "both" else {form: both[form]}
    path = tmp_path / "arch.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert Target.from_arch_json(path) == target
    assert Target.from_arch_json(str(path)) == target
    assert Target.from_arch_json(content) == target


def test_the_fingerprint_in_arch_json_may_lack_its_prefix() -> None:
    assert Target.from_arch_json({"fingerprint": "101000056010407"}).peak == 4096


def test_an_arch_json_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(TargetError) as caught:
        Target.from_arch_json({"target": "DPUCZDX8G_ISA1_B512", "fingerprint": "0x101000056010407"})
    assert str(caught.value).endswith(
        "target DPUCZDX8G_ISA1_B512 has fingerprint 0x101000056010200, not 0x101000056010407"
    )
    with pytest.raises(TargetError, match="not 0x101000056010100"):  # only the ALU is another
        Target.from_arch_json({"target": "DPUCZDX8G_ISA1_B512", "fingerprint": "0x101000056010100"})


@pytest.mark.parametrize("content", ["{}", "[]", "3", '{"target": 3}', '{"name": "B512"}'])
def test_an_arch_json_without_either_entry_is_refused(tmp_path: pathlib.Path, content: str) -> None:
    path = tmp_path / "arch.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(
        TargetError, match=r'has neither a string "target" nor a string "fingerprint"$'
    ):
        Target.from_arch_json(path)


@pytest.mark.parametrize("content", [None, "", "{", b"\xff\xfe"])
def test_an_arch_json_that_cannot_be_read_is_named(
    tmp_path: pathlib.Path, content: str | bytes | None
) -> None:
    path = tmp_path / "arch.json"
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(TargetError, match=r"arch\.json .*arch\.json' cannot be read: "):
        Target.from_arch_json(path)


@pytest.mark.parametrize("board", ["KV260", "ZCU102", "ZCU104"])
def test_the_arch_json_of_a_board_in_amds_containers_need_not_exist(board):
    path = f"/opt/vitis_ai/compiler/arch/DPUCZDX8G/{board}/arch.json"
    assert Target.from_arch_json(path).name == "DPUCZDX8G_ISA1_B4096"


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("arch/DPUCZDX8G/U50/arch.json", "; .* boards known are KV260, .*, but not U50"),
        ("arch/DPUCAHX8H/ZCU102/arch.json", "; it is for a DPUCAHX8H, but DPUs here are DPUCZDX8G"),
        ("KV260/arch.json", "directory$"),
        ("arch/board/KV260/arch.json", "directory$"),
    ],
)
def test_other_arch_json_files_must_exist(path, more, tmp_path):
    with pytest.raises(TargetError, match=f"cannot be read: .*{more}"):
        Target.from_arch_json(tmp_path / path)


def test_an_arch_json_that_exists_holds(tmp_path):
    path = tmp_path / "arch" / "DPUCZDX8G" / "KV260" / "arch.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"target": "DPUCZDX8G_ISA1_B512"}')
    assert Target.from_arch_json(path).name == "DPUCZDX8G_ISA1_B512"
