# SPDX-License-Identifier: Apache-2.0
"""Small quantized ONNX models in the forms that quantizers write."""

import dataclasses
import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FORMS = ("int8", "uint8", "vitis", "quark", "contrib", "nndct", "fix_neuron")


@dataclasses.dataclass
class QdqModel:
    """A quantized model in the making; ``points`` are fractional bits."""

    form: str = "int8"
    seed: int = 0
    opset: int = 17

    def __post_init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.random = np.random.default_rng(self.seed)

    def constant(self, array: np.ndarray, name: str = "c") -> str:
        name = f"{name}{len(self.weights)}"
        self.weights[name] = array
        return name

    def node(self, kind: str, *inputs: str, domain: str = "", **attrs: object) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], domain=domain, **attrs))
        return name

    def fix(self, name: str, point: int, scale: float | np.ndarray | None = None) -> str:
        """Quantize and dequantize a tensor."""
        real = np.float32(2.0**-point) if scale is None else np.asarray(scale, np.float32)
        zero = np.uint8(128) if self.form == "uint8" else np.int8(0)
        if np.ndim(real):
            zero = np.full(np.shape(real), zero)
        pair = (self.constant(real), self.constant(np.asarray(zero)))
        match self.form:
            case "contrib":
                return self.node("FixNeuron", name, *pair, domain="ai.onnx.contrib", bit_width="8")
            case "fix_neuron":
                inputs = [np.int32(127), np.float32(2.0**point), np.int8(2), np.int8(1), np.int8(0)]
                given = [self.constant(np.asarray(value)) for value in inputs]
                return self.node("fix_neuron", name, *given, domain="vai")
            case "nndct":
                low, high = (self.constant(np.int32(v)) for v in (-128, 127))
                last = [self.constant(np.int8(v)) for v in (2, 1)]
                stored = self.node("QuantizeLinear", name, low, high, *pair, *last, domain="vai")
                return self.node("DequantizeLinear", stored, *pair, last[1], domain="vai")
        prefix, domain = {
            "vitis": ("Vitis", "com.vai.quantize"), "quark": ("Extended", "com.amd.quark")
        }.get(self.form, ("", ""))  # fmt: skip
        stored = self.node(f"{prefix}QuantizeLinear", name, *pair, domain=domain)
        return self.node(f"{prefix}DequantizeLinear", stored, *pair, domain=domain)

    def draw(self, shape: tuple[int, ...], point: int) -> np.ndarray:
        """Return random integers at a position, as floats."""
        return (self.random.integers(-128, 128, shape) * 2.0**-point).astype(np.float32)

    def conv(self, x: str, shape: tuple[int, ...], **attrs: object) -> str:
        """Add a convolution with 8-bit weights and bias at position 7."""
        weights = self.fix(self.constant(self.draw(shape, 7)), 7)
        bias = self.fix(self.constant(self.draw(shape[:1], 7)), 7)
        return self.node("Conv", x, weights, bias, **attrs)

    def model(self, output: str, shape: tuple[int, ...] = (1, 4, 6, 5)) -> onnx.ModelProto:
        """Return the model with the input ``x``."""
        float_info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, "quantized", [float_info("x", TensorProto.FLOAT, shape)],
            [float_info(output, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(np.asarray(a), n) for n, a in self.weights.items()],
        )  # fmt: skip
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(d, 1) for d in {n.domain for n in self.nodes} - {""}]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def network(form: str = "int8", **settings: int) -> onnx.ModelProto:
    """Return a model with convolutions, an addition, poolings and a fully connected layer."""
    net = QdqModel(form, **settings)
    x = net.fix("x", 4)
    a = net.fix(net.node("Relu", net.conv(x, (4, 4, 3, 3), pads=[1] * 4)), 3)
    b = net.fix(net.conv(a, (4, 1, 3, 3), pads=[1] * 4, group=4), 2)
    s = net.fix(net.node("Relu", net.node("Add", a, b)), 2)
    m = net.fix(net.node("MaxPool", s, kernel_shape=[2, 2], strides=[2, 2]), 2)
    c = net.fix(net.node("Concat", m, m, axis=1), 2)
    flat = net.node("Flatten", c)
    size = 8 * 3 * 2
    weights = net.fix(net.constant(net.draw((5, size), 9)), 9)
    bias = net.fix(net.constant(net.draw((5,), 6)), 6)
    return net.model(net.fix(net.node("Gemm", flat, weights, bias, transB=1), 1))


def position(scale: float) -> int:
    """Return the fractional bits of a power of two."""
    return round(-math.log2(scale))
