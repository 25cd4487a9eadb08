# SPDX-License-Identifier: Apache-2.0
"""Every engine by itself under cocotb, against the model, with stalls on every port."""

import functools
import pathlib

import pytest

from opendpu_arch import isa
from opendpu_arch.target import Target
from opendpu_hw.engine.conv import Conv
from opendpu_hw.engine.load import Load
from opendpu_hw.engine.misc import MiscEngine
from opendpu_hw.engine.save import Save
from opendpu_sim.progen import ENGINES, random_program
from opendpu_sim.tb import run

pytestmark = pytest.mark.cosim
BENCH = pathlib.Path(__file__).parent / "engine_bench.py"
KINDS = [kind for kind in ENGINES if kind != "mixed"]
EXTENDED = "B64+table+channel+scaled"
COMPONENTS = {"load": Load, "save": Save, "conv": Conv}


@functools.cache
def simulator(component, target):
    return run.build_component(component(Target.from_name(target)))


def bench(kind, target, seed, tmp_path):
    component = COMPONENTS.get(kind, MiscEngine)
    parameters = {"kind": kind, "target": target, "seed": seed}
    run.run(simulator(component, target), run.DUT, BENCH, tmp_path, parameters)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_engine(kind, seed, tmp_path):
    bench(kind, "B64", seed, tmp_path)


@pytest.mark.parametrize(("kind", "seed"), [("conv", 9), ("dwconv", 27), ("eltwise", 5)])
def test_engine_with_extensions(kind, seed, tmp_path):
    """Results by multipliers, with and without tables, beside shifts of channels and plain ones."""
    code, _ = random_program(kind, Target.from_name(EXTENDED), seed)
    program = isa.decode(code)
    ways = {(i.scaled, i.table > 0) for i in program if hasattr(i, "scaled")}
    assert {(1, True), (1, False)} < ways
    assert kind == "eltwise" or any(getattr(i, "channel_shift", 0) for i in program)
    bench(kind, EXTENDED, seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["B64", "B128", "B512", EXTENDED, "B128+scaled"])
@pytest.mark.parametrize("kind", KINDS)
def test_engine_for_long(kind, target, tmp_path):
    for seed in range(100, 120):
        bench(kind, target, seed, tmp_path)
