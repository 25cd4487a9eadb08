# SPDX-License-Identifier: Apache-2.0
"""Sessions that take feature maps as other sessions leave them."""

import numpy as np
import pytest

from opendpu.ir import FloatGraph
from opendpu.ops.session import Session


def network(rng: np.random.Generator) -> FloatGraph:
    """Return a layer, a sum with an operand of its own, and what needs the last axis."""
    graph = FloatGraph("g")
    graph.add("x", "data", (1, 5, 7, 3))
    graph.add("z", "data", (1, 5, 7, 4))
    graph.add_const("w", rng.standard_normal((4, 3, 3, 3)))
    attrs = {"kernel": [3, 3], "stride": [1, 1], "pad": [1, 1, 1, 1], "pad_mode": "FLOOR"}
    graph.add("c", "conv2d", (1, 5, 7, 4), {"input": ["x"], "weights": ["w"]}, attrs)
    graph.add("s", "add", (1, 5, 7, 4), {"input": ["c", "z"]})
    graph.add("y", "reshape", (1, 140), {"input": ["s"]}, {"shape": [1, 140]})
    graph.outputs = ["s", "y"]
    return graph


@pytest.mark.parametrize("samples", [1, 3])
def test_the_same_results_in_any_order_of_memory(samples, rng):
    graph = network(rng)
    plain = {
        name: rng.standard_normal((samples, 5, 7, channels)).astype(np.float32)
        for name, channels in (("x", 3), ("z", 4))
    }
    first = {
        name: np.ascontiguousarray(array.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
        for name, array in plain.items()
    }
    wanted = Session(graph, batched=True).run(plain)
    session = Session(graph, batched=True, channels_first=True)
    for given in (plain, first):
        found = session.run(given)
        for name in graph.outputs:
            np.testing.assert_array_equal(found[name], wanted[name])
