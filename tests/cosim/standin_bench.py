# SPDX-License-Identifier: Apache-2.0
"""The bench of the whole DPU, tried on the stand-in."""

import cocotb
import numpy as np

from opendpu_sim.tb.clock import start
from opendpu_sim.tb.dpu import DpuBench
from opendpu_sim.tb.run import parameters_of
from opendpu_sim.tb.standin import COPY, END


@cocotb.test()
async def copies(dut):
    seed = parameters_of()["seed"]
    bench = DpuBench(dut, seed)
    await start(dut.aclk, dut.aresetn, active=0, deadline=20_000)
    rng = np.random.default_rng(seed)
    for beats in (1, 40):
        segments = {0: rng.integers(0, 256, 4096, np.uint8), 1: np.zeros(4096, np.uint8)}
        words = np.array([COPY << 28 | beats, 32, 16, END << 28], "<u4")
        await bench.run(words.tobytes(), segments)
        assert np.array_equal(segments[0][32 : 32 + 16 * beats], segments[1][16 : 16 + 16 * beats])
        assert not segments[1][:16].any() and not segments[1][16 + 16 * beats :].any()
