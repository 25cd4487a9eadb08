# SPDX-License-Identifier: Apache-2.0
"""The last stages, CONV's and the MISC engine's, against the contract's arithmetic."""

import random

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from opendpu_arch import numerics
from opendpu_arch.isa import ActType
from opendpu_hw.datapath.requantize import Requantizer, scale_of
from opendpu_hw.datapath.scale import Scale
from opendpu_hw.engine.misc_decode import SIGMOID_LIMITS

ACTS = (ActType.NONE, ActType.RELU, ActType.LEAKYRELU, ActType.RELU6)


def sums(rng, bits, shift, count):
    """Sums of all sizes, and those next to a rounding or saturation boundary."""
    for _ in range(count):
        if rng.random() < 0.5:
            yield rng.randrange(-(1 << bits), 1 << bits) >> rng.randrange(bits)
        else:
            near = (2 * rng.randrange(-131, 131) + 1 << shift) // 2 + rng.randrange(-1, 2)
            yield max(-(1 << bits), min((1 << bits) - 1, near))


def requantized(cases, *, leaky=True, block=False, vendor=None):
    """Return the results of ``Requantizer`` for (sum, offset, shift_cut, act), one a cycle."""
    m = Module()
    m.submodules.dut = dut = Requantizer(leaky=leaky, block=block, vendor=vendor)
    cut, act, valid = Signal(6), Signal(4), Signal()
    m.d.comb += dut.scale.eq(scale_of(cut, act)), dut.stage[0].eq(valid)
    for n in range(1, Requantizer.STAGES):
        m.d.sync += dut.stage[n].eq(dut.stage[n - 1])
    found = []

    async def feed(ctx):
        for number in range(len(cases) + Requantizer.STAGES + 1):
            ctx.set(valid, number < len(cases))
            if number < len(cases):
                ctx.set(dut.odd, number % 2)
                ctx.set(dut.sum[number % 2], cases[number][0])
                ctx.set(dut.sum[1 - number % 2], ~cases[number][0])
                ctx.set(dut.offset, cases[number][1])
            if block and 0 <= number - 1 < len(cases):
                ctx.set(dut.early_leaky, cases[number - 1][3] == ActType.LEAKYRELU)
            if 0 <= number - 2 < len(cases):
                ctx.set(cut, cases[number - 2][2])
                ctx.set(act, cases[number - 2][3])
            if 0 <= number - 5 < len(cases):
                ctx.set(dut.act, cases[number - 5][3])
            if 0 <= number - 6 < len(cases):
                found.append(ctx.get(dut.y))
            await ctx.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(feed)
    simulator.run()
    return found


@pytest.mark.parametrize(
    ("leaky", "block", "vendor"),
    [(True, False, None), (False, False, "xilinx"), (True, True, None)],
)
def test_requantizer_is_numerics(leaky, block, vendor, rng):
    draw = random.Random(int(rng.integers(1 << 32)))
    acts = ACTS if leaky else [act for act in ACTS if act != ActType.LEAKYRELU]
    cases, expected = [], []
    for cut in range(64):
        for total in sums(draw, 30, cut, 24):
            bias, shift_bias, act = draw.randrange(-128, 128), draw.randrange(24), draw.choice(acts)
            if not -(1 << 31) <= 2 * total + (bias << shift_bias) < 1 << 31:
                bias = 0
            cases.append((total, bias << shift_bias, cut, act))
            expected.append(
                numerics.requantize(
                    np.int64(total),
                    np.int8(bias),
                    shift_bias=shift_bias,
                    shift_cut=cut,
                    act_type=act,
                )
            )
    assert requantized(cases, leaky=leaky, block=block, vendor=vendor) == expected


def scaled(cases, *, leaky=True, vendor=None):
    """Return the results of ``Scale`` for dicts of its inputs, one every four cycles."""
    dut = Scale(leaky=leaky, vendor=vendor)
    found = []

    async def bench(ctx):
        for case in cases:
            for name, value in case.items():
                ctx.set(getattr(dut, name), value)
            for stage in (dut.capture, dut.shift[0], dut.shift[1], dut.finish):
                ctx.set(stage, 1)
                await ctx.tick()
                ctx.set(stage, 0)
            found.append(ctx.get(dut.y))

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found


@pytest.mark.parametrize("act", ACTS)
def test_scale_is_requantize_with_bias(act):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    cases, expected = [], []
    for cut in range(48):
        for acc in sums(rng, 33, cut, 4):
            bias, shift_bias = rng.randrange(-128, 128), rng.randrange(21)
            cases.append(
                {
                    "total": acc,
                    "offset": bias << shift_bias,
                    "right": cut + 8,
                    "relu": act in (ActType.RELU, ActType.RELU6),
                    "limit": 96 if act == ActType.RELU6 else 127,
                    "leaky": act == ActType.LEAKYRELU,
                }
            )
            expected.append(
                numerics.requantize(
                    np.int64(acc),
                    np.int8(bias),
                    shift_bias=shift_bias,
                    shift_cut=cut,
                    act_type=act,
                )
            )
    assert scaled(cases) == expected
    if act != ActType.LEAKYRELU:
        assert scaled(cases, leaky=False, vendor="xilinx") == expected


def test_scale_shifts_left_and_clamps_the_sigmoid():
    cases, expected = [], []
    for acc in (0, 1, -1, 63, -64, 127, -128, 1 << 34, -(1 << 34)):
        for left in range(9):
            cases.append({"total": acc, "offset": 0, "right": 8 - left, "limit": 127})
            expected.append(numerics.saturate(np.int64(acc) << left))
    for x in (-128, -3, 0, 1, 127):
        for shift_bias in (0, 5, 19, 20):
            for cut in (0, 14, *range(24, 40)):
                limit = SIGMOID_LIMITS.get(cut, 127 if cut < min(SIGMOID_LIMITS) else 0)
                cases.append(
                    {
                        "total": x * 2731,
                        "offset": 6 * 2731 << shift_bias,
                        "right": 8 + cut,
                        "relu": 1,
                        "limit": limit,
                    }
                )
                expected.append(
                    numerics.hard_sigmoid(np.int64(x), shift_bias=shift_bias, shift_cut=cut)
                )
    assert scaled(cases, leaky=False) == expected
