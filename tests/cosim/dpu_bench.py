# SPDX-License-Identifier: Apache-2.0
"""The whole DPU: software loads a program through the registers, memories stall at random."""

import cocotb
import numpy as np

from opendpu.runtime.device import Job
from opendpu_arch.target import Target
from opendpu_sim.device import IssDevice
from opendpu_sim.progen import random_program
from opendpu_sim.tb.clock import start
from opendpu_sim.tb.dpu import DpuBench
from opendpu_sim.tb.run import parameters_of


@cocotb.test()
async def random_programs(dut):
    given = parameters_of()
    target = Target.from_name(given["target"])
    bench = DpuBench(dut, given["seed"])
    await start(dut.aclk, dut.aresetn, active=0, deadline=100_000)
    iss = IssDevice(target)
    for kind, seed in given["programs"]:
        code, segments = random_program(kind, target, seed)
        expected = {reg: content.copy() for reg, content in segments.items()}
        iss.run(Job(code, expected))
        await bench.run(code, segments)
        for reg, content in segments.items():
            different = np.flatnonzero(content != expected[reg])
            assert not different.size, (
                f"random_program({kind!r}, {target.name}, {seed}): segment {reg} differs in "
                f"{different.size} bytes, first at {different[0]:#x}"
            )
        assert await bench.read("TOKENS") == 0
        assert await bench.read("FINGERPRINT_L") == target.fingerprint & 0xFFFF_FFFF
