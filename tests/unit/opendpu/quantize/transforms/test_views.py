# SPDX-License-Identifier: Apache-2.0
"""Activations behind a reshape of what a layer makes."""

import numpy as np
import pytest
from oracle import evaluate_float

from opendpu.ir import FloatGraph
from opendpu.quantize.transforms.views import activations_first

POINT = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}


def conv(graph: FloatGraph, source: str, name: str) -> str:
    """Add a convolution to six channels of one pixel."""
    random = np.random.default_rng(len(name))
    shape = graph[source].shape
    weights = graph.add_const(f"{name}_w", random.standard_normal((6, 1, 1, shape[-1])))
    bias = graph.add_const(f"{name}_b", random.standard_normal(6))
    inputs = {"input": [source], "weights": [weights.name], "bias": [bias.name]}
    return graph.add(name, "conv2d", (*shape[:3], 6), inputs, POINT).name


def view(graph: FloatGraph, source: str, name: str, *shape: int) -> str:
    return graph.add(name, "reshape", shape, {"input": [source]}, {"shape": list(shape)}).name


def sequence(act: str = "relu", *, seen: bool = False, back: bool = True) -> FloatGraph:
    """A convolution along a sequence, as exporters write it: a row in between is a view."""
    graph = FloatGraph("sequence")
    graph.add("x", "data", (1, 1, 8, 3))
    first = conv(graph, "x", "a")
    flat = view(graph, first, "flat", 1, 8, 6)
    graph.add("act", act, (1, 8, 6), {"input": [flat]})
    last = view(graph, "act", "again", *((1, 1, 8, 6) if back else (1, 2, 4, 6)))
    graph.outputs = [conv(graph, last, "y"), *(["flat"] if seen else [])]
    return graph


def given() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(3).standard_normal((1, 1, 8, 3)).astype(np.float32)}


@pytest.mark.parametrize("back", [False, True])
def test_the_activation_reads_the_layer_and_the_function_stays(back: bool) -> None:
    graph = sequence(back=back)
    before = evaluate_float(graph, given())["y"]
    activations_first(graph)
    assert graph["act"].inputs["input"] == ["a"]
    assert graph["act"].shape == (1, 1, 8, 6)
    np.testing.assert_allclose(evaluate_float(graph, given())["y"], before, rtol=1e-6)


def test_a_view_and_the_one_back_are_none() -> None:
    graph = sequence()
    activations_first(graph)
    assert not any(node.kind == "reshape" for node in graph)
    assert graph["y"].inputs["input"] == ["act"]


def test_a_view_that_others_see_stays() -> None:
    graph = sequence(seen=True)
    activations_first(graph)
    assert graph["act"].inputs["input"] == ["flat"]


def test_what_the_layer_cannot_apply_stays() -> None:
    graph = sequence("exp")
    activations_first(graph)
    assert graph["act"].inputs["input"] == ["flat"]
