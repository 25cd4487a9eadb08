# SPDX-License-Identifier: Apache-2.0
"""MLPerf Tiny networks, quantized by us and computed in the DPU's integers."""

import numpy as np
import pytest
from oracle import evaluate_float, evaluate_quantized

from opendpu.frontend import load_onnx
from opendpu.ir import QuantizedGraph
from opendpu.ops.session import Session
from opendpu.quantize import quantize

pytestmark = pytest.mark.system


def ratio(expected: np.ndarray, found: np.ndarray) -> float:
    """Return signal to quantization noise in dB."""
    return float(10 * np.log10((expected**2).sum() / ((expected - found) ** 2).sum()))


def images(rng: np.random.Generator, count: int, size: int) -> np.ndarray:
    """Return pictures with large shapes and some texture, 0..1."""
    small = rng.random((count, 7, 7, 3))
    at = np.linspace(0, 5.999, size)
    low, share = at.astype(int), (at % 1).reshape(-1, 1)
    rows = small[:, low] * (1 - share[None, :, None]) + small[:, low + 1] * share[None, :, None]
    whole = rows[:, :, low] * (1 - share) + rows[:, :, low + 1] * share
    return np.clip(whole + 0.08 * rng.standard_normal(whole.shape), 0, 1).astype(np.float32)


def real(graph: QuantizedGraph, outputs: dict[str, np.ndarray], name: str) -> np.ndarray:
    return outputs[name] * 2.0 ** -graph[name].fix_point


def test_keyword_spotting(models):
    """1000 clips: the float network scores 90.1 %, MLPerf wants 90 % of its int8 version."""
    data = np.load(models / "mlperf_tiny" / "kws01.npz")
    x = ((data["x"].astype(np.float32) - data["zero_point"]) * data["scale"]).astype(np.float32)
    graph = load_onnx(models / "mlperf_tiny" / "kws_dscnn.onnx")
    chosen = np.random.default_rng(0).choice(len(x), 100, replace=False)
    quantized = quantize(graph, {"input_1": x[chosen]})
    found = evaluate_quantized(quantized, {"input_1": x})["Identity"]
    expected = evaluate_float(graph, {"input_1": x})["Identity"]
    assert (expected.argmax(axis=1) == data["y"]).mean() == pytest.approx(0.901)
    accuracy = (found.argmax(axis=1) == data["y"]).mean()
    print(f"keyword spotting: {accuracy:.1%} of 1000 clips")
    assert accuracy >= 0.891


@pytest.mark.parametrize("draw", range(5))
def test_keyword_spotting_whatever_is_drawn(models, draw):
    """Calibrated with any 100 of the clips, the others are recognized at MLPerf's level."""
    data = np.load(models / "mlperf_tiny" / "kws01.npz")
    x = ((data["x"].astype(np.float32) - data["zero_point"]) * data["scale"]).astype(np.float32)
    graph = load_onnx(models / "mlperf_tiny" / "kws_dscnn.onnx")
    order = np.random.default_rng(draw).permutation(len(x))
    quantized = quantize(graph, {"input_1": x[order[:100]]})
    (found,) = Session(quantized, batched=True).run({"input_1": x[order[100:]]}).values()
    accuracy = (found.argmax(axis=1) == data["y"][order[100:]]).mean()
    print(f"keyword spotting, draw {draw}: {accuracy:.1%} of 900 clips")
    assert accuracy >= 0.9


@pytest.mark.parametrize(
    ("name", "size", "largest", "logits", "least"),
    [
        ("ic_resnet8", 32, 255, "Add__29:0", 25),
        ("vww_mobilenetv1_025", 96, 1, "Add__87:0", 20),
    ],
)
def test_pictures(models, name, size, largest, logits, least):
    x = images(np.random.default_rng(5), 96, size) * largest
    graph = load_onnx(models / "mlperf_tiny" / f"{name}.onnx")
    quantized = quantize(graph, {"input_1": x[:64]})
    expected = evaluate_float(graph, {"input_1": x[64:]}, keep=[logits])[logits]
    outputs = evaluate_quantized(quantized, {"input_1": x[64:]}, keep=[f"{logits}_fix"])
    found = ratio(expected, real(quantized, outputs, f"{logits}_fix"))
    print(f"{name}: {found:.1f} dB")
    assert found > least


def test_anomaly_detector(models):
    x = (np.random.default_rng(5).standard_normal((96, 640)) * 3 - 5).astype(np.float32)
    graph = load_onnx(models / "mlperf_tiny" / "ad01.onnx")
    quantized = quantize(graph, {"input_1": x[:64]})
    expected = evaluate_float(graph, {"input_1": x[64:]})["Identity"]
    outputs = evaluate_quantized(quantized, {"input_1": x[64:]})
    assert ratio(expected, real(quantized, outputs, "Identity_fix")) > 25
