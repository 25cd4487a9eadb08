# SPDX-License-Identifier: Apache-2.0
"""What is measured of tensors and layers, against numpy."""

import dataclasses
import math

import numpy as np
import pytest

from opendpu.evaluation import measure
from opendpu.ir import FloatGraph, Quantization
from opendpu.quantize import quantize_with_report
from opendpu.quantize.samples import calibration_samples

POINT = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
WEIGHTS = np.random.default_rng(3).normal(0, 0.4, (6, 1, 1, 5)).astype(np.float32)
DATA = np.random.default_rng(4).normal(0, 1, (12, 3, 4, 5)).astype(np.float32)


def sqnr(wanted: np.ndarray, found: np.ndarray) -> float:
    noise = np.square(found.astype(np.float64) - wanted).sum()
    return float(10 * np.log10(np.square(wanted.astype(np.float64)).sum() / noise))


def rounded(array: np.ndarray, point: int) -> np.ndarray:
    return np.clip(np.floor(array * 2.0**point + 0.5), -128, 127) / 2.0**point


@pytest.fixture
def found():
    """Return the report of a convolution and its ReLU, and their fix points."""
    graph = FloatGraph("one")
    graph.add("x", "data", (1, 3, 4, 5))
    graph.add_const("w", WEIGHTS)
    inputs = {"input": ["x"], "weights": ["w"]}
    graph.add("c", "conv2d", (1, 3, 4, 6), inputs, POINT)
    graph.add("r", "relu", (1, 3, 4, 6), {"input": ["c"]})
    graph.outputs = ["r"]
    made = quantize_with_report(
        graph, {"x": DATA}, refinement=False, bias_correction=False, cross_layer=False
    )
    fix = made.graph["x_fix"]  # coarse, so that some values saturate
    fix.type = fix.type.with_quantization(Quantization.power_of_two(6))
    assert made.reference is not None
    assert made.report is not None
    report = dataclasses.replace(
        made.report, tensors=(), layers=(), outputs_sqnr={}, measured_samples=0
    )
    points = {node.name: node.fix_point for node in made.graph if node.kind == "fix"}
    samples = calibration_samples(graph, {"x": DATA})
    return measure(report, made.graph, made.reference, samples, count=8), points


def test_tensors(found):
    report, points = found
    tensors = {tensor.name: tensor for tensor in report.tensors}
    assert {name: (t.role, t.layer) for name, t in tensors.items()} == {
        "w": ("weights", "c"), "x": ("input", "x"), "r": ("activation", "r"),
    }  # fmt: skip
    some = DATA[:8]
    assert tensors["x"].fix_point == 6
    assert tensors["x"].minimum == some.min()
    assert tensors["x"].maximum == some.max()
    outside = (some * 64 < -128.5) | (some * 64 >= 127.5)
    assert outside.any()
    assert tensors["x"].saturation == outside.mean()
    assert tensors["x"].sqnr == pytest.approx(sqnr(some, rounded(some, 6)))
    assert tensors["w"].sqnr == pytest.approx(sqnr(WEIGHTS, rounded(WEIGHTS, points["w_fix"])))
    counted = tensors["x"].histogram
    assert counted is not None
    wanted, _ = np.histogram(some, len(counted.counts), (some.min(), some.max()))
    assert counted.counts == tuple(wanted)


def test_layers_and_outputs(found):
    report, points = found
    some = DATA[:8]
    weights = WEIGHTS[:, 0, 0]
    wanted = np.maximum(some @ weights.T, 0)
    made = np.maximum(rounded(some, 6) @ rounded(weights, points["w_fix"]).T, 0)
    ratio = sqnr(wanted, rounded(made, points["r_fix"]))
    (layer,) = report.layers
    assert (layer.name, layer.kind) == ("r", "conv2d")
    assert layer.output_sqnr == pytest.approx(ratio, abs=0.01)
    assert report.outputs_sqnr == {"r": layer.output_sqnr}
    assert report.measured_samples == 8
    assert layer.weights_sqnr is not None
    assert math.isclose(
        layer.weights_sqnr, sqnr(WEIGHTS, rounded(WEIGHTS, points["w_fix"])), rel_tol=1e-6
    )
