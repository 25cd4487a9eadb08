# SPDX-License-Identifier: Apache-2.0
"""Random programs: fair, repeatable, and covering what they claim."""

from collections import Counter

import numpy as np
import pytest

from opendpu_arch import isa
from opendpu_arch.isa import ActType, AluMode, PoolType
from opendpu_arch.target import Target
from opendpu_sim.model.machine import plan
from opendpu_sim.progen import ENGINES, random_program

B512 = Target.from_name("B512")
FULL = Target(arch=8, alu_pixel_parallel=2, alu_leaky_relu=True, load_mean=True)
BOTH = Target.from_name("B64+table+channel")
SCALED = Target.from_name("B64+scaled")
TABLE = Target.from_name("B512+table")
POOR = Target(arch=11, alu_pixel_parallel=1, conv_leaky_relu=False, save_argmax=False)


def decoded(engine: str, target: Target, seeds: range) -> list[isa.Instruction]:
    return [i for s in seeds for i in isa.decode(random_program(engine, target, s)[0])]


def test_unknown_engine() -> None:
    with pytest.raises(ValueError, match="engine is 'gpu', but must be one of load, save, conv,"):
        random_program("gpu", B512, 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_seed_gives_the_same_program(engine: str) -> None:
    code, segments = random_program(engine, B512, 7)
    again, same = random_program(engine, B512, 7)
    assert code == again
    assert code != random_program(engine, B512, 8)[0]
    assert sorted(segments) == sorted(same) == [0, 1]
    for reg_id, segment in segments.items():
        np.testing.assert_array_equal(segment, same[reg_id])


@pytest.mark.parametrize(
    "target",
    [B512, FULL, POOR, TABLE, BOTH, SCALED],
    ids=["B512", "full", "poor", "table", "both", "scaled"],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_results_do_not_depend_on_the_order_of_execution(engine: str, target: Target) -> None:
    for seed in range(5):
        code, segments = random_program(engine, target, seed)
        results = []
        for schedule in (None, 1, 2, 3):
            copy = {k: v.copy() for k, v in segments.items()}
            plan(code, target, schedule_seed=schedule).run(copy, check=True)
            results.append(copy[1])
        for result in results[1:]:
            np.testing.assert_array_equal(result, results[0], f"seed {seed}")


def test_programs_for_a_target_with_tables_use_them() -> None:
    program = decoded("mixed", TABLE, range(60))
    used = {i.mnemonic() for i in program if getattr(i, "table", 0)}
    assert used == {"CONV", "ALU", "POOL", "DPTWISE", "ELEW"}
    assert {getattr(i, "table", 0) for i in program} == set(range(9))
    loads = [i for i in program if isinstance(i, isa.Load) and i.bank_id == TABLE.table_bank]
    assert {i.length * -(-i.channel // 8) for i in loads} > {64}  # whole tables and parts


def test_programs_for_a_target_with_shifts_of_channels_use_them() -> None:
    program = decoded("mixed", BOTH, range(60))
    used = {i.mnemonic() for i in program if getattr(i, "channel_shift", 0)}
    assert used == {"CONV", "ALU", "DPTWISE"}
    assert any(isinstance(i, isa.Load) and i.bank_id == BOTH.shift_bank for i in program)


def test_programs_for_a_target_with_multipliers_use_them() -> None:
    program = decoded("mixed", SCALED, range(60))
    used = {i.mnemonic() for i in program if getattr(i, "scaled", 0)}
    assert used == {"CONV", "ALU", "ELEW"}
    assert {i.term for i in program if isinstance(i, isa.ElewInit)} == {0, 1}
    loads = {i.bank_id for i in program if isinstance(i, isa.Load)}
    assert {SCALED.scale_bank, SCALED.term_bank} <= loads


def test_engines_run_concurrently() -> None:
    """Most neighbours in different queues are not chained by a token."""
    program = decoded("mixed", B512, range(20))
    waits = sum(len(i.waits_for()) for i in program)
    assert waits < len(program) / 3


@pytest.mark.parametrize(
    ("engine", "kinds"),
    [
        ("load", {"LOAD"}),
        ("save", {"SAVE"}),
        ("conv", {"CONV"}),
        ("dwconv", {"ALU", "DPTWISE"}),
        ("pool", {"ALU", "POOL"}),
        ("eltwise", {"ELEW"}),
        ("misc", {"ALU"}),
        ("mixed", {"CONV", "ALU", "DPTWISE", "POOL", "ELEW"}),
    ],
)
def test_what_an_engine_name_covers(engine: str, kinds: set[str]) -> None:
    names = {i.mnemonic() for i in decoded(engine, B512, range(30))}
    rest = {"LOAD", "SAVE", "END", "CONVINIT", "ALUINIT", "DWINIT", "POOLINIT", "ELEWINIT"}
    assert kinds - names == set()
    assert names - kinds - rest == set()


def test_every_mode_and_activation_comes() -> None:
    modes: Counter[int] = Counter()
    for engine in ("dwconv", "pool", "misc"):
        modes.update(
            i.exec_mode for i in decoded(engine, FULL, range(40)) if isinstance(i, isa.AluInit)
        )
    assert set(modes) == set(AluMode)
    conv = [i for i in decoded("conv", FULL, range(30)) if isinstance(i, isa.ConvInit)]
    acts = {ActType.NONE, ActType.RELU, ActType.LEAKYRELU, ActType.RELU6}
    assert {i.act_type for i in conv} == acts
    dptwise = [i for i in decoded("dwconv", FULL, range(60)) if isinstance(i, isa.DptWise)]
    assert {i.act_type for i in dptwise} == acts
    poor = [i for i in decoded("conv", POOR, range(30)) if isinstance(i, isa.ConvInit)]
    assert {i.act_type for i in poor} == acts - {ActType.LEAKYRELU}
    pools = [i for i in decoded("pool", FULL, range(60)) if isinstance(i, isa.PoolInit)]
    assert {i.pool_type for i in pools} == set(PoolType)


def test_conv_corners_come() -> None:
    program = decoded("conv", B512, range(60))
    inits = [i for i in program if isinstance(i, isa.ConvInit)]
    convs = [i for i in program if isinstance(i, isa.Conv)]
    depth = B512.bank_depth
    corners = {
        "partial rows": any(i.valid_pixel_parallel < 4 for i in inits),
        "stride_offset_in": any(i.stride_offset_in for i in inits),
        "stride_offset_out": any(i.stride_offset_out for i in inits),
        "stride_out": any(i.stride_out > 2 for i in inits),
        "large kernel": any(i.kernel_h == 16 for i in inits),
        "stride over kernel": any(i.stride_w > i.kernel_w for i in inits),
        "gaps between pixels": any(i.jump_write > 1 for i in inits),
        "channel_offset": any(i.channel_offset for i in convs),
        "several groups": any(i.channel_group > 3 for i in convs),
        "bank wrap": any(i.bank_id_in % 4 == 3 for i in convs),
        "address alias": any(i.bank_addr_in >= depth for i in convs),
        "all four pads": any(
            i.pad_left and i.pad_top and i.pad_right < 15 and i.pad_bottom < 15 for i in convs
        ),
        "sticky init": len(convs) > len(inits),
        "same group in and out": any(i.bank_id_in // 4 == i.bank_id_out // 4 for i in convs),
    }
    assert [name for name, found in corners.items() if not found] == []


def test_transfer_corners_come() -> None:
    loads = [i for i in decoded("load", FULL, range(60)) if isinstance(i, isa.Load)]
    saves = [i for i in decoded("save", FULL, range(60)) if isinstance(i, isa.Save)]
    corners = {
        "unaligned load": any(i.ddr_addr % 16 for i in loads),
        "partial word": any(i.channel < 4 for i in loads),
        "augmentation": any(i.jump_read < i.channel <= 64 and i.pad_start for i in loads),
        "long pixel": any(i.channel > 64 for i in loads),
        "constant": any(i.broadcast == 7 for i in loads),
        "other broadcast": any(i.broadcast == 3 for i in loads),
        "mean": {i.mode_avg for i in loads} == {0, 1, 2, 3},
        "far apart": any(i.jump_write > 200 for i in loads),
        "gap in the bank": any(i.jump_write > -(-i.channel // 4) for i in loads),
        "page crossing": any(i.length == 1 and i.ddr_addr % 4096 + i.channel > 4096 for i in loads),
        "unaligned save": any(i.ddr_addr % 16 for i in saves),
        "gap in DDR": any(i.jump_write > i.channel for i in saves),
        "overlapping reads": any(i.jump_read < -(-i.channel // 4) for i in saves),
        "saved constant": any(i.const_en for i in saves),
        "argmax": {i.argmax for i in saves} == {0, 1, 2, 3},
        "both ports": {i.hp_id for i in saves} == {0, 1},
    }
    assert [name for name, found in corners.items() if not found] == []
