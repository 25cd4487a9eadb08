# SPDX-License-Identifier: Apache-2.0
"""Bilinear enlargement by any whole factor on the DPU: the same function, and where it stays."""

import numpy as np
import pytest
from oracle import evaluate_float

from opendpu.ir import FloatGraph, to_xir
from opendpu.quantize.transforms.upsample import upsample

POINT = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
FACTORS = [(3, 3), (5, 5), (6, 6), (7, 7), (2, 3), (3, 1), (1, 5), (12, 3)]


def enlarged(rows: int, columns: int, *, half: bool, corners: bool = False) -> FloatGraph:
    """A convolution of one pixel, and its result enlarged."""
    random = np.random.default_rng(6)
    graph = FloatGraph("net")
    graph.add("x", "data", (1, 5, 4, 3))
    weights = graph.add_const("w", random.standard_normal((6, 1, 1, 3)))
    bias = graph.add_const("b", random.standard_normal(6))
    inputs = {"input": ["x"], "weights": [weights.name], "bias": [bias.name]}
    graph.add("a", "conv2d", (1, 5, 4, 6), inputs, POINT)
    attrs = {
        "scale": [float(columns), float(rows)], "mode": "BILINEAR", "half_pixel_centers": half,
        "align_corners": corners,
    }  # fmt: skip
    graph.add("y", "resize", (1, 5 * rows, 4 * columns, 6), {"input": ["a"]}, attrs)
    graph.outputs = ["y"]
    return graph


def samples(count: int = 8) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    return {"x": random.standard_normal((count, 5, 4, 3)).astype(np.float32)}


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("factors", [*FACTORS, (9, 9), (16, 3)])
def test_the_function_stays(factors, half):
    graph = enlarged(*factors, half=half)
    x = samples(1)
    before = evaluate_float(graph, x)["y"]
    upsample(graph)
    to_xir(graph)
    assert graph["y"].kind == "transposed-depthwise-conv2d"
    np.testing.assert_allclose(evaluate_float(graph, x)["y"], before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("factors", "half", "target"),
    [
        ((3, 3), True, "B512"), ((3, 3), False, "B4096"), ((6, 6), True, "B4096"),
        ((2, 3), False, "B512"), ((1, 5), True, "B512"), ((7, 3), True, "B512"),
    ],
)  # fmt: skip
def test_on_the_dpu(factors, half, target, on_the_dpu):
    graph = enlarged(*factors, half=half)
    on_the_dpu(graph, samples(), target=target, least=30)


def between_corners(height: int, width: int) -> FloatGraph:
    """The same with the first and last results on the first and last pixels."""
    graph = enlarged(1, 1, half=False, corners=True)
    graph["y"].type = graph["y"].type.with_shape((1, height, width, 6))
    graph["y"].attrs["scale"] = [width / 4 + 1e-6, height / 5 + 1e-6]
    return graph


@pytest.mark.parametrize("size", [(9, 7), (17, 13), (5, 16), (65, 49), (13, 4)])
def test_the_function_between_corners_stays(size):
    graph = between_corners(*size)
    x = samples(1)
    before = evaluate_float(graph, x)["y"]
    upsample(graph)
    to_xir(graph)
    assert graph["y"].kind == "transposed-depthwise-conv2d"
    np.testing.assert_allclose(evaluate_float(graph, x)["y"], before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("size", "target"), [((9, 7), "B512"), ((17, 13), "B4096")])
def test_between_corners_on_the_dpu(size, target, on_the_dpu):
    on_the_dpu(between_corners(*size), samples(), target=target, least=30)


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (between_corners(10, 8), "every result has weights of its own"),
        (between_corners(85, 61), "too many phases"),
        (enlarged(2, 4, half=False), "int8 weights are exact"),
        (enlarged(3, 3, half=False, corners=True), "every result has weights of its own"),
        (enlarged(17, 3, half=True), "too many phases"),
    ],
)
def test_what_stays_as_it_is(graph, why):
    upsample(graph)
    assert graph["y"].kind == "resize", why


def test_what_the_cpu_makes_stays():
    graph = enlarged(3, 3, half=True)
    graph["a"].kind = "tanh"
    graph["a"].inputs = {"input": ["x"]}
    graph["x"].type = graph["a"].type
    upsample(graph)
    assert graph["y"].kind == "resize"
