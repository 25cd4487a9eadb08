# SPDX-License-Identifier: Apache-2.0
"""Both forms of the convolution array's sums: plain multiplications, cascades of DSP blocks."""

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from opendpu_arch import latency
from opendpu_arch.target import Target
from opendpu_hw.datapath.accumulators import Accumulators
from opendpu_hw.datapath.cascades import Cascades, OperandDelay


class Steps:
    """Columns of steps with operands; pauses between some steps."""

    def __init__(self, target, rng, columns, *, extreme=False):
        self.shape = target.pixel_parallel, target.input_channel_parallel
        values = -128, -127 if extreme else 128
        self.steps, self.sums = [], []
        for _ in range(columns):
            count = int(rng.integers(2, 5))
            x = rng.integers(*values, (count, *self.shape))
            w = rng.integers(*values, (count, self.shape[1]))
            if extreme and rng.random() < 0.3:
                w = np.where(rng.random(w.shape) < 0.5, w, 127)
            self.steps += [
                (x[n], w[n], n == 0, n == count - 1, int(rng.random() < 0.1)) for n in range(count)
            ]
            self.sums.append(np.einsum("npi,ni->p", x, w))


def sums_of(target, steps, *, cascades):
    """Feed steps a cycle each; return the sums of every column."""
    m = Module()
    m.submodules.dut = dut = (Cascades if cascades else Accumulators)(target)
    step, first, last = Signal(), Signal(), Signal()
    pixels, inputs = steps.shape
    total = latency.conv_sum(target)
    after = Signal(total + 1)
    m.d.sync += after.eq(after << 1 | last)
    m.d.comb += [dut.complete.eq(after[0]), dut.take.eq(after[total - 1])]
    x = [[Signal(8, name=f"x{p}_{i}") for i in range(inputs)] for p in range(pixels)]
    if cascades:
        m.submodules.delay = delay = OperandDelay(target, rows=pixels)
        late = Signal(2 * (total - 1))
        m.d.sync += late.eq(late << 2 | first << 1 | step)
        m.d.comb += [dut.step.eq(late[-2]), dut.first.eq(late[-1])]
        m.d.comb += [delay.step.eq(step), dut.enter.eq(step)]
        m.d.comb += [
            v for p in range(pixels) for i in range(inputs)
            for v in (delay.i[p][i].eq(x[p][i]), dut.x[p][i].eq(delay.o[p][i]))
        ]  # fmt: skip
    else:
        m.d.comb += [dut.step.eq(step), dut.first.eq(first)]
        m.d.comb += [dut.x[p][i].eq(x[p][i]) for p in range(pixels) for i in range(inputs)]
    even, odd = [], []

    def sample(ctx):
        for place, into in ((total - 1, even), (total, odd)):
            if ctx.get(after[place]):
                into.append([ctx.get(s) for s in dut.sum[place - total + 1 :: 2]])

    async def feed(ctx):
        for values, weights, is_first, is_last, pause in steps.steps:
            ctx.set(step, 1), ctx.set(first, is_first), ctx.set(last, is_last)
            for p in range(pixels):
                for i in range(inputs):
                    ctx.set(x[p][i], int(values[p, i]))
            for i in range(inputs):
                ctx.set(dut.w[i], int(weights[i]))
            sample(ctx)
            await ctx.tick()
            ctx.set(step, 0), ctx.set(last, 0)
            for _ in range(pause):
                sample(ctx)
                await ctx.tick()
        for _ in range(total + 3):
            sample(ctx)
            await ctx.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(feed)
    simulator.run()
    return [
        [v for pair in zip(e, o, strict=True) for v in pair] for e, o in zip(even, odd, strict=True)
    ]


@pytest.mark.parametrize("cascades", [False, True])
@pytest.mark.parametrize("name", ["B64", "B144", "B512", "B800", "B1152"])
def test_sums(name, cascades, rng):
    target = Target.from_name(name)
    steps = Steps(target, rng, 6)
    assert sums_of(target, steps, cascades=cascades) == [list(s) for s in steps.sums]


@pytest.mark.parametrize("name", ["B64", "B512", "B1152"])
def test_the_largest_products_do_not_run_into_each_other(name, rng):
    """All operands -128: the low field of a cascade overflows its sign, once."""
    target = Target.from_name(name)
    steps = Steps(target, rng, 6, extreme=True)
    assert sums_of(target, steps, cascades=True) == [list(s) for s in steps.sums]
