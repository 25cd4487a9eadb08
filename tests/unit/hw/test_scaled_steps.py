# SPDX-License-Identifier: Apache-2.0
"""When columns go through multipliers: every one once, whatever follows it."""

import itertools

import pytest
from amaranth.sim import Simulator

from opendpu_arch.target import Target
from opendpu_hw.datapath.scaled_steps import ScaledSteps

TARGET = Target.from_name("B64+table+scaled")


def pulses(pixels, tables):
    """Return how often each pulse comes for columns with these tables, as close as may be."""
    dut = ScaledSteps(TARGET, pixels=pixels)
    found = dict.fromkeys(("begin", "gather", "finish", "look_up"), 0)
    ends = []

    async def bench(ctx):
        time = begun = 0

        async def tick():
            nonlocal time, begun
            # From a capture to its end, or to the cycle after it.
            if len(ends) < begun:
                assert ctx.get(dut.busy)
            elif not ends or ends[-1][0] < time - 1:
                assert not ctx.get(dut.busy)
            begun += ctx.get(dut.captured)
            for name in found:
                value = ctx.get(dut.begin) if name == "begin" else ctx.get(dut.steps[name])
                found[name] += value
                if value and name == "finish":
                    ends.append((time, ctx.get(dut.steps.table)))
            await ctx.tick()
            time += 1

        ctx.set(dut.scaled, 1)
        for table in tables:
            ctx.set(dut.captured, 1)
            ctx.set(dut.table, table)
            await tick()
            ctx.set(dut.captured, 0)
            for _ in range(max(pixels, 2) - 1 + (table > 0)):
                await tick()
        for _ in range(pixels + 24):
            await tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found, [table for _, table in ends]


@pytest.mark.parametrize("pixels", [1, 2, 4])
def test_every_column_ends_once(pixels):
    for tables in itertools.product((0, 3), repeat=4):
        found, ended = pulses(pixels, tables)
        count = len(tables)
        assert ended == list(tables), tables
        assert found == {
            "begin": count, "finish": count, "gather": count * pixels,
            "look_up": pixels * sum(table > 0 for table in tables),
        }, tables  # fmt: skip
