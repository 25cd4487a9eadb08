# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions with more than 15 zeros before a map."""

import numpy as np
import pytest
from oracle import evaluate_float

from opendpu.ir import FloatGraph
from opendpu.quantize.transforms.wide_pad import pad_outside

POINT = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}


def network(size, kernel, pad, *, stride=1, mode="FLOOR"):
    """A small convolution, and a depthwise one; ``size`` and ``kernel`` are rows and columns."""
    rng = np.random.default_rng(3)
    net = FloatGraph("deep")
    shape = (1, *size, 8)
    net.add("x", "data", shape)
    net.add_const("a_w", rng.standard_normal((8, 1, 1, 8)) / 3)
    net.add("a", "conv2d", shape, {"input": ["x"], "weights": ["a_w"]}, POINT)
    padded = [size[0] + pad[2] + pad[3], size[1] + pad[0] + pad[1]]
    made = [(n - k) // stride + 1 for n, k in zip(padded, kernel, strict=True)]
    if mode == "SAME":
        made = [-(-n // stride) for n in size]
    net.add_const("y_w", rng.standard_normal((1, *kernel, 8)) / np.sqrt(np.prod(kernel)))
    attrs = {"kernel": list(kernel[::-1]), "stride": [stride] * 2, "pad": pad, "pad_mode": mode}
    inputs = {"input": ["a"], "weights": ["y_w"]}
    net.add("y", "depthwise-conv2d", (1, *made, 8), inputs, attrs)
    net.outputs = ["y"]
    return net


def samples(graph, count=6):
    values = np.random.default_rng(1).standard_normal((count, *graph["x"].shape[1:]))
    return {"x": values.astype(np.float32)}


CASES = {
    "QuartzNet": network((1, 90), (1, 41), [20, 20, 0, 0]),
    "75 taps": network((1, 80), (1, 75), [37, 37, 0, 0]),
    "causal": network((1, 60), (1, 33), [32, 0, 0, 0]),
    "a map": network((20, 22), (33, 35), [17, 17, 16, 16]),
    "same": network((1, 70), (1, 35), [0, 0, 0, 0], mode="SAME"),
    "a stride": network((1, 81), (1, 33), [16, 16, 0, 0], stride=2),
}


@pytest.mark.parametrize("case", CASES)
def test_the_function_stays(case):
    graph = CASES[case].copy()
    before = evaluate_float(graph, samples(graph))["y"]
    assert pad_outside(graph, ["y"]) == 0
    assert pad_outside(graph) == 1
    assert graph["y"].attrs["pad"] == [0, 0, 0, 0]
    np.testing.assert_allclose(evaluate_float(graph, samples(graph))["y"], before, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_on_the_dpu(case, on_the_dpu):
    on_the_dpu(CASES[case].copy(), samples(CASES[case]), target="B512", least=26)


def test_more_taps_than_a_load_has_pixels(on_the_dpu):
    graph = network((30, 30), (33, 33), [15, 15, 15, 15])
    on_the_dpu(graph, samples(graph), target="B512", least=26)


def test_what_instructions_can_say_stays():
    assert pad_outside(network((1, 90), (1, 31), [15, 15, 0, 0])) == 0
