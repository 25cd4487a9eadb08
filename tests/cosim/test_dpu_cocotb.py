# SPDX-License-Identifier: Apache-2.0
"""The whole DPU under cocotb; the same programs in process."""

import pathlib

import numpy as np
import pytest

from opendpu.runtime.device import Job
from opendpu_arch.target import Target
from opendpu_hw.verilog import TOP, elaborate
from opendpu_sim.device import IssDevice
from opendpu_sim.progen import ENGINES, random_program
from opendpu_sim.rtl.device import RtlDevice
from opendpu_sim.tb import run

pytestmark = pytest.mark.cosim
BENCH = pathlib.Path(__file__).parent / "dpu_bench.py"
TARGET = Target.from_name("B64")


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_programs_as_software_runs_them(seed, tmp_path):
    programs = [[kind, 500 + seed] for kind in ENGINES]
    simulator = run.build(elaborate(TARGET), TOP)
    run.run(simulator, TOP, BENCH, tmp_path, {"target": "B64", "seed": seed, "programs": programs})


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", ENGINES)
def test_the_same_programs_in_process(kind, seed):
    code, segments = random_program(kind, TARGET, 500 + seed)
    expected = {reg: content.copy() for reg, content in segments.items()}
    IssDevice(TARGET).run(Job(code, expected))
    RtlDevice(TARGET, memory=f"stall:{seed}", timeout_cycles=1_000_000).run(Job(code, segments))
    for reg, content in segments.items():
        np.testing.assert_array_equal(content, expected[reg])
