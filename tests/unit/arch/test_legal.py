# SPDX-License-Identifier: Apache-2.0
"""Every rule: a case it lets through, a case it refuses, and what it says."""

import dataclasses
import math

import numpy as np
import pytest

from opendpu_arch import isa, legal
from opendpu_arch.isa import ActType, AluMode, PoolType
from opendpu_arch.target import Target

B512 = Target.from_name("B512")
PLAIN = dataclasses.replace(B512, conv_leaky_relu=False, save_argmax=False)
LEAKY = dataclasses.replace(B512, alu_leaky_relu=True, load_mean=True)
CHANNEL = Target.from_name("B512+channel")
TABLE = Target.from_name("B512+table")
SCALED = Target.from_name("B512+channel+scaled")
TWO = [isa.ElewInit(id=0), isa.ElewInit(id=1)]

# rule: (accepted, refused, what it says); each case is (instruction, target, init)
CASES = {
    "init_missing": (
        (isa.Conv(), B512, isa.ConvInit()),
        (isa.Conv(), B512, None),
        "no CONVINIT before it",
    ),
    "load_bank": (
        (isa.Load(bank_id=17), B512, None),
        (isa.Load(bank_id=22), B512, None),
        "bank_id is 22, but must be in 0..17 (banks)",
    ),
    "save_bank": (
        (isa.Save(bank_id=7), B512, None),
        (isa.Save(bank_id=8), B512, None),
        "bank_id is 8, but must be in 0..7 (image banks)",
    ),
    "bank_in": (
        (isa.ElewInit(bank_id_in=7), B512, []),
        (isa.ElewInit(bank_id_in=8), B512, []),
        "bank_id_in is 8, but must be in 0..7 (image banks)",
    ),
    "bank_out": (
        (isa.Alu(bank_id_out=7), B512, isa.AluInit()),
        (isa.Alu(bank_id_out=8), B512, isa.AluInit()),
        "bank_id_out is 8, but must be in 0..7 (image banks)",
    ),
    "rows": (
        (isa.PoolInit(valid_pixel_parallel=4), B512, None),
        (isa.ConvInit(valid_pixel_parallel=5), B512, None),
        "valid_pixel_parallel is 5, but must be in 1..4 (pixel parallel)",
    ),
    "alu_rows": (
        (isa.Alu(valid_pixel_parallel=2), B512, isa.AluInit()),
        (isa.Alu(valid_pixel_parallel=3), B512, isa.AluInit()),
        "valid_pixel_parallel is 3, but must be in 1..2 (ALU pixel parallel)",
    ),
    "conv_act": (
        (isa.ConvInit(act_type=ActType.LEAKYRELU), B512, None),
        (isa.ConvInit(act_type=ActType.LEAKYRELU), PLAIN, None),
        f"act_type is 3, but must be one of NONE=0, RELU=1, RELU6=4 (CONV of {PLAIN.name})",
    ),
    "alu_act": (
        (isa.DptWise(act_type=ActType.LEAKYRELU), LEAKY, isa.DwInit()),
        (isa.DptWise(act_type=ActType.LEAKYRELU), B512, isa.DwInit()),
        f"act_type is 3, but must be one of NONE=0, RELU=1, RELU6=4 (DPTWISE of {B512.name})",
    ),
    "exec_mode": (
        (isa.AluInit(exec_mode=8), B512, None),
        (isa.AluInit(exec_mode=9), B512, None),
        "exec_mode is 9, but must be one of DWCV=0, PRELU=1, AVEPOOL=2, MAXPOOL=3, LEAKYRELU=4, "
        "MAXREDUCE=5, DWCVB0=6, HSIGMOID=7, DWCVW16B0=8 (ALU modes)",
    ),
    "pool_type": (
        (isa.PoolInit(pool_type=2), B512, None),
        (isa.PoolInit(pool_type=3), B512, None),
        "pool_type is 3, but must be one of MAX=0, AVERAGE=1, MAX_REDUCE=2 (POOL types)",
    ),
    "pool_average": (
        (isa.PoolInit(pool_type=1, kernel_w=3, kernel_h=6), B512, None),
        (isa.PoolInit(pool_type=1, kernel_w=2, kernel_h=3), B512, None),
        "kernel_h is 3, but must be one of 1=1, 2=2, 4=4, 8=8 (average with kernel_w 2)",
    ),
    "elew_type": (
        (isa.Elew(num=2, elew_type=1), B512, TWO),
        (isa.Elew(num=2, elew_type=2), B512, TWO),
        "elew_type is 2, but must be one of ADD=0, MULT=1 (ELEW types)",
    ),
    "shift_bias": (
        (isa.DwInit(shift_bias=20), B512, None),
        (isa.DwInit(shift_bias=21), B512, None),
        "shift_bias is 21, but must be in 0..20 (bias shift)",
    ),
    "stride_offset_in": (
        (isa.AluInit(stride_offset_in=2, stride_h=3), B512, None),
        (isa.AluInit(stride_offset_in=3, stride_h=3), B512, None),
        "stride_offset_in is 3, but must be in 0..2 (less than stride_h)",
    ),
    "downsample_offset": (
        (isa.Pool(downsample_kernel_h=3), B512, isa.PoolInit(pool_type=2, stride_offset_in=2)),
        (isa.Pool(downsample_kernel_h=2), B512, isa.PoolInit(pool_type=2, stride_offset_in=2)),
        "stride_offset_in is 2, but must be in 0..1 (less than downsample_kernel_h)",
    ),
    "stride_offset_out": (
        (isa.ConvInit(stride_offset_out=1, stride_out=2), B512, None),
        (isa.ConvInit(stride_offset_out=1), B512, None),
        "stride_offset_out is 1, but must be in 0..0 (less than stride_out)",
    ),
    "load_mean": (
        (isa.Load(mode_avg=1, channel=64), LEAKY, None),
        (isa.Load(mode_avg=1), B512, None),
        f"mode_avg is 1, but must be 0 ({B512.name} has no load_mean)",
    ),
    "save_argmax": (
        (isa.Save(argmax=3), B512, None),
        (isa.Save(argmax=2), PLAIN, None),
        f"argmax is 2, but must be 0 or 1 ({PLAIN.name} has no save_argmax)",
    ),
    "pointwise": (
        (isa.AluInit(exec_mode=AluMode.HSIGMOID), B512, None),
        (isa.AluInit(exec_mode=AluMode.HSIGMOID, kernel_w=2), B512, None),
        "kernel_w is 2, but must be in 1..1 (HSIGMOID)",
    ),
    "kernel_d": (
        (isa.Alu(), B512, isa.AluInit()),
        (isa.Alu(kernel_d=2), B512, isa.AluInit()),
        "kernel_d is 2, but must be in 1..1 (kernel depth)",
    ),
    "address_groups": (
        (isa.Conv(bank_id_in=1), B512, isa.ConvInit(kernel_h=15)),
        (isa.Conv(bank_id_in=2), B512, isa.ConvInit(kernel_h=15)),
        "1 output rows with kernel_h 15, stride_h 1 need 5 address groups, but must need at most 4",
    ),
    "elewinit_order": (
        (isa.ElewInit(id=1), B512, TWO[:1]),
        (isa.ElewInit(id=1), B512, []),
        "id is 1, but must be 0 (0 ELEWINIT since the last ELEW)",
    ),
    "elew_inputs": (
        (isa.Elew(num=2), B512, TWO),
        (isa.Elew(num=3), B512, TWO),
        "num is 3, but must be 2 (ELEWINIT since the last ELEW)",
    ),
    "mult_inputs": (
        (isa.Elew(num=2, elew_type=1), B512, TWO),
        (isa.Elew(num=1, elew_type=1), B512, TWO[:1]),
        "num is 1, but must be in 2..2 (inputs of MULT)",
    ),
    "jump_bank": (
        (isa.Elew(valid_pixel_parallel=2), B512, [isa.ElewInit(jump_bank=2)]),
        (isa.Elew(valid_pixel_parallel=2), B512, [isa.ElewInit(jump_bank=3)]),
        "jump_bank * valid_pixel_parallel of input 0 is 6, but must be in 1..4 (pixel parallel)",
    ),
    "table": (
        (isa.Elew(num=2, table=8), TABLE, TWO),
        (isa.Elew(num=2, table=9), TABLE, TWO),
        "table is 9, but must be in 0..8 (slots, from 1 on)",
    ),
    "channel_shift": (
        (isa.Conv(channel_shift=1), CHANNEL, isa.ConvInit()),
        (isa.Conv(channel_shift=1), TABLE, isa.ConvInit()),
        f"channel_shift is 1, but must be 0 ({TABLE.name} lacks the extension 'channel')",
    ),
    "scaled": (
        (isa.Alu(scaled=1), SCALED, isa.AluInit(exec_mode=AluMode.AVEPOOL)),
        (isa.Alu(scaled=1), SCALED, isa.AluInit(exec_mode=AluMode.MAXREDUCE)),
        "exec_mode is 5, but must be one of DWCV=0, AVEPOOL=2, MAXPOOL=3 (with scaled)",
    ),
}


def test_every_rule_has_a_case() -> None:
    assert list(CASES) == [rule.name for rule in legal.RULES]


@pytest.mark.parametrize("name", CASES)
def test_rule(name: str) -> None:
    accepted, refused, message = CASES[name]
    assert legal.violations(accepted[0], accepted[1], init=accepted[2]) == []
    assert legal.violations(refused[0], refused[1], init=refused[2]) == [message]


@pytest.mark.parametrize("name", CASES)
def test_rule_is_documented(name: str) -> None:
    rule = next(r for r in legal.RULES if r.name == name)
    assert rule.text.endswith(".")
    assert rule.broken.__doc__
    assert rule.applies_to


@pytest.mark.parametrize("cls", [isa.Conv, isa.Alu, isa.Pool, isa.DptWise])
def test_a_plain_target_names_the_extension_that_it_lacks(cls: type[isa.Instruction]) -> None:
    init = {isa.Conv: isa.ConvInit, isa.Alu: isa.AluInit, isa.Pool: isa.PoolInit}
    given = init.get(cls, isa.DwInit)()
    assert legal.violations(cls(table=1), TABLE, init=given) == []
    assert legal.violations(cls(table=1), B512, init=given) == [
        f"table is 1, but must be 0 ({B512.name} lacks the extension 'table')"
    ]


def test_the_bank_of_tables_is_there_with_the_extension_only() -> None:
    assert legal.violations(isa.Load(bank_id=18), TABLE) == []
    assert legal.violations(isa.Load(bank_id=19), TABLE) == [
        "bank_id is 19, but must be in 0..18 (banks; more with the extension 'channel' or 'scaled')"
    ]
    assert legal.violations(isa.Load(bank_id=18), B512) == [
        "bank_id is 18, but must be in 0..17 "
        "(banks; more with the extension 'table' or 'channel' or 'scaled')"
    ]


def test_several_reasons_are_all_given() -> None:
    init = isa.ConvInit(shift_bias=63, stride_offset_in=7, valid_pixel_parallel=8, act_type=15)
    assert len(legal.violations(init, B512)) == 4


def test_mean_is_for_64_bytes() -> None:
    [message] = legal.violations(isa.Load(mode_avg=3, channel=65), LEAKY)
    assert message == "channel is 65, but must be in 1..64 (bytes with mode_avg)"


def test_a_fifth_input_is_refused() -> None:
    pending = [isa.ElewInit(id=n) for n in range(4)]
    [message] = legal.violations(isa.ElewInit(id=0), B512, init=pending)
    assert message == "id is 0, but 4 ELEWINIT wait for an ELEW already"


def test_act_type_matters_in_depthwise_modes_only() -> None:
    for mode in AluMode:
        init = isa.AluInit(exec_mode=mode, act_type=15)
        refused = bool(legal.violations(init, B512))
        assert refused == (mode in (AluMode.DWCV, AluMode.DWCVB0, AluMode.DWCVW16B0))


def test_max_reduce_walks_its_own_kernel() -> None:
    init = isa.PoolInit(pool_type=PoolType.MAX_REDUCE, kernel_h=8, valid_pixel_parallel=4)
    pool = isa.Pool(downsample_kernel_h=256, bank_id_in=3)
    assert legal.violations(pool, B512, init=init) == []


def test_the_product_form_equals_the_division_form(rng: np.random.Generator) -> None:
    for _ in range(3000):
        target = Target.from_name(str(rng.choice(["B512", "B4096"])))
        parallel = target.pixel_parallel
        kernel, stride = (int(v) for v in rng.integers(1, 17, 2))
        rows = int(rng.integers(1, parallel + 1))
        offset = int(rng.integers(min(stride, 8)))
        bank = int(rng.integers(target.image_banks))
        init = isa.ConvInit(
            kernel_h=kernel, stride_h=stride, stride_offset_in=offset, valid_pixel_parallel=rows
        )
        in_rows = (rows - 1) * stride + kernel
        banks = bank % parallel + math.ceil((offset + in_rows) / stride)
        refused = bool(legal.violations(isa.Conv(bank_id_in=bank), target, init=init))
        assert refused == (math.ceil(banks / parallel) > 4)


@pytest.mark.parametrize("cls", [isa.Conv, isa.Alu, isa.Elew])
def test_multipliers_need_their_extension(cls: type[isa.Instruction]) -> None:
    given = {isa.Conv: isa.ConvInit(), isa.Alu: isa.AluInit(), isa.Elew: TWO[:1]}[cls]
    assert legal.violations(cls(scaled=1), SCALED, init=given) == []
    assert legal.violations(cls(scaled=1), CHANNEL, init=given) == [
        f"scaled is 1, but must be 0 ({CHANNEL.name} lacks the extension 'scaled')"
    ]


@pytest.mark.parametrize("cls", [isa.Conv, isa.Alu])
def test_a_channel_has_a_shift_or_a_multiplier(cls: type[isa.Instruction]) -> None:
    given = isa.ConvInit() if cls is isa.Conv else isa.AluInit()
    assert legal.violations(cls(scaled=1, channel_shift=1), SCALED, init=given) == [
        "scaled and channel_shift are 1, but one of them must be 0 (a channel has one scale)"
    ]
