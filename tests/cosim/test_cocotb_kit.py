# SPDX-License-Identifier: Apache-2.0
"""The cocotb kit by itself: builds, stalls, deadlines and failures reach pytest."""

import pathlib

import pytest

from opendpu_hw.verilog import TOP, to_verilog
from opendpu_sim.tb import run
from opendpu_sim.tb.standin import StandIn

pytestmark = pytest.mark.cosim
HERE = pathlib.Path(__file__).parent


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_whole_dpu_bench_on_the_stand_in(tmp_path, seed):
    simulator = run.build(to_verilog(StandIn()), TOP)
    run.run(simulator, TOP, HERE / "standin_bench.py", tmp_path, {"seed": seed})


FAILING = """
import cocotb
from opendpu_sim.tb.clock import start
from cocotb.triggers import Timer
@cocotb.test()
async def never_ends(dut):
    await start(dut.aclk, dut.aresetn, active=0, deadline=50)
    await Timer(1, "ms")
@cocotb.test()
async def fails(dut):
    assert False, "on purpose"
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (FAILING, "not done after 50 cycles"),
        (FAILING, "on purpose"),
        ("import nothing_like_this", "nothing_like_this"),
        ("", r"0 of 0 tests|No tests"),
    ],
)
def test_failures_reach_pytest(tmp_path, text, reason):
    simulator = run.build(to_verilog(StandIn()), TOP)
    bench = tmp_path / "failing_bench.py"
    bench.write_text(text)
    with pytest.raises(AssertionError, match=reason):
        run.run(simulator, TOP, bench, tmp_path)
