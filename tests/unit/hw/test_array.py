# SPDX-License-Identifier: Apache-2.0
"""All forms of the convolution array's sums: plain multiplications, DSP blocks with both clocks."""

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from opendpu_arch import latency
from opendpu_arch.target import Target
from opendpu_hw.datapath.accumulators import Accumulators
from opendpu_hw.datapath.cascades import Cascades, OperandDelay, begins_cascade
from opendpu_hw.datapath.double_cascades import (
    DoubleRateCascades,
    DoubleRateOperands,
    weights_late,
)
from opendpu_hw.double_rate import DOMAIN, Phase

FORMS = {"plain": Accumulators, "cascades": Cascades, "doubled": DoubleRateCascades}
PERIOD = 1e-6


class Steps:
    """Columns of steps with operands; pauses between some steps.

    With ``fills`` some rows of a step have one value in all channels, which another register makes
    of zeros: ``filled`` has those rows and that value, by step.
    """

    def __init__(self, target, rng, columns, *, extreme=False, fills=False):
        self.shape = target.pixel_parallel, target.input_channel_parallel
        values = -128, -127 if extreme else 128
        self.steps, self.sums, self.filled = [], [], []
        for _ in range(columns):
            count = int(rng.integers(2, 5))
            x = rng.integers(*values, (count, *self.shape))
            w = rng.integers(*values, (count, self.shape[1]))
            if extreme and rng.random() < 0.3:
                w = np.where(rng.random(w.shape) < 0.5, w, 127)
            rows = rng.random((count, self.shape[0])) < (0.4 if fills else 0)
            fill = rng.integers(-128, 128, count)
            x = np.where(rows[..., None], fill[:, None, None], x)
            self.filled += zip(rows, fill, strict=True)
            self.steps += [
                (x[n], w[n], n == 0, n == count - 1, int(rng.random() < 0.1)) for n in range(count)
            ]
            self.sums.append(np.einsum("npi,ni->p", x, w))


def late_by(m, signal, cycles):
    """Return a signal some cycles later."""
    for _ in range(cycles):
        later = Signal.like(signal)
        m.d.sync += later.eq(signal)
        signal = later
    return signal


def sums_of(target, steps, *, form, fills=False):
    """Feed steps a cycle each; return the sums of every column.

    With ``fills`` rows that are filled come as zeros, but for channels that pass.
    """
    m = Module()
    m.submodules.dut = dut = FORMS[form](target)
    step, first, last = Signal(), Signal(), Signal()
    pixels, inputs = steps.shape
    total = latency.conv_sum(target)
    after = Signal(total + 1)
    m.d.sync += after.eq(after << 1 | last)
    m.d.comb += [dut.complete.eq(after[0]), dut.take.eq(after[total - 1])]
    x = [[Signal(8, name=f"x{p}_{i}") for i in range(inputs)] for p in range(pixels)]
    w = [Signal(8, name=f"w{i}") for i in range(inputs)]
    waiting = weights_late(target) if form == "doubled" else 0
    m.d.comb += [dut.w[i].eq(late_by(m, w[i], waiting)) for i in range(inputs)]
    zeroed = range(inputs) if fills else ()
    if form != "plain":
        if form == "doubled":
            m.submodules.phase = phase = Phase()
            delay = DoubleRateOperands(target, fills=fills)
            m.d.comb += delay.second.eq(phase.second)
        else:
            delay = OperandDelay(target, rows=pixels, fills=fills)
            zeroed = [i for i in zeroed if not begins_cascade(target, i)]
        m.submodules.delay = delay
        late = Signal(2 * (total - 1))
        m.d.sync += late.eq(late << 2 | first << 1 | step)
        m.d.comb += [dut.step.eq(late[-2]), dut.first.eq(late[-1])]
        m.d.comb += [delay.i[p][i].eq(x[p][i]) for p in range(pixels) for i in range(inputs)]
        if hasattr(dut, "enter"):
            m.d.comb += [delay.step.eq(step), dut.enter.eq(step)]
        m.d.comb += [dut.x[p][i].eq(o) for p, row in enumerate(delay.o) for i, o in enumerate(row)]
    else:
        m.d.comb += [dut.step.eq(step), dut.first.eq(first)]
        m.d.comb += [dut.x[p][i].eq(x[p][i]) for p in range(pixels) for i in range(inputs)]
    even, odd = [], []

    async def cycle(ctx):
        """Tick; keep the sums that were there when the cycle ended."""
        _, _, ended, *sums = await ctx.tick().sample(after, *dut.sum)
        for place, into in ((total - 1, even), (total, odd)):
            if ended >> place & 1:
                into.append(sums[place - total + 1 :: 2])

    async def feed(ctx):
        await ctx.tick().repeat(2)  # the phase is known after the first edge of both clocks
        for (values, weights, is_first, is_last, pause), (rows, fill) in zip(
            steps.steps, steps.filled, strict=True
        ):
            ctx.set(step, 1), ctx.set(first, is_first), ctx.set(last, is_last)
            if fills:
                ctx.set(delay.filled, sum(1 << p for p in range(pixels) if rows[p]))
                ctx.set(delay.fill, int(fill))
            for p in range(pixels):
                for i in range(inputs):
                    ctx.set(x[p][i], 0 if rows[p] and i in zeroed else int(values[p, i]))
            for i in range(inputs):
                ctx.set(w[i], int(weights[i]))
            await cycle(ctx)
            ctx.set(step, 0), ctx.set(last, 0)
            for _ in range(pause):
                await cycle(ctx)
        for _ in range(total + 3):
            await cycle(ctx)

    simulator = Simulator(m)
    simulator.add_clock(PERIOD)
    if form == "doubled":
        simulator.add_clock(PERIOD / 2, phase=PERIOD / 2, domain=DOMAIN)
    simulator.add_testbench(feed)
    simulator.run()
    return [
        [v for pair in zip(e, o, strict=True) for v in pair] for e, o in zip(even, odd, strict=True)
    ]


NAMES = ("B64", "B144", "B512", "B800", "B1152")
SHARED = [(name, "doubled") for name in ("B128", "B512", "B800", "B1152", "B1024")]
"""Targets whose pixels can share blocks at twice the clock: cascades of 4 to 8, odd ones too."""


@pytest.mark.parametrize(
    ("name", "form"), [*((name, form) for name in NAMES for form in ("plain", "cascades")), *SHARED]
)
def test_sums(name, form, rng):
    target = Target.from_name(name)
    steps = Steps(target, rng, 6)
    assert sums_of(target, steps, form=form) == [list(s) for s in steps.sums]


@pytest.mark.parametrize(
    ("name", "form"), [*((name, "cascades") for name in ("B64", "B512", "B1152")), *SHARED]
)
def test_the_largest_products_do_not_run_into_each_other(name, form, rng):
    """All operands -128: the low field of a cascade overflows its sign, once."""
    target = Target.from_name(name)
    steps = Steps(target, rng, 6, extreme=True)
    assert sums_of(target, steps, form=form) == [list(s) for s in steps.sums]


@pytest.mark.parametrize(
    ("name", "form"),
    [("B64", "cascades"), ("B512", "cascades"), ("B1152", "cascades"), ("B128", "doubled"),
     ("B1152", "doubled")],
)  # fmt: skip
def test_padding_becomes_the_zero_point_behind_the_operands_registers(name, form, rng):
    """Rows, and what they are filled with, change from step to step; pauses between some."""
    target = Target.from_name(name)
    steps = Steps(target, rng, 6, fills=True)
    assert any(rows.any() for rows, _ in steps.filled)
    assert sums_of(target, steps, form=form, fills=True) == [list(s) for s in steps.sums]
