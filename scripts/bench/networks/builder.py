# SPDX-License-Identifier: Apache-2.0
"""Writes ONNX models layer by layer, with seeded weights whose scale keeps activations alive."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

OPSET = 13
IR_VERSION = 8
BIAS = 0.05
"""Standard deviation of biases."""

Pair = int | tuple[int, int]


class Builder:
    """A model in the making. Tensors are named; ``shapes`` has (channels, height, width) of each.

    Parameters
    ----------
    name
        Name of the graph, and with ``seed`` what the weights are drawn from.
    size
        Rows and columns of the input ``image``, which has three channels.
    """

    def __init__(self, name: str, size: int, seed: int = 1) -> None:
        self.name = name
        self.random = np.random.default_rng([seed, *name.encode()])
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.shapes: dict[str, tuple[int, int, int]] = {"image": (3, size, size)}
        self.size = size

    def conv(
        self,
        x: str,
        channels: int,
        kernel: Pair,
        *,
        stride: int = 1,
        pad: Pair | None = None,
        group: int = 1,
        act: str = "Relu",
        gain: float = 1.0,
    ) -> str:
        """Add a convolution and its activation; without ``pad`` the size stays but for the stride.

        Weights have variance ``gain**2 * 2 / fan_in``: a ReLU halves what they double.
        """
        inputs, height, width = self.shapes[x]
        rows, columns = _pair(kernel)
        above, left = _pair(pad) if pad is not None else ((rows - 1) // 2, (columns - 1) // 2)
        shape = (channels, inputs // group, rows, columns)
        weights = self._draw(shape, gain * math.sqrt(2 / math.prod(shape[1:])))
        size = tuple(
            (n + 2 * p - k) // stride + 1
            for n, p, k in ((height, above, rows), (width, left, columns))
        )
        made = self._node(
            "Conv", [x, weights, self._draw((channels,), BIAS)], (channels, size[0], size[1]),
            kernel_shape=[rows, columns], strides=[stride] * 2, pads=[above, left] * 2, group=group,
        )  # fmt: skip
        return self.activation(made, act)

    def activation(self, x: str, act: str) -> str:
        """Add ``Relu``, ``Relu6``, ``LeakyRelu`` with slope 0.1, or nothing for ``""``."""
        shape = self.shapes[x]
        match act:
            case "":
                return x
            case "Relu6":
                bounds = [self._constant(np.float32(0)), self._constant(np.float32(6))]
                return self._node("Clip", [x, *bounds], shape)
            case "LeakyRelu":
                return self._node(act, [x], shape, alpha=0.1)
        return self._node(act, [x], shape)

    def add(self, one: str, other: str, act: str = "") -> str:
        """Add two tensors."""
        return self.activation(self._node("Add", [one, other], self.shapes[one]), act)

    def concat(self, *parts: str) -> str:
        """Join tensors along the channels."""
        shapes = [self.shapes[part] for part in parts]
        shape = (sum(s[0] for s in shapes), *shapes[0][1:])
        return self._node("Concat", list(parts), shape, axis=1)

    def pool(
        self, x: str, kind: str, kernel: int, stride: int, pad: int = 0, *, ceil: bool = False
    ) -> str:
        """Add ``MaxPool`` or ``AveragePool``; averages count the padding."""
        channels, *size = self.shapes[x]
        height, width = (
            (n + 2 * pad - kernel + (stride - 1 if ceil else 0)) // stride + 1 for n in size
        )
        more = {"count_include_pad": 1} if kind == "AveragePool" else {}
        return self._node(
            kind, [x], (channels, height, width), kernel_shape=[kernel] * 2, strides=[stride] * 2,
            pads=[pad] * 4, ceil_mode=int(ceil), **more,
        )  # fmt: skip

    def global_average(self, x: str) -> str:
        """Average each channel."""
        return self._node("GlobalAveragePool", [x], (self.shapes[x][0], 1, 1))

    def upsample(self, x: str) -> str:
        """Double rows and columns by repeating them."""
        channels, height, width = self.shapes[x]
        scales = self._constant(np.array([1, 1, 2, 2], np.float32))
        return self._node(
            "Resize", [x, "", scales], (channels, 2 * height, 2 * width), mode="nearest",
            coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        )  # fmt: skip

    def dense(self, x: str, outputs: int, act: str = "") -> str:
        """Flatten and add a fully connected layer; the result has one row and column."""
        size = math.prod(self.shapes[x])
        flat = self._node("Flatten", [x], (size, 1, 1), axis=1)
        weights = self._draw((outputs, size), math.sqrt(2 / size))
        made = self._node(
            "Gemm", [flat, weights, self._draw((outputs,), BIAS)], (outputs, 1, 1), transB=1
        )
        return self.activation(made, act)

    def model(self, *outputs: str) -> onnx.ModelProto:
        """Return the finished model."""
        flat = {node.output[0] for node in self.nodes if node.op_type in ("Gemm", "Flatten")}
        values = []
        for name in outputs:
            channels, *size = self.shapes[name]
            shape = [1, channels] if name in flat else [1, channels, *size]
            values.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
        head = helper.make_tensor_value_info(
            "image", onnx.TensorProto.FLOAT, [1, 3, self.size, self.size]
        )
        graph = helper.make_graph(self.nodes, self.name, [head], values, self.weights)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
        )

    def _node(self, kind: str, inputs: list[str], shape: tuple[int, int, int], **attrs: Any) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attrs))
        self.shapes[name] = shape
        return name

    def _draw(self, shape: tuple[int, ...], deviation: float) -> str:
        values = self.random.standard_normal(shape, np.float32) * np.float32(deviation)
        return self._constant(values)

    def _constant(self, array: npt.NDArray[np.float32] | np.float32) -> str:
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name


def _pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value
