# SPDX-License-Identifier: Apache-2.0
"""Every engine by itself under cocotb, against the model, with stalls on every port."""

import functools
import pathlib

import pytest

from opendpu_arch.target import Target
from opendpu_hw.engine.conv import Conv
from opendpu_hw.engine.load import Load
from opendpu_hw.engine.misc import MiscEngine
from opendpu_hw.engine.save import Save
from opendpu_sim.progen import ENGINES
from opendpu_sim.tb import run

pytestmark = pytest.mark.cosim
BENCH = pathlib.Path(__file__).parent / "engine_bench.py"
KINDS = [kind for kind in ENGINES if kind != "mixed"]
COMPONENTS = {"load": Load, "save": Save, "conv": Conv}


@functools.cache
def simulator(component, target):
    return run.build_component(component(Target.from_name(target)))


def bench(kind, target, seed, tmp_path):
    component = COMPONENTS.get(kind, MiscEngine)
    parameters = {"kind": kind, "target": target, "seed": seed}
    run.run(simulator(component, target), run.DUT, BENCH, tmp_path, parameters)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_engine(kind, seed, tmp_path):
    bench(kind, "B64", seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["B64", "B128", "B512"])
@pytest.mark.parametrize("kind", KINDS)
def test_engine_for_long(kind, target, tmp_path):
    for seed in range(100, 120):
        bench(kind, target, seed, tmp_path)
