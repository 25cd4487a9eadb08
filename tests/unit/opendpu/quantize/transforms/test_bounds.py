# SPDX-License-Identifier: Apache-2.0
"""Maxima and minima with constants on the DPU: the same function, and where they stay."""

import numpy as np
import pytest
from oracle import evaluate_float

from opendpu.ir import FloatGraph, to_xir
from opendpu.quantize import quantize
from opendpu.quantize.transforms.bounds import bound
from opendpu.quantize.transforms.fold import fold
from opendpu_arch.target import Target

SHAPE = (1, 8, 8, 4)
EACH = np.array([0.1, -0.5, 0.4, 0.0])
WINDOW = {"kernel": [3, 3], "stride": [1, 1], "pad": [1, 1, 1, 1], "pad_mode": "FLOOR"}


def layer(graph: FloatGraph, name: str, source: str, random: np.random.Generator) -> str:
    weights = graph.add_const(f"{name}_w", random.standard_normal((4, 3, 3, 4)) / 3)
    bias = graph.add_const(f"{name}_b", random.standard_normal(4))
    inputs = {"input": [source], "weights": [weights.name], "bias": [bias.name]}
    return graph.add(name, "conv2d", SHAPE, inputs, WINDOW).name


def limited(*bounds: tuple[str, object], swapped: bool = False, source: str = "a") -> FloatGraph:
    """A convolution, bounds of its result, one after the other, and another convolution."""
    random = np.random.default_rng(4)
    graph = FloatGraph("net")
    graph.add("x", "data", SHAPE)
    last = layer(graph, "a", "x", random) if source == "a" else "x"
    for number, (kind, limit) in enumerate(bounds):
        constant = graph.add_const(f"l{number}", np.atleast_1d(np.asarray(limit, np.float32))).name
        given = [constant, last] if swapped else [last, constant]
        last = graph.add(f"m{number}", kind, SHAPE, {"input": given}).name
    layer(graph, "y", last, random)
    graph.outputs = ["y"]
    return graph


def samples(count: int = 16) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    return {"x": random.standard_normal((count, *SHAPE[1:])).astype(np.float32)}


CASES = {
    "clip": ([("max", -1.3), ("min", 2.7)], "relu6"),
    "clip, the other way round": ([("min", 0.7), ("max", -0.2)], "relu6"),
    "from zero": ([("max", 0.0), ("min", 1.1)], "relu6"),
    "above zero": ([("max", 0.3), ("min", 0.9)], "relu6"),
    "a channel": ([("max", EACH), ("min", EACH + 1)], "relu6"),
    "maximum": ([("max", -0.4)], "relu"),
    "minimum": ([("min", 0.4)], "relu"),
    "maximum a channel": ([("max", EACH.reshape(1, 1, 1, 4))], "relu"),
    "two maxima": ([("max", 0.1), ("max", EACH)], "relu"),
}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_function_stays(case, swapped):
    bounds, kind = CASES[case]
    graph = limited(*bounds, swapped=swapped)
    x = {"x": samples(1)["x"]}
    before = evaluate_float(graph, x)["y"]
    assert bound(graph)
    fold(graph)
    to_xir(graph)
    kinds = {node.kind for node in graph} - {"const", "data"}
    behind = set() if case == "from zero" else {"depthwise-conv2d"}  # no offset: in the convolution
    assert kinds == {"conv2d", kind, *behind}
    np.testing.assert_allclose(evaluate_float(graph, x)["y"], before, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_on_the_dpu(case, on_the_dpu):
    """One part, the integers of the reference, and near the float network."""
    graph = limited(*CASES[case][0])
    on_the_dpu(graph, samples(), target="B512", least=25)


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (limited(("max", 1.0), ("min", 0.5)), "nothing is between the bounds"),
        (limited(("max", np.zeros((8, 1)))), "a limit a row"),
        (limited(("max", np.inf)), "no number"),
        (limited(("max", 0.3), source="x"), "the CPU makes its input"),
    ],
)
def test_what_stays_as_it_is(graph, why):
    before = [node.kind for node in graph]
    assert not bound(graph), why
    assert [node.kind for node in graph] == before, why


def test_results_that_others_see():
    """A bound inside another one whose result is an output is made on its own."""
    graph = limited(("max", -0.5), ("min", 0.5))
    graph.outputs = ["y", "m0"]
    x = {"x": samples(1)["x"]}
    before = evaluate_float(graph, x)
    assert bound(graph)
    after = evaluate_float(graph, x)
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, rtol=1e-5, atol=1e-5)


def test_tables_take_them_at_once():
    """A target with tables has the function itself."""
    target = Target.from_name("B512+table")
    quantized = quantize(limited(("max", -1.3), ("min", 2.7)), samples(), target=target)
    assert not any(node.kind.startswith("depthwise") for node in quantized)
