# SPDX-License-Identifier: Apache-2.0
"""Pairs around integers of four bits, as AIMET and newer quantizers write them."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from quantized_pairs import Pairs, compared

from opendpu.frontend import load_onnx
from opendpu.frontend.narrow_pairs import with_bytes
from opendpu.requantization import load_for_quantizing
from opendpu_arch.errors import DPUError

SHAPE = (1, 3, 7, 6)
SIGNED, UNSIGNED = ml_dtypes.int4, ml_dtypes.uint4


class Network(Pairs):
    """A convolution whose weights and results have few bits, and an activation."""

    def conv(self, x, *shape, scale=0.02, zero=0) -> str:
        values, _ = self.spread(*shape)
        scales = np.abs(values).max(axis=(1, 2, 3)) / np.float32(7)
        zeros = np.full(shape[0], zero, SIGNED)
        sums = self.random.integers(-90, 90, shape[0]).astype(np.int32)
        bias = self.node(
            "DequantizeLinear", self.constant(sums), self.constant(scales * np.float32(scale)),
            self.constant(np.zeros(shape[0], np.int32)), axis=0,
        )  # fmt: skip
        weights = self.pair(self.constant(values), scales, zeros, axis=0)
        return self.node("Conv", x, weights, bias)

    def made(self, kind, zero) -> onnx.ModelProto:
        x = self.pair("x", 0.02, np.uint8(120))
        hidden = self.node("Relu", self.conv(x, 6, 3, 3, 3))
        hidden = self.pair(hidden, 0.11, np.array(zero, kind))
        out = self.pair(self.conv(hidden, 4, 6, 1, 1, scale=0.11), 0.05, np.int8(-3))
        return self.model(out, SHAPE)


@pytest.mark.parametrize(("kind", "zero"), [(UNSIGNED, 0), (SIGNED, -8), (SIGNED, -3)])
def test_layers_of_four_bits_give_onnxruntimes_integers(kind, zero):
    graph, off = compared(Network(seed=4, opset=21).made(kind, zero))
    kinds = {node.kind for node in graph if node.value is None}
    assert "conv2d-fix" in kinds
    assert not kinds & {"onnx", "conv2d", "fix2float"}
    assert off.max() <= 1
    assert (off > 0).mean() < 0.02


def test_the_type_may_be_an_attribute_alone():
    net = Network(seed=5, opset=21)
    x = net.pair("x", 0.02, np.uint8(120))
    scale = net.constant(np.float32(0.3))
    stored = net.node("QuantizeLinear", x, scale, output_dtype=onnx.TensorProto.INT4)
    out = net.node("DequantizeLinear", stored, scale)
    model = net.model(net.pair(net.conv(out, 4, 3, 1, 1, scale=0.3), 0.2, np.int8(5)), SHAPE)
    _, off = compared(model)
    assert off.max() <= 1
    assert (off > 0).mean() < 0.02


def test_narrow_results_of_the_model_and_models_of_bytes_stay():
    net = Network(seed=1, opset=21)
    zero = net.constant(np.array(1, SIGNED))
    model = net.model(net.node("QuantizeLinear", "x", net.constant(np.float32(0.1)), zero), SHAPE)
    assert with_bytes(model) is model
    plain = Pairs(seed=1)
    model = plain.model(plain.pair("x", 0.05, np.int8(3)), SHAPE)
    assert with_bytes(model) is model


def test_ranges_of_four_bits_are_found(tmp_path):
    path = tmp_path / "narrow.onnx"
    onnx.save(Network(seed=4, opset=21).made(UNSIGNED, 0), path)
    found = load_for_quantizing(path, requantize=True, has_samples=False)
    points = {n.quantization.fix_point for n in found.graph if n.kind == "fix"}
    assert 6 in points  # 15 * 0.11 is below 2


def test_stored_integers_of_four_bits_become_weights(tmp_path):
    net = Network(seed=7, opset=21)
    x = net.pair("x", 0.02, np.uint8(120))
    integers = net.random.integers(-8, 8, (4, 3, 1, 1)).astype(SIGNED)
    scales = np.linspace(0.02, 0.04, 4).astype(np.float32)
    given = [net.constant(a) for a in (integers, scales, np.zeros(4, SIGNED))]
    weights = net.node("DequantizeLinear", *given, axis=0)
    out = net.pair(net.node("Conv", x, weights), 0.05, np.int8(-3))
    path = tmp_path / "stored.onnx"
    onnx.save(net.model(out, SHAPE), path)
    found = load_for_quantizing(path, requantize=True, has_samples=True)
    (conv,) = (node for node in found if node.kind == "conv2d")
    values = found[conv.inputs["weights"][0]].value
    wanted = integers.astype(np.float32) * scales.reshape(-1, 1, 1, 1)
    assert np.array_equal(values, wanted.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("what", ["inputs", "outputs", "zero point"])
def test_damaged_pairs_are_refused(what):
    model = Network(seed=4, opset=21).made(UNSIGNED, 0)
    narrow = [node for node in model.graph.node if node.op_type == "QuantizeLinear"][1]
    match what:
        case "inputs":
            del narrow.input[:]
        case "outputs":
            del narrow.output[:]
        case _:
            zero = next(t for t in model.graph.initializer if t.name == narrow.input[2])
            zero.ClearField("raw_data")
            zero.ClearField("int32_data")
    with pytest.raises(DPUError):
        load_onnx(model, any_scale=True)
