# SPDX-License-Identifier: Apache-2.0
"""Random networks that onnxruntime's own quantizer has quantized: any scales, any zero points."""

import dataclasses
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)

OPSET = 17
INPUT, OUTPUT = "x", "y"
CALIBRATION = 6


@dataclasses.dataclass
class Drawn:
    """A float network in the making: feature maps are NCHW."""

    random: np.random.Generator
    nodes: list = dataclasses.field(default_factory=list)
    constants: list = dataclasses.field(default_factory=list)
    shapes: dict = dataclasses.field(default_factory=dict)

    def const(self, array) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weights(self, *shape) -> str:
        spread = np.exp(self.random.normal(0, 0.7, (shape[0],) + (1,) * (len(shape) - 1)))
        values = self.random.standard_normal(shape) * spread / np.sqrt(np.prod(shape[1:]))
        return self.const(values.astype(np.float32))

    def op(self, op_type, inputs, shape, **attrs) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attrs))
        self.shapes[name] = tuple(shape)
        return name

    def conv(self, x) -> str:
        _, channels, height, width = self.shapes[x]
        kernel = int(self.random.choice([1, 3, 5]))
        stride = int(self.random.choice([1, 1, 2]))
        depthwise = channels > 1 and self.random.random() < 0.3
        outputs = channels if depthwise else int(self.random.integers(2, 20))
        low = (kernel - 1) // 2 if self.random.random() < 0.7 else 0
        if min(height, width) + 2 * low < kernel:
            low = kernel // 2
        size = [(n + 2 * low - kernel) // stride + 1 for n in (height, width)]
        group = channels if depthwise else 1
        w = self.weights(outputs, 1 if depthwise else channels, kernel, kernel)
        inputs = [x, w]
        if self.random.random() < 0.8:
            inputs.append(self.const(self.random.normal(0, 0.3, outputs).astype(np.float32)))
        made = self.op(
            "Conv", inputs, (1, outputs, *size), kernel_shape=[kernel] * 2, group=group,
            strides=[stride] * 2, pads=[low] * 4,
        )  # fmt: skip
        return self.op("Relu", [made], self.shapes[made]) if self.random.random() < 0.6 else made

    def pool(self, x) -> str:
        shape = self.shapes[x]
        if min(shape[2:]) < 3:
            return x
        kind = str(self.random.choice(["MaxPool", "AveragePool"]))
        size = [(n - 2) // 2 + 1 for n in shape[2:]]
        return self.op(kind, [x], (*shape[:2], *size), kernel_shape=[2, 2], strides=[2, 2])

    def join(self, x) -> str:
        """Return a sum, a product or a concatenation of two ways from one feature map."""
        kind = str(self.random.choice(["Add", "Mul", "Concat"]))
        channels = self.shapes[x][1]
        outputs = channels if kind != "Concat" else int(self.random.integers(2, 9))
        other = self.op(
            "Conv", [x, self.weights(outputs, channels, 1, 1)], (1, outputs, *self.shapes[x][2:]),
            kernel_shape=[1, 1],
        )  # fmt: skip
        if kind == "Concat":
            shape = (1, channels + outputs, *self.shapes[x][2:])
            return self.op("Concat", [x, other], shape, axis=1)
        return self.op(kind, [x, other], self.shapes[x])

    def head(self, x) -> str:
        channels = self.shapes[x][1]
        x = self.op("GlobalAveragePool", [x], (1, channels, 1, 1))
        x = self.op("Flatten", [x], (1, channels))
        outputs = int(self.random.integers(3, 12))
        bias = self.const(self.random.normal(0, 0.2, outputs).astype(np.float32))
        x = self.op("Gemm", [x, self.weights(outputs, channels), bias], (1, outputs), transB=1)
        return self.op("Softmax", [x], (1, outputs)) if self.random.random() < 0.3 else x


class _Samples(CalibrationDataReader):
    def __init__(self, samples):
        self._left = iter([{INPUT: sample} for sample in samples])

    def get_next(self):
        return next(self._left, None)


def inputs_of(random, shape, count):
    """Return samples with some structure, so that ranges are not those of noise."""
    return (random.standard_normal((count, *shape)) * random.uniform(0.3, 2.0)).astype(np.float32)


def draw(seed: int, folder: Path, **settings) -> tuple[Path, tuple[int, ...]]:
    """Write a quantized network; return its file and the input's shape.

    ``settings`` of the quantizer go before those that are drawn.
    """
    random = np.random.default_rng(seed)
    net = Drawn(random)
    shape = (1, int(random.integers(1, 7)), *(int(n) for n in random.integers(5, 13, 2)))
    net.shapes[INPUT] = shape
    x = net.conv(INPUT)
    for _ in range(int(random.integers(1, 5))):
        x = getattr(net, str(random.choice(["conv", "pool", "join"])))(x)
    if random.random() < 0.6:
        x = net.head(x)
    net.nodes[-1].output[0] = OUTPUT
    graph = helper.make_graph(
        net.nodes, f"drawn{seed}",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, net.shapes[x])],
        net.constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    onnx.checker.check_model(model)
    plain, made = folder / f"float{seed}.onnx", folder / f"drawn{seed}.onnx"
    onnx.save(model, plain)
    samples = _Samples(inputs_of(random, shape, CALIBRATION))
    drawn = {
        "quant_format": QuantFormat.QDQ if random.random() < 0.7 else QuantFormat.QOperator,
        "activation_type": QuantType.QUInt8 if random.random() < 0.5 else QuantType.QInt8,
        "weight_type": QuantType.QInt8, "per_channel": bool(random.random() < 0.6),
        "extra_options": {"AddQDQPairToWeight": seed % 3 == 0},
    }  # fmt: skip
    quantize_static(plain, made, samples, **(drawn | settings))
    return made, shape
