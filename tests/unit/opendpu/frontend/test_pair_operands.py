# SPDX-License-Identifier: Apache-2.0
"""Pairs as PyTorch's older exporter writes them: Cast between the two, made scales and zeros."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from quantized_pairs import Pairs, compared

from opendpu.frontend import load_onnx
from opendpu.frontend.pair_operands import with_plain_operands
from opendpu.requantization import load_for_quantizing
from opendpu_arch.errors import DPUError

SHAPE = (1, 3, 7, 6)


class Network(Pairs):
    """A convolution with bias between two pairs, its operands written in a roundabout way."""

    def zeros(self, count: int, to: int) -> str:
        shape = self.constant(np.array([count], np.int64))
        filling = helper.make_tensor("value", TensorProto.INT64, [1], [0])
        return self.node("Cast", self.node("ConstantOfShape", shape, value=filling), to=to)

    def pair(self, x, scale, zero, bounds=None, axis=None) -> str:
        to = helper.np_dtype_to_tensor_dtype(zero.dtype)
        given = [self.constant(np.float32(scale)), self.constant(np.asarray(zero))]
        stored = self.node("QuantizeLinear", x, *given)
        again = [self.node("Identity", self.node("Identity", name)) for name in given]
        return self.node("DequantizeLinear", self.node("Cast", stored, to=to), *again)

    def made(self) -> onnx.ModelProto:
        x = self.pair("x", 0.031, np.uint8(120))
        values, scales = self.spread(5, 3, 3, 3)
        integers = np.rint(values / scales.reshape(-1, 1, 1, 1)).astype(np.int8)
        weights = self.node(
            "DequantizeLinear", self.node("Identity", self.constant(integers)),
            self.constant(scales), self.zeros(5, TensorProto.INT8), axis=0,
        )  # fmt: skip
        sums = self.constant(self.random.integers(-900, 900, 5).astype(np.int32))
        bias = self.node(
            "DequantizeLinear", sums, self.constant(scales * np.float32(0.031)),
            self.zeros(5, TensorProto.INT32), axis=0,
        )  # fmt: skip
        out = self.pair(self.node("Conv", x, weights, bias), 0.02, np.uint8(99))
        return self.model(out, SHAPE)


def test_pairs_are_the_dpus_and_give_onnxruntimes_integers():
    graph, off = compared(Network(seed=3).made())
    assert {node.kind for node in graph if node.value is None} == {"data-fix", "conv2d-fix"}
    assert off.max() <= 1
    assert (off > 0).mean() < 0.02


def test_a_model_without_such_operands_is_left_alone():
    plain = Pairs(seed=1)
    model = plain.model(plain.pair("x", 0.05, np.int8(3)), SHAPE)
    assert with_plain_operands(model) is model


def test_ranges_of_such_pairs_are_found(tmp_path):
    path = tmp_path / "torch.onnx"
    onnx.save(Network(seed=3).made(), path)
    found = load_for_quantizing(path, requantize=True, has_samples=False)
    points = {n.quantization.fix_point for n in found.graph if n.kind == "fix"}
    assert {4, 5} <= points  # 135 * 0.031 is below 8, 156 * 0.02 below 4


def test_weights_that_layers_share_by_identity_keep_their_scales():
    net = Pairs(seed=6)
    values, scales = net.spread(3, 3, 1, 1)
    zeros = np.zeros(3, np.int8)
    weights = net.pair(net.constant(values), scales, zeros, axis=0)
    x = net.pair("x", 0.031, np.uint8(120))
    x = net.pair(net.node("Conv", x, weights), 0.04, np.int8(3))
    shared = net.node("Identity", weights)
    graph, off = compared(net.model(net.pair(net.node("Conv", x, shared), 0.05, np.int8(9)), SHAPE))
    assert {node.kind for node in graph if node.value is None} == {"data-fix", "conv2d-fix"}
    assert off.max() <= 1


@pytest.mark.parametrize("what", ["signed", "half", "output"])
def test_what_changes_integers_or_is_read_elsewhere_stays(what):
    net = Network(seed=2)
    scale, zero = net.constant(np.float32(0.5)), net.constant(np.uint8(7))
    stored = net.node("QuantizeLinear", "x", scale, zero)
    match what:
        case "signed":  # integers from 128 on become negative ones
            last = net.constant(np.int8(7))
            out = net.node(
                "DequantizeLinear", net.node("Cast", stored, to=TensorProto.INT8), scale, last
            )
        case "half":
            half = net.node("Cast", scale, to=TensorProto.FLOAT16)
            real = net.node("Cast", half, to=TensorProto.FLOAT)
            out = net.node("DequantizeLinear", stored, real, zero)
        case _:
            out = net.node("Identity", zero)
    model = net.model(out, SHAPE)
    assert with_plain_operands(model) is model


@pytest.mark.parametrize("what", ["circle", "no inputs", "no results"])
def test_damaged_files_are_refused(what):
    model = Network(seed=3).made()
    node = next(node for node in model.graph.node if node.op_type == "Identity")
    match what:
        case "circle":
            node.input[0] = node.output[0]
        case "no inputs":
            del node.input[:]
        case _:
            del node.output[:]
    with pytest.raises(DPUError):
        load_onnx(model, any_scale=True)
