# SPDX-License-Identifier: Apache-2.0
"""Channel permutations disappear into a convolution, and the results stay what they were."""

import numpy as np
import pytest
from oracle import evaluate_float, evaluate_quantized

from opendpu.ir import FloatGraph, to_xir
from opendpu.quantize import quantize
from opendpu.quantize.transforms.permute import permute

POINT = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}


def shuffled(between: str = "relu", splits: tuple[int, ...] = (2, 3), order=(1, 0)) -> FloatGraph:
    """Return conv, activation, shuffle of six channels, conv."""
    random = np.random.default_rng(1)
    graph = FloatGraph("shuffled")
    graph.add("x", "data", (1, 5, 4, 3))
    for name, shape in (("w", (6, 1, 1, 3)), ("v", (4, 1, 1, 6))):
        graph.add_const(name, random.standard_normal(shape))
    graph.add("a", "conv2d", (1, 5, 4, 6), {"input": ["x"], "weights": ["w"]}, POINT)
    graph.add("r", between, (1, 5, 4, 6), {"input": ["a"]})
    graph.add("s", "reshape", (1, 5, 4, *splits), {"input": ["r"]}, {"shape": [1, 5, 4, *splits]})
    moved = tuple(splits[axis] for axis in order)
    axes = [0, 1, 2, *(axis + 3 for axis in order)]
    graph.add("t", "transpose", (1, 5, 4, *moved), {"input": ["s"]}, {"order": axes})
    graph.add("j", "reshape", (1, 5, 4, 6), {"input": ["t"]}, {"shape": [1, 5, 4, 6]})
    graph.add("y", "conv2d", (1, 5, 4, 4), {"input": ["j"], "weights": ["v"]}, POINT)
    graph.outputs = ["y"]
    return graph


def image(count: int = 4) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(2).standard_normal((count, 5, 4, 3)).astype(np.float32)}


@pytest.mark.parametrize("splits", [(2, 3), (3, 2)])
def test_it_goes_into_the_convolution_before(splits):
    graph = shuffled(splits=splits)
    wanted = evaluate_float(graph, image())
    permute(graph)
    assert [n.kind for n in graph if n.kind != "const"] == ["data", "conv2d", "relu", "conv2d"]
    np.testing.assert_allclose(evaluate_float(graph, image())["y"], wanted["y"], rtol=1e-6)


@pytest.mark.parametrize("output", ["r", "j"])
def test_it_becomes_a_convolution_where_others_look(output):
    graph = shuffled()
    graph.outputs.append(output)
    wanted = evaluate_float(graph, image())
    permute(graph)
    kinds = [n.kind for n in graph if n.kind != "const"]
    assert kinds == ["data", "conv2d", "relu", "conv2d", "conv2d"]
    for name, array in evaluate_float(graph, image()).items():
        np.testing.assert_allclose(array, wanted[name], rtol=1e-6)


def test_a_permuting_convolution_adds_no_error():
    graph = shuffled()
    graph.outputs.append("r")
    quantized = quantize(graph, image(16))
    results = evaluate_quantized(quantized, image(), keep=["r_fix", "j_fix"])
    channels = np.arange(6).reshape(2, 3).T.ravel()
    np.testing.assert_array_equal(results["j_fix"], results["r_fix"][..., channels])


def test_what_moves_pixels_stays():
    graph = shuffled(splits=(2, 3))
    graph["t"].attrs["order"] = [0, 2, 1, 3, 4]
    graph["t"].type = graph["t"].type.with_shape((1, 4, 5, 2, 3))
    before = [n.kind for n in graph]
    permute(graph)
    assert [n.kind for n in graph] == before


def test_a_convolution_with_groups_becomes_dense():
    graph = shuffled(splits=(3, 2))
    graph["w"].value = np.random.default_rng(3).standard_normal((6, 1, 1, 1)).astype(np.float32)
    graph["w"].type = graph["w"].type.with_shape((6, 1, 1, 1))
    graph["a"].attrs = POINT | {"group": 3}
    wanted = evaluate_float(graph, image())
    permute(graph)
    assert [n.kind for n in graph if n.kind != "const"] == ["data", "conv2d", "relu", "conv2d"]
    np.testing.assert_allclose(evaluate_float(graph, image())["y"], wanted["y"], rtol=1e-6)
    to_xir(graph)


def joined(order: list[int], between: str = "relu") -> FloatGraph:
    """Return conv, activation, parts of six channels that are joined in an order, conv."""
    random = np.random.default_rng(4)
    graph = FloatGraph("joined")
    graph.add("x", "data", (1, 5, 4, 3))
    for name, shape in (("w", (6, 1, 1, 3)), ("v", (4, 1, 1, len(order)))):
        graph.add_const(name, random.standard_normal(shape))
    graph.add("a", "conv2d", (1, 5, 4, 6), {"input": ["x"], "weights": ["w"]}, POINT)
    graph.add("r", between, (1, 5, 4, 6), {"input": ["a"]})
    parts = [
        graph.add(
            f"p{place}", "strided_slice", (1, 5, 4, 1), {"input": ["r"]},
            {"begin": [0, 0, 0, channel], "end": [1, 5, 4, channel + 1], "strides": [1] * 4},
        ).name
        for place, channel in enumerate(order)
    ]  # fmt: skip
    shape = (1, 5, 4, len(order))
    graph.add("j", "concat", shape, {"input": parts}, {"axis": 3})
    graph.add("y", "conv2d", (1, 5, 4, 4), {"input": ["j"], "weights": ["v"]}, POINT)
    graph.outputs = ["y"]
    return graph


@pytest.mark.parametrize("order", [[5, 4, 3, 2, 1, 0], [2, 0, 0, 5, 1, 3, 3, 3], [4, 1, 0, 3]])
def test_parts_of_channels_go_into_the_convolution_before(order):
    graph = joined(order)
    wanted = evaluate_float(graph, image())
    permute(graph)
    assert [n.kind for n in graph if n.kind != "const"] == ["data", "conv2d", "relu", "conv2d"]
    assert graph["r"].shape == (1, 5, 4, len(order))
    np.testing.assert_allclose(evaluate_float(graph, image())["y"], wanted["y"], rtol=1e-6)
    to_xir(graph)


def test_parts_of_channels_that_others_read_are_a_convolution_of_their_own():
    graph = joined([5, 4, 3, 2, 1, 1])
    graph.outputs.append("r")
    quantized = quantize(graph, image(16))
    assert [n.kind for n in quantized].count("conv2d") == 3
    results = evaluate_quantized(quantized, image(), keep=["r_fix", "j_fix"])
    np.testing.assert_array_equal(results["j_fix"], results["r_fix"][..., [5, 4, 3, 2, 1, 1]])


def test_few_parts_of_channels_are_moved():
    graph = joined([2, 1, 0])
    before = [n.kind for n in graph]
    permute(graph)
    assert [n.kind for n in graph] == before
