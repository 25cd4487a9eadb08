# SPDX-License-Identifier: Apache-2.0
"""Operators from ONNX through the quantizer to the DPU: nothing is left for the CPU."""

import pathlib

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from oracle import evaluate_quantized

from opendpu import api
from opendpu.frontend import load_onnx
from opendpu.quantize import quantize
from opendpu.runtime import GraphRunner

pytestmark = pytest.mark.system


class Model:
    """An ONNX model in the making, NCHW, 8 channels of 12x10 pixels unless said otherwise."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(5)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, *shape: int) -> str:
        values = self.random.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))
        name = f"k{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def op(self, kind: str, *inputs: str, **attrs) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attrs))
        return name

    def save(self, output: str, path: pathlib.Path) -> pathlib.Path:
        self.op("Identity", output)
        self.nodes[-1].output[0] = "y"
        values = [
            helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 8, 12, 10]),
            helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None),
        ]
        graph = helper.make_graph(self.nodes, "test", values[:1], values[1:], self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)]), path)
        return path


def hard_swish(m: Model) -> str:
    return m.op("HardSwish", m.op("Conv", "x", m.constant(16, 8, 3, 3)))


def hard_sigmoid(m: Model) -> str:
    return m.op("HardSigmoid", "x", alpha=1 / 6, beta=0.5)


def prelu(m: Model) -> str:
    return m.op("PRelu", m.op("Conv", "x", m.constant(16, 8, 1, 1)), m.constant(16, 1, 1))


def leaky(m: Model) -> str:
    return m.op("LeakyRelu", m.op("Conv", "x", m.constant(16, 8, 1, 1)), alpha=0.3)


def squeeze_and_excite_without_a_broadcast(m: Model) -> str:
    gate = m.op("Conv", "x", m.constant(8, 8, 1, 1))
    return m.op("Mul", "x", m.op("HardSigmoid", gate, alpha=1 / 6, beta=0.5))


def squeeze_and_excite(m: Model) -> str:
    x = m.op("HardSwish", m.op("Conv", "x", m.constant(16, 8, 1, 1)))
    gate = m.op("Relu", m.op("Conv", m.op("GlobalAveragePool", x), m.constant(4, 16, 1, 1)))
    gate = m.op("HardSigmoid", m.op("Conv", gate, m.constant(16, 4, 1, 1)), alpha=1 / 6, beta=0.5)
    return m.op("Mul", x, gate)


def sum_of_six(m: Model) -> str:
    return m.op("Sum", *(m.op("Conv", "x", m.constant(9, 8, 1, 1)) for _ in range(6)))


def scale_and_shift(m: Model) -> str:
    pooled = m.op("MaxPool", "x", kernel_shape=[2, 2], strides=[2, 2])
    return m.op("Add", m.op("Mul", pooled, m.constant(8, 1, 1)), m.constant(8, 1, 1))


def groups(m: Model) -> str:
    return m.op("Relu", m.op("Conv", "x", m.constant(12, 2, 3, 3), pads=[1] * 4, group=4))


def transposed(m: Model) -> str:
    up = m.op("ConvTranspose", "x", m.constant(8, 6, 4, 4), strides=[2, 2], pads=[1] * 4)
    return m.op("Relu", up)


def transposed_depthwise(m: Model) -> str:
    return m.op("ConvTranspose", "x", m.constant(8, 1, 3, 3), strides=[2, 2], group=8)


def matrix_product(m: Model) -> str:
    return m.op("MatMul", "x", m.constant(10, 7))


NETWORKS = (
    hard_swish, hard_sigmoid, prelu, leaky, squeeze_and_excite_without_a_broadcast,
    squeeze_and_excite, sum_of_six, scale_and_shift, groups, transposed,
    transposed_depthwise, matrix_product,
)  # fmt: skip


@pytest.mark.parametrize("target", ["B512", "B4096"])
@pytest.mark.parametrize("network", NETWORKS, ids=lambda f: f.__name__)
def test_operator(network, target: str, tmp_path: pathlib.Path) -> None:
    model = Model()
    float_graph = load_onnx(model.save(network(model), tmp_path / "m.onnx"))
    (head,) = (node for node in float_graph if node.kind == "data")
    shape = head.shape[1:]
    samples = np.random.default_rng(2).standard_normal((8, *shape)).astype(np.float32) * 2
    graph = quantize(float_graph, {head.name: samples})
    compiled = api.compile_graph(graph, target=target)
    assert not compiled.report.on_cpu
    with GraphRunner(compiled.graph, device="iss", check=True) as runner:
        (port,) = runner.get_input_tensors()
        given = np.random.default_rng(4).integers(-128, 128, port.dims, np.int8)
        (found,) = runner.run({port.name: given}).values()
    (wanted,) = evaluate_quantized(graph, {head.name: given}).values()
    np.testing.assert_array_equal(found, wanted)
