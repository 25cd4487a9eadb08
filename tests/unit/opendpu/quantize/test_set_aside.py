# SPDX-License-Identifier: Apache-2.0
"""Results in a file: the same bits, in the same order in memory; one session at a time."""

import gc
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from opendpu.ops.session import Session
from opendpu.quantize import noise, quantize_with_report
from opendpu.quantize.set_aside import set_aside

sys.path.append(str(Path(__file__).parent))
from float_nets import Net, samples


def arrays():
    rng = np.random.default_rng(0)
    yield "plain", rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    yield "moved", rng.standard_normal((2, 3, 4, 5)).astype(np.float32).transpose(0, 2, 3, 1)
    yield "apart", rng.standard_normal((4, 6)).astype(np.float32)[:, ::2]
    yield "fortran", np.asfortranarray(rng.standard_normal((4, 6)))
    yield "number", np.array(3.5, np.float32)
    yield "none", np.empty((0, 3), np.float32)
    yield "bytes", np.arange(24, dtype=np.int8).reshape(2, 3, 4)


@pytest.mark.parametrize(("name", "array"), list(arrays()))
def test_what_comes_back(name, array):
    parts = [(2, {"a": array, "b": array + 1}), (1, {"a": array + 2, "b": array})]
    found = list(set_aside(parts))
    assert [count for count, _ in found] == [2, 1]
    for (_, wanted), (_, made) in zip(parts, found, strict=True):
        for key, value in wanted.items():
            np.testing.assert_array_equal(made[key], value)
            assert made[key].dtype == value.dtype
            flat = made[key].ravel(order="K")  # sums of these are the same to the bit
            np.testing.assert_array_equal(flat, value.ravel(order="K"))


def test_parts_are_computed_first():
    done = []

    def parts():
        for number in range(3):
            done.append(number)
            yield 1, {"a": np.full((2, 2), number, np.float32)}

    made = set_aside(parts())
    assert done == [0, 1, 2]
    assert [int(some["a"][0, 0]) for _, some in made] == [0, 1, 2]


def test_no_two_sessions_of_the_network(monkeypatch):
    """Each holds the weights of the whole network: VGG-16 took 3.7 GB with two of them."""
    alive, most = weakref.WeakSet(), [0]
    opened = Session.__init__

    def open_one(self, graph, **given):
        opened(self, graph, **given)
        if "c" in graph.nodes and "a" in graph.nodes:
            alive.add(self)
        gc.collect()
        most[0] = max(most[0], len(alive))

    monkeypatch.setattr(Session, "__init__", open_one)
    monkeypatch.setattr(noise, "MUCH_WEIGHTS", 0)
    net = Net()
    net.conv("a", "x", 8)
    net.put("ar", "relu", ["a"])
    net.conv("c", "ar", 4)
    found = quantize_with_report(net.done("c"), samples(16))
    assert found.report.outputs_sqnr["c"] > 20
    assert most[0] == 1
