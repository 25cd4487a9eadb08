# SPDX-License-Identifier: Apache-2.0
"""Differences of feature maps on the DPU: the same function, one part, and where they stay."""

import numpy as np
import pytest
from oracle import evaluate_float

from opendpu.ir import FloatGraph, to_xir
from opendpu.quantize.transforms.fold import fold
from opendpu.quantize.transforms.subtract import subtract

SHAPE = (1, 6, 5, 4)
THREE = {"kernel": [3, 3], "stride": [1, 1], "pad": [1, 1, 1, 1], "pad_mode": "FLOOR"}


def conv(graph, name, source):
    random = np.random.default_rng(len(name) + ord(name[0]))
    weights = graph.add_const(f"{name}_w", random.standard_normal((4, 3, 3, 4)) / 4)
    bias = graph.add_const(f"{name}_b", random.standard_normal(4))
    inputs = {"input": [source], "weights": [weights.name], "bias": [bias.name]}
    return graph.add(name, "conv2d", SHAPE, inputs, THREE).name


def pixel(graph, name, source):
    attrs = {"kernel": [5, 6], "stride": [1, 1], "pad": [0, 0, 0, 0], "global": True,
             "count_include_pad": False, "pad_mode": "FLOOR"}  # fmt: skip
    return graph.add(name, "avgpool2d", (1, 1, 1, 4), {"input": [source]}, attrs).name


def network(first, second, *, behind=""):
    """Return a network whose ``y`` is a difference of what the names stand for."""
    graph = FloatGraph("net")
    graph.add("x", "data", SHAPE)
    conv(graph, "a", "x")
    graph.add("r", "relu", SHAPE, {"input": ["a"]})
    conv(graph, "c", "r")
    pixel(graph, "p", "r")
    graph.add("t", "tanh", SHAPE, {"input": ["c"]})
    graph.add_const("one", np.ones(1))
    graph.add_const("channels", np.array([0.5, 1, -1, 2]))
    graph.add_const("map", np.random.default_rng(4).uniform(-1, 1, SHAPE))
    name = "d" if behind else "y"
    graph.add(name, "sub", SHAPE, {"input": [first, second]})
    if behind:
        graph.add("y", behind, SHAPE, {"input": ["d"]})
    graph.outputs = ["y"]
    graph.prune()
    return graph


def samples(count=8):
    random = np.random.default_rng(7)
    return {"x": random.standard_normal((count, *SHAPE[1:])).astype(np.float32)}


CASES = [("c", "r"), ("r", "c"), ("r", "p"), ("one", "r"), ("channels", "r"), ("map", "c")]


@pytest.mark.parametrize("operands", CASES)
def test_the_function_stays(operands):
    graph = network(*operands)
    before = evaluate_float(graph, samples(1))["y"]
    assert subtract(graph)
    to_xir(graph)
    np.testing.assert_allclose(evaluate_float(graph, samples(1))["y"], before, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("operands", CASES)
@pytest.mark.parametrize("behind", ["", "relu"])
def test_on_the_dpu(operands, behind, on_the_dpu):
    on_the_dpu(network(*operands, behind=behind), samples(), target="B512", least=26)


def test_the_factor_folds_into_a_layer_that_nobody_else_reads():
    graph = network("r", "c")
    count = len(graph.nodes)
    assert subtract(graph)
    fold(graph)
    assert len(graph.nodes) == count
    assert [node.kind for node in graph if node.value is None] == [
        "data", "conv2d", "relu", "conv2d", "add",
    ]  # fmt: skip


@pytest.mark.parametrize("operands", [("t", "r"), ("r", "t"), ("c", "one")])
def test_others_stay(operands):
    graph = network(*operands)
    assert not subtract(graph)
    assert graph["y"].kind == "sub"
