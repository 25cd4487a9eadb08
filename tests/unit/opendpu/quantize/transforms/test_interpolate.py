# SPDX-License-Identifier: Apache-2.0
"""Bilinear resize by any factor on the DPU: nearly the same function, and where it stays."""

import numpy as np
import pytest
from oracle import evaluate_float

from opendpu.api import compile_graph
from opendpu.compiler.limits import MAX_ALU_KERNEL
from opendpu.ir import FloatGraph, Quantization, QuantizedGraph, to_xir
from opendpu.quantize import quantize
from opendpu.quantize.transforms.interpolate import interpolate

MANY = MAX_ALU_KERNEL + 1
POINT = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}


def resized(
    size: tuple[int, int], made: tuple[int, int], *, how: str, channels: int = 6
) -> FloatGraph:
    """A convolution of one pixel, and its result in another size."""
    random = np.random.default_rng(6)
    graph = FloatGraph("net")
    graph.add("x", "data", (1, *size, 3))
    weights = graph.add_const("w", random.standard_normal((channels, 1, 1, 3)))
    bias = graph.add_const("b", random.standard_normal(channels))
    inputs = {"input": ["x"], "weights": [weights.name], "bias": [bias.name]}
    graph.add("a", "conv2d", (1, *size, channels), inputs, POINT)
    attrs = {
        "scale": [made[1] / size[1] + 1e-7, made[0] / size[0] + 1e-7], "mode": "BILINEAR",
        "half_pixel_centers": how == "half", "align_corners": how == "corners",
    }  # fmt: skip
    graph.add("y", "resize", (1, *made, channels), {"input": ["a"]}, attrs)
    graph.outputs = ["y"]
    return graph


def samples(graph: FloatGraph, count: int = 8) -> dict[str, np.ndarray]:
    shape = (count, *graph["x"].shape[1:])
    return {"x": np.random.default_rng(7).standard_normal(shape).astype(np.float32)}


SIZES = [
    ((5, 4), (10, 8), "corners"), ((6, 6), (28, 21), "corners"), ((5, 4), (8, 6), "half"),
    ((5, 4), (8, 6), "plain"), ((4, 6), (4, 9), "half"), ((4, 6), (10, 6), "corners"),
    ((2, 3), (9, 11), "corners"), ((9, 12), (4, 6), "half"), ((9, 12), (7, 5), "corners"),
    ((1, 5), (1, 12), "half"), ((5, 1), (9, 4), "corners"), ((3, 3), (51, 54), "half"),
]  # fmt: skip


@pytest.mark.parametrize(("size", "made", "how"), SIZES)
def test_the_function_stays_but_for_the_steps_of_shares(size, made, how):
    graph = resized(size, made, how=how)
    x = samples(graph, 1)
    before = evaluate_float(graph, x)
    spread = np.ptp(before["y"]) / 2  # two neighbours are no further apart than twice that
    interpolate(graph)
    to_xir(graph)
    assert {node.kind for node in graph} >= {"matmul"}
    assert not [node.name for node in graph if node.kind == "resize"]
    found = evaluate_float(graph, x)["y"]
    assert found.shape == before["y"].shape
    np.testing.assert_allclose(found, before["y"], atol=4 * spread / 128)


@pytest.mark.parametrize(("size", "made", "how"), SIZES)
def test_on_the_dpu(size, made, how, on_the_dpu):
    graph = resized(size, made, how=how)
    on_the_dpu(graph, samples(graph), target="B512", least=26)


@pytest.mark.parametrize(("size", "made", "how"), SIZES[:4])
def test_with_more_lanes(size, made, how, on_the_dpu):
    graph = resized(size, made, how=how, channels=33)
    on_the_dpu(graph, samples(graph), target="B4096", least=26)


def test_what_the_engines_have_stays():
    graph = resized((5, 4), (10, 16), how="plain")
    interpolate(graph)
    assert graph["y"].kind == "resize"


def test_what_the_cpu_makes_stays():
    graph = resized((5, 4), (8, 6), how="half")
    graph["a"].kind = "tanh"
    graph["a"].inputs = {"input": ["x"]}
    graph["x"].type = graph["a"].type
    interpolate(graph)
    assert graph["y"].kind == "resize"


def test_what_is_slower_on_the_dpu_says_so():
    graph = resized((10, 10), (320, 320), how="half", channels=1)
    compiled = compile_graph(quantize(graph, samples(graph, 2)), target="B4096")
    (why,) = compiled.report.on_cpu.values()
    assert "resize of 10x10 to 320x320 would be 128 layers" in why
    assert "fewer pixels would lift it" in why


def test_a_matrix_of_many_neighbours_is_refused_by_name():
    graph = QuantizedGraph("net")
    graph.add("x", "data", (1, MANY, 3, 4))
    x = graph.add_fix("x_fix", "x", Quantization.power_of_two(5)).name
    graph.add_const("m", np.ones((2, MANY)))
    matrix = graph.add_fix("m_fix", "m", Quantization.power_of_two(6)).name
    graph.add("lines", "reshape", (1, MANY, 12), {"input": [x]}, {"shape": [1, MANY, 12]})
    lines = graph.add_fix("lines_fix", "lines", Quantization.power_of_two(5)).name
    attrs = {"transpose_a": False, "transpose_b": False}
    graph.add("y", "matmul", (1, 2, 12), {"input": [matrix, lines]}, attrs)
    graph.outputs = [graph.add_fix("y_fix", "y", Quantization.power_of_two(2)).name]
    (why, *_) = compile_graph(graph, target="B512").report.on_cpu.values()
    assert f"a result is made of up to {MAX_ALU_KERNEL} neighbours, but here of {MANY}" in why
