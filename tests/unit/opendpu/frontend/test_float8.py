# SPDX-License-Identifier: Apache-2.0
"""Pairs around floats of eight bits: refused as they are, read where they may be changed."""

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from quantized_pairs import Pairs

from opendpu.frontend import load_onnx
from opendpu.frontend.requantizing import Requantize, left_quantizers
from opendpu.ops.session import Session
from opendpu.requantization import load_for_quantizing

SHAPE = (1, 3, 7, 6)
KINDS = {"e4m3fn": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def model(kind, *, stored: bool) -> onnx.ModelProto:
    net = Pairs(seed=2, opset=19)
    values, _ = net.spread(4, 3, 3, 3)
    scales = (np.abs(values).max(axis=(1, 2, 3)) / 400).astype(np.float32)
    zeros = np.zeros(4, kind)
    x = net.pair("x", 0.01, kind(0))
    if stored:
        eighths = (values / scales.reshape(-1, 1, 1, 1)).astype(kind)
        given = [net.constant(a) for a in (eighths, scales, zeros)]
        weights = net.node("DequantizeLinear", *given, axis=0)
    else:
        weights = net.pair(net.constant(values), scales, zeros, axis=0)
    return net.model(net.pair(net.node("Conv", x, weights), 0.02, kind(0)), SHAPE)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_float_network_has_the_files_weights(kind, stored, rng):
    proto = model(kind, stored=stored)
    x = rng.normal(0, 1, SHAPE).astype(np.float32)
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]
    graph = load_onnx(proto, requantize=Requantize.DATA)
    (found,) = Session(graph).run({"x": np.ascontiguousarray(x.transpose(0, 2, 3, 1))}).values()
    error = found.transpose(0, 3, 1, 2) - wanted
    assert np.square(error).sum() < np.square(wanted).sum() / (
        300 if kind is KINDS["e4m3fn"] else 80
    )


def test_ranges_become_powers_of_two(tmp_path):
    path = tmp_path / "eight.onnx"
    onnx.save(model(KINDS["e4m3fn"], stored=True), path)
    found = load_for_quantizing(path, requantize=True, has_samples=False)
    points = {n.quantization.fix_point for n in found.graph if n.kind == "fix"}
    assert {4, 3} <= points  # 448 * 0.01 is below 8, 448 * 0.02 below 16


def test_what_stays_says_which_format_it_is():
    graph = load_onnx(model(KINDS["e4m3fn"], stored=False), any_scale=True)
    reasons = {node.reason for node in left_quantizers(graph)}
    assert (
        "tensor 'x' is quantized to float8_e4m3fn, but the DPU has integers; --requantize gives it "
        "8 bits" in reasons
    )
