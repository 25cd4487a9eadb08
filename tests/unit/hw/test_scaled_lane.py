# SPDX-License-Identifier: Apache-2.0
"""Columns of sums and maxima through one channel's multiplier, as close as may be."""

import random

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

from opendpu_arch import numerics, scaled
from opendpu_arch.target import Target
from opendpu_hw.datapath.scaled_lane import ScaledLane
from opendpu_hw.datapath.scaled_steps import ScaledSteps

TARGET = Target.from_name("B64+scaled")
LANE = 1
RECORDS = 4


def drawn_record(rng):
    """Return what a record says, results of which are seldom at a limit."""
    lanes = TARGET.channel_parallel
    return {
        "bias": np.array([rng.randrange(-2000, 2000) for _ in range(lanes)]),
        "multiplier": np.array([rng.randrange(1 << 30, 1 << 31) for _ in range(lanes)]),
        "shift": np.array([rng.randrange(4, 8) for _ in range(lanes)]),
        "zero": rng.randrange(-20, 20), "low": -128, "high": 127,
        "rounding": scaled.Rounding(rng.randrange(2)),
    }  # fmt: skip


def drawn_column(rng, pixels, maxima):
    """Return a column's kind, its values that count, and its record's number."""
    kind = rng.choice(("sum", "maximum")) if maxima else "sum"
    most = 128 if kind == "maximum" else 4000
    return kind, [rng.randrange(-most, most) for _ in range(pixels)], rng.randrange(RECORDS)


def expected(column, records):
    """Return a column's results."""
    _, values, number = column
    given = records[number]
    ours = {name: given[name][LANE] for name in ("bias", "multiplier", "shift")}
    same = {name: given[name] for name in ("zero", "low", "high", "rounding")}
    return numerics.requantize_scaled(np.array(values), **ours, **same).tolist()


class Bench:
    """A lane, what tells it the time, and who gives them columns."""

    def __init__(self, rng, *, pixels, maxima, late):
        self.rng, self.pixels, self.maxima, self.late = rng, pixels, maxima, late
        self.module = m = Module()
        m.submodules.steps = self.steps = ScaledSteps(TARGET, pixels=pixels)
        m.submodules.lane = self.lane = ScaledLane(
            TARGET, lane=LANE, pixels=pixels, width=34 if maxima else 31, maxima=maxima, late=late
        )
        m.d.comb += [
            self.lane.steps.eq(self.steps.steps),
            self.lane.shift.eq(self.steps.shifts[LANE]),
        ]
        self.found = []

    async def write(self, ctx, records):
        """Write the records to both copies."""
        for number, given in enumerate(records):
            for n, word in enumerate(scaled.record(**given)):
                for to in (self.steps.write, self.lane.write):
                    ctx.set(to.words, 1 << n)
                    ctx.set(to.record, number)
                    ctx.set(to.data, int.from_bytes(word.tobytes(), "little"))
                await ctx.tick()
        for to in (self.steps.write, self.lane.write):
            ctx.set(to.words, 0)

    def offer(self, ctx, column, pixels):
        """Offer a column's values of some pixels: what does not count there is zero."""
        kind, values, _ = column
        for p in pixels:
            ctx.set(self.lane.sum[p], values[p] if kind == "sum" else 0)
            if self.maxima:
                ctx.set(self.lane.maximum[p], values[p] if kind == "maximum" else 0)

    async def run(self, ctx, columns):
        """Feed columns, each as soon as the one before lets it; keep what comes out."""
        early = [p for p in range(self.pixels) if p not in self.late]
        distance = max(self.pixels, 2)
        for time in range(distance * len(columns) + self.pixels + 20):
            number, phase = divmod(time, distance)
            column = columns[number] if number < len(columns) else ("sum", [0] * self.pixels, 0)
            ctx.set(self.steps.captured, int(phase == 0 and number < len(columns)))
            ctx.set(self.steps.scaled, 1)
            ctx.set(self.steps.record, column[2])
            nothing = ("sum", [self.rng.randrange(-99, 99) for _ in range(self.pixels)], 0)
            self.offer(ctx, column if phase == 0 else nothing, early)
            self.offer(ctx, column if phase == 1 else nothing, self.late)
            await ctx.delay(1e-9)
            if ctx.get(self.steps.steps.finish):
                self.found.append([ctx.get(y) for y in self.lane.y])
            await ctx.tick()


@pytest.mark.parametrize(
    "pixels, maxima, late",
    [(1, True, ()), (2, True, (1,)), (4, True, (3,)), (2, False, (1,)), (4, False, (1, 3)),
     (8, False, (1, 3, 5, 7))],
)  # fmt: skip
def test_results_of_close_columns(pixels, maxima, late):
    """All numbers of pixels: sums meet in a lane or in its multiplier's adder."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    records = [drawn_record(rng) for _ in range(RECORDS)]
    columns = [drawn_column(rng, pixels, maxima) for _ in range(60)]
    bench = Bench(rng, pixels=pixels, maxima=maxima, late=late)

    async def all_of_it(ctx):
        await bench.write(ctx, records)
        await bench.run(ctx, columns)

    simulator = Simulator(bench.module)
    simulator.add_clock(1e-6)
    simulator.add_testbench(all_of_it)
    simulator.run()
    assert bench.found == [expected(column, records) for column in columns]
    assert len({y for column in bench.found for y in column}) > 20
