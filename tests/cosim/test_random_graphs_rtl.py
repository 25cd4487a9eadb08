# SPDX-License-Identifier: Apache-2.0
"""Random graphs on the RTL: what the functional simulator and the integer reference say."""

import pathlib
import sys
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from opendpu_arch.target import Target
from opendpu_sim.rtl.device import RtlDevice

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "unit" / "opendpu" / "compiler"))

from graph_draws import Quantized  # noqa: E402
from random_graphs import draw  # noqa: E402
from random_graphs.check import check  # noqa: E402

pytestmark = pytest.mark.cosim
Draws = Sequence[Mapping[str, bool]]


EXTENDED = "B64+table+channel+scaled"
"""What other tests build too."""
DRAWS = ({"scaled": True}, {"scaled": True, "tables": True}, {"channels": True, "tables": True})
"""Extensions that a graph is drawn for."""


def check_graphs(
    rng: np.random.Generator, name: str, memory: str, count: int, draws: Draws = ({},)
) -> None:
    target = Target.from_name(name)
    device = RtlDevice(target, memory=memory, timeout_cycles=20_000_000)
    for number in range(count):
        seed = int(rng.integers(1 << 30))
        graph = draw(seed, **draws[number % len(draws)]).graph
        try:
            check(graph, target, seed)
            check(graph, target, seed, device=device)
        except Exception as error:
            drawn = draws[number % len(draws)]
            error.add_note(f"draw({seed}, **{drawn}), target {name}, memory {memory}")
            raise
    device.close()


@pytest.mark.parametrize("memory", ["kv260", "stall:3"])
def test_random_graphs(rng: np.random.Generator, memory: str) -> None:
    check_graphs(rng, "B64", memory, 6)


@pytest.mark.parametrize("memory", ["kv260", "stall:3"])
def test_random_graphs_with_extensions(rng: np.random.Generator, memory: str) -> None:
    check_graphs(rng, EXTENDED, memory, 6, DRAWS)


@pytest.mark.parametrize("memory", ["kv260", "stall:7"])
def test_squeeze_and_excite(memory: str) -> None:
    """A gate of one pixel, which ELEW reads for every place."""
    target = Target.from_name("B64")
    q = Quantized()
    x = q.conv(q.data(13, 9, 5), "before", 20, kernel=3, pad=1)
    window = {"kernel": [9, 13], "stride": [9, 13], "pad": [0] * 4, "pad_mode": "FLOOR"}
    q.op("most", "maxpool2d", (1, 1, 20), [x], **window)
    q.op("gated", "mul", (13, 9, 20), [x, q.fix("most", 6)])
    graph = q.done(q.conv(q.fix("gated", 4), "y", 7))
    device = RtlDevice(target, memory=memory, timeout_cycles=20_000_000)
    check(graph, target, 1)
    check(graph, target, 1, device=device)
    device.close()


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["kv260", "stall:5"])
@pytest.mark.parametrize("part", range(5))
def test_many_random_graphs(rng: np.random.Generator, memory: str, part: int) -> None:
    check_graphs(rng, "B64", memory, 10)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["kv260", "stall:5"])
@pytest.mark.parametrize("part", range(5))
def test_many_random_graphs_with_extensions(
    rng: np.random.Generator, memory: str, part: int
) -> None:
    check_graphs(rng, EXTENDED, memory, 12, DRAWS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["B512", "B1152"])
def test_random_graphs_of_larger_targets(rng: np.random.Generator, name: str) -> None:
    check_graphs(rng, name, "kv260", 15)
