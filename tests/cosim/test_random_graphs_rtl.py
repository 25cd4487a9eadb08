# SPDX-License-Identifier: Apache-2.0
"""Random graphs on the RTL: what the functional simulator and the integer reference say."""

import pathlib
import sys

import numpy as np
import pytest

from opendpu_arch.target import Target
from opendpu_sim.rtl.device import RtlDevice

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "unit" / "opendpu" / "compiler"))

from random_graphs import draw  # noqa: E402
from random_graphs.check import check  # noqa: E402

pytestmark = pytest.mark.cosim


def check_graphs(rng: np.random.Generator, name: str, memory: str, count: int) -> None:
    target = Target.from_name(name)
    device = RtlDevice(target, memory=memory, timeout_cycles=20_000_000)
    for _ in range(count):
        seed = int(rng.integers(1 << 30))
        graph = draw(seed).graph
        try:
            check(graph, target, seed)
            check(graph, target, seed, device=device)
        except Exception as error:
            error.add_note(f"seed {seed}, target {name}, memory {memory}")
            raise
    device.close()


@pytest.mark.parametrize("memory", ["kv260", "stall:3"])
def test_random_graphs(rng: np.random.Generator, memory: str) -> None:
    check_graphs(rng, "B64", memory, 6)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["kv260", "stall:5"])
@pytest.mark.parametrize("part", range(5))
def test_many_random_graphs(rng: np.random.Generator, memory: str, part: int) -> None:
    check_graphs(rng, "B64", memory, 10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["B512", "B1152"])
def test_random_graphs_of_larger_targets(rng: np.random.Generator, name: str) -> None:
    check_graphs(rng, name, "kv260", 15)
