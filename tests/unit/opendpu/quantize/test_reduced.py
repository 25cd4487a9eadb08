# SPDX-License-Identifier: Apache-2.0
"""A number a channel, computed where the map is: means and ranges, of few samples or many."""

import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu.ops.session import Session
from opendpu.quantize.equalization import TINY, _ranges
from opendpu.quantize.observers.mean import SampleMeans
from opendpu.quantize.reduced import pixels, with_largest, with_largest_below_zero, with_means
from opendpu.quantize.samples import calibration_samples
from opendpu.quantize.transforms.channel_sets import find_sets
from opendpu.quantize.transforms.equalize import bounded_ops, equalize

sys.path.append(str(Path(__file__).parent))
from float_nets import Net, samples


def network(last="relu6"):
    net = Net()
    net.conv("a", "x", 8)
    net.put("ar", "relu", ["a"])
    net.conv("b", "ar", 8)
    net.put("br", last, ["b"])
    net.conv("c", "br", 4)
    return net.done("c")


def test_reduced_maps_are_those_that_numpy_reduces():
    graph, data = network(), samples(3)
    graph.add("flat", "reshape", (1, 512), {"input": ["b"]}, {"shape": [1, 512]})
    names = ["b", "br", "flat", "x"]
    maps = Session(graph, keep=["b", "br", "flat"], batched=True).run(data) | data
    means, most = with_means(graph, names), with_largest(graph, names)
    least = with_largest_below_zero(graph, names)
    assert least.ops.keys() == {"b", "flat", "x"}
    for made, sign, rule in ((means, 1, np.mean), (most, 1, np.max), (least, -1, np.max)):
        found = Session(made.graph, keep=list(made.ops.values()), batched=True).run(data)
        for name, op in made.ops.items():
            wanted = sign * maps[name]
            if wanted.ndim == 4:
                wanted = rule(wanted, axis=(1, 2), keepdims=True)
            np.testing.assert_allclose(found[op], wanted, rtol=1e-5, atol=1e-6)
    assert (pixels(graph, "b"), pixels(graph, "flat")) == (64, 1)


def test_means_of_means_are_those_of_the_maps():
    maps = np.random.default_rng(0).standard_normal((5, 6, 7, 3)).astype(np.float32)
    whole, reduced = SampleMeans(), SampleMeans()
    whole.add(maps, 5)
    reduced.add(maps.mean(axis=(1, 2), keepdims=True), 5, 42)
    for numbers in (range(5), [1, 3]):
        np.testing.assert_allclose(reduced.over(numbers), whole.over(numbers), atol=1e-6)


@pytest.mark.parametrize("last", ["relu", "relu6", "leaky-relu"])
def test_ranges_follow_the_factors_of_equalization(last):
    graph = network(last)
    if last == "leaky-relu":
        graph["br"].attrs["alpha"] = 0.1015625
    given = calibration_samples(graph, samples())
    sets = [one for one in find_sets(graph) if not one.reason]
    largest, ranges = _ranges(graph, bounded_ops(graph), sets, given, 4)
    assert set(largest) == ({"br"} if last == "relu6" else set())
    (maps,) = Session(graph, keep=["ar"], batched=True).run(given.stacked(0, 16)).values()
    np.testing.assert_allclose(ranges["b"], np.maximum(abs(maps).max(axis=(0, 1, 2)), TINY))
    done = equalize(graph, largest)
    assert any((factors != 1).any() for factors in done.factors.values())
    _, after = _ranges(graph, [], sets, given, 4)
    for name, values in ranges.items():
        np.testing.assert_allclose(values * done.factors.get(name, 1.0), after[name], rtol=1e-4)
