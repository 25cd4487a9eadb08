# SPDX-License-Identifier: Apache-2.0
"""The halves of a cycle are told apart however clocks and reset begin."""

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.sim import Simulator

from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target
from opendpu_hw import double_rate
from opendpu_hw.double_rate import DOMAIN, Phase

EDGES = 60


def halves(count):
    """Return the seconds of halves of a period, which the simulator cuts to the same femtosecond.

    Edges of both clocks come together only then.
    """
    return (count * 500_000_000 + 0.5) * 1e-15


def phases(*, doubled_ahead, clock_ahead, reset):
    """Return what the phase said before each edge of the doubled clock.

    One of the clocks may begin some of its periods earlier; ``reset`` holds in some cycles.
    """
    m = Module()
    clear = Signal()
    m.submodules.dut = dut = ResetInserter(clear)(Phase())
    found = []

    async def watch(ctx):
        for _ in range(EDGES):
            _, _, second = await ctx.tick(DOMAIN).sample(dut.second)
            found.append(second)

    async def hold(ctx):
        for cycle in range(20):
            ctx.set(clear, cycle in reset)
            await ctx.tick()

    simulator = Simulator(m)
    start = 20
    simulator.add_clock(halves(2), phase=halves(start - 2 * clock_ahead))
    simulator.add_clock(halves(1), phase=halves(start - doubled_ahead), domain=DOMAIN)
    simulator.add_testbench(watch)
    simulator.add_testbench(hold, background=True)
    simulator.run()
    return found


@pytest.mark.parametrize("doubled_ahead", range(6))
@pytest.mark.parametrize("clock_ahead", range(3))
@pytest.mark.parametrize("reset", [(), (0, 1, 2), (0, 1, 2, 3), (6,), (7, 8)])
def test_phase(doubled_ahead, clock_ahead, reset):
    found = phases(doubled_ahead=doubled_ahead, clock_ahead=clock_ahead, reset=reset)
    # The clock's edges come with the doubled one's number `doubled_ahead` and each second one.
    known = range(EDGES // 2, EDGES)  # both run, and the reset is over
    assert [found[n] for n in known] == [(n - doubled_ahead) % 2 == 0 for n in known]


def test_what_cannot_have_it():
    with pytest.raises(UnsupportedError, match="has 2 pixels, but four share"):
        double_rate.check(Target.from_name("B64"), dsp_double_rate=True, vendor="xilinx")
    with pytest.raises(UnsupportedError, match="vendor is None"):
        double_rate.check(Target.from_name("B512"), dsp_double_rate=True)
    with pytest.raises(UnsupportedError, match="vendor is ecp5"):
        double_rate.check(Target.from_name("B512"), dsp_double_rate=True, vendor="ecp5")
    double_rate.check(Target.from_name("B64"), vendor="xilinx", window=False)
