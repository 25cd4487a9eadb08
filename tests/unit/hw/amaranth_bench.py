# SPDX-License-Identifier: Apache-2.0
"""Running a component in Amaranth's simulator, a clock cycle a step."""

from amaranth.sim import Simulator


def simulate(dut, bench):
    """Run the coroutine function ``bench(ctx)`` against ``dut`` to its end."""
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


async def tick(ctx, signals):
    """One cycle; return what ``signals``, by name, were when it ended."""
    _, _, *values = await ctx.tick().sample(*signals.values())
    return dict(zip(signals, values, strict=True))
