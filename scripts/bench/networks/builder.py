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
GAINS = dict.fromkeys(("Silu", "HardSwish", "HardSwishClip", "HardSwishTf"), 1.13) | {"Gelu": 1.08}
"""What weights need beyond those in front of a ReLU, so that the next layer gets the same range."""

Shape = tuple[int, ...]
Extent = int | tuple[int, ...]
Array = npt.NDArray[Any]


class Builder:
    """A model in the making. Tensors are named; ``shapes`` has the shape of each, without batch.

    Parameters
    ----------
    name
        Name of the graph, and with ``seed`` what the weights are drawn from.
    size
        Rows and columns of the input, an image of three channels; or its shape without batch.
    source
        Name of the input.
    """

    def __init__(
        self,
        name: str,
        size: int | Shape,
        seed: int = 1,
        *,
        source: str = "image",
        opset: int = OPSET,
    ) -> None:
        self.name = name
        self.source = source
        self.opset = opset
        self.random = np.random.default_rng([seed, *name.encode()])
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        shape = (3, size, size) if isinstance(size, int) else size
        self.shapes: dict[str, Shape] = {source: shape}

    def conv(
        self,
        x: str,
        channels: int,
        kernel: Extent,
        *,
        stride: int = 1,
        pad: Extent | None = None,
        group: int = 1,
        dilation: int = 1,
        act: str = "Relu",
        gain: float = 1.0,
    ) -> str:
        """Add a convolution and its activation; without ``pad`` the size stays but for the stride.

        Weights have variance ``gain**2 * 2 / fan_in``: a ReLU halves what they double. Tensors of
        two dimensions get convolutions of one.
        """
        inputs, *extent = self.shapes[x]
        taps = _extent(kernel, len(extent))
        whole = [dilation * (k - 1) + 1 for k in taps]
        pads = [(k - 1) // 2 for k in whole] if pad is None else _extent(pad, len(extent))
        shape = (channels, inputs // group, *taps)
        gain *= GAINS.get(act, 1.0)
        weights = self.draw(shape, gain * math.sqrt(2 / math.prod(shape[1:])))
        size = [(n + 2 * p - k) // stride + 1 for n, p, k in zip(extent, pads, whole, strict=True)]
        more = {} if dilation == 1 else {"dilations": [dilation] * len(extent)}
        made = self.node(
            "Conv", [x, weights, self.draw((channels,), BIAS)], (channels, *size),
            kernel_shape=list(taps), strides=[stride] * len(extent), pads=[*pads, *pads],
            group=group, **more,
        )  # fmt: skip
        return self.activation(made, act)

    def upconv(self, x: str, channels: int, kernel: int, stride: int, act: str = "Relu") -> str:
        """Add a transposed convolution that makes the size ``stride`` times as large."""
        inputs, height, width = self.shapes[x]
        margin = kernel - stride
        weights = self.draw((inputs, channels, kernel, kernel), stride / kernel / math.sqrt(inputs))
        made = self.node(
            "ConvTranspose", [x, weights, self.draw((channels,), BIAS)],
            (channels, stride * height, stride * width), kernel_shape=[kernel] * 2,
            strides=[stride] * 2, pads=[(margin + 1) // 2] * 4, output_padding=[margin % 2] * 2,
        )  # fmt: skip
        return self.activation(made, act)

    def activation(self, x: str, act: str) -> str:
        """Add an activation, in the form in which exporters write it, or nothing for ``""``.

        ``Relu6`` is a Clip, ``LeakyRelu`` has slope 0.1; ``Silu`` is Sigmoid and Mul, ``Gelu`` goes
        by Erf; ``HardSwish`` is torch's since operator set 14, ``HardSwishClip`` the one before it,
        ``HardSwishTf`` TensorFlow's. All others are ONNX's own.
        """
        shape = self.shapes[x]
        match act:
            case "":
                return x
            case "Relu6":
                bounds = [self.constant(np.float32(0)), self.constant(np.float32(6))]
                return self.node("Clip", [x, *bounds], shape)
            case "LeakyRelu":
                return self.node(act, [x], shape, alpha=0.1)
            case "HardSigmoid":
                return self.node(act, [x], shape, alpha=1 / 6)
            case "PRelu":
                slopes = (shape[0], *[1] * (len(shape) - 1))
                return self.node(act, [x, self.constant(np.full(slopes, 0.25))], shape)
            case "Silu":
                return self.node("Mul", [x, self.node("Sigmoid", [x], shape)], shape)
            case "HardSwishClip":
                gate = self.activation(self.with_scalar("Add", x, 3.0), "Relu6")
                return self.with_scalar("Div", self.node("Mul", [x, gate], shape), 6.0)
            case "HardSwishTf":
                gate = self.activation(self.with_scalar("Add", x, 3.0), "Relu6")
                return self.node("Mul", [x, self.with_scalar("Mul", gate, 1 / 6)], shape)
            case "Gelu":
                half = self.node("Erf", [self.with_scalar("Div", x, math.sqrt(2))], shape)
                both = self.node("Mul", [x, self.with_scalar("Add", half, 1.0)], shape)
                return self.with_scalar("Mul", both, 0.5)
        return self.node(act, [x], shape)

    def with_scalar(self, kind: str, x: str, value: float) -> str:
        """Add an operator of a tensor and one number."""
        return self.node(kind, [x, self.constant(np.float32(value))], self.shapes[x])

    def add(self, one: str, other: str, act: str = "") -> str:
        """Add two tensors."""
        return self.activation(self.node("Add", [one, other], self.shapes[one]), act)

    def concat(self, *parts: str, axis: int = 1) -> str:
        """Join tensors, along the channels if not told otherwise; axis 0 is the batch."""
        shapes = [self.shapes[part] for part in parts]
        joined = list(shapes[0])
        joined[axis - 1] = sum(shape[axis - 1] for shape in shapes)
        return self.node("Concat", list(parts), tuple(joined), axis=axis)

    def split(self, x: str, count: int) -> list[str]:
        """Split the channels into equal parts."""
        channels, *extent = self.shapes[x]
        names = [f"split_{len(self.nodes)}_{part}" for part in range(count)]
        sizes = self.constant(np.full(count, channels // count, np.int64))
        self.nodes.append(helper.make_node("Split", [x, sizes], names, names[0], axis=1))
        self.shapes |= dict.fromkeys(names, (channels // count, *extent))
        return names

    def slice(
        self, x: str, starts: list[int], ends: list[int], axes: list[int], steps: list[int]
    ) -> str:
        """Take slices with positive bounds; axis 0 is the batch."""
        shape = list(self.shapes[x])
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            shape[axis - 1] = -((start - min(end, shape[axis - 1])) // step)
        bounds = [self.constant(np.array(v, np.int64)) for v in (starts, ends, axes, steps)]
        return self.node("Slice", [x, *bounds], tuple(shape))

    def reshape(self, x: str, shape: Shape) -> str:
        """Reshape, all but the batch."""
        return self.node("Reshape", [x, self.constant(np.array([1, *shape], np.int64))], shape)

    def transpose(self, x: str, *order: int) -> str:
        """Bring the axes behind the batch into an order; they count from 1."""
        shape = self.shapes[x]
        return self.node(
            "Transpose", [x], tuple(shape[axis - 1] for axis in order), perm=[0, *order]
        )

    def pool(
        self, x: str, kind: str, kernel: Extent, stride: Extent, pad: int = 0, *, ceil: bool = False
    ) -> str:
        """Add ``MaxPool`` or ``AveragePool``; averages count the padding."""
        channels, *size = self.shapes[x]
        kernels, strides = _extent(kernel, len(size)), _extent(stride, len(size))
        made = tuple(
            (n + 2 * pad - k + (s - 1 if ceil else 0)) // s + 1
            for n, k, s in zip(size, kernels, strides, strict=True)
        )
        more = {"count_include_pad": 1} if kind == "AveragePool" else {}
        return self.node(
            kind, [x], (channels, *made), kernel_shape=list(kernels), strides=list(strides),
            pads=[pad] * (2 * len(size)), ceil_mode=int(ceil), **more,
        )  # fmt: skip

    def global_average(self, x: str) -> str:
        """Average each channel."""
        channels, *extent = self.shapes[x]
        return self.node("GlobalAveragePool", [x], (channels, *[1] * len(extent)))

    def upsample(self, x: str) -> str:
        """Double rows and columns by repeating them."""
        channels, height, width = self.shapes[x]
        scales = self.constant(np.array([1, 1, 2, 2], np.float32))
        return self.node(
            "Resize", [x, "", scales], (channels, 2 * height, 2 * width), mode="nearest",
            coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        )  # fmt: skip

    def interpolate(self, x: str, size: tuple[int, int]) -> str:
        """Resize bilinearly to a size, as torch's ``interpolate`` without aligned corners."""
        channels = self.shapes[x][0]
        sizes = self.constant(np.array([1, channels, *size], np.int64))
        return self.node(
            "Resize", [x, "", "", sizes], (channels, *size), mode="linear",
            coordinate_transformation_mode="pytorch_half_pixel",
        )  # fmt: skip

    def dense(self, x: str, outputs: int, act: str = "") -> str:
        """Flatten and add a fully connected layer."""
        size = math.prod(self.shapes[x])
        flat = self.node("Flatten", [x], (size,), axis=1)
        weights = self.draw((outputs, size), GAINS.get(act, 1.0) * math.sqrt(2 / size))
        made = self.node("Gemm", [flat, weights, self.draw((outputs,), BIAS)], (outputs,), transB=1)
        return self.activation(made, act)

    def model(self, *outputs: str) -> onnx.ModelProto:
        """Return the finished model."""
        graph = helper.make_graph(
            self.nodes, self.name, [self._value(self.source)], [self._value(n) for n in outputs],
            self.weights,
        )  # fmt: skip
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=IR_VERSION
        )

    def node(self, kind: str, inputs: list[str], shape: Shape, **attrs: Any) -> str:
        """Add an operator with one result of a shape; return its name."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attrs))
        self.shapes[name] = shape
        return name

    def draw(self, shape: Shape, deviation: float) -> str:
        """Add a constant of random numbers around 0."""
        values = self.random.standard_normal(shape, np.float32) * np.float32(deviation)
        return self.constant(values)

    def constant(self, array: Array | np.float32) -> str:
        """Add a constant: integers as they are, all else in float32."""
        array = np.asarray(array)
        name = f"constant_{len(self.weights)}"
        kept = array if array.dtype == np.int64 else array.astype(np.float32)
        self.weights.append(numpy_helper.from_array(kept, name))
        return name

    def _value(self, name: str) -> onnx.ValueInfoProto:
        shape = [1, *self.shapes[name]]
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)


def _extent(value: Extent, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else value
