# SPDX-License-Identifier: Apache-2.0
"""Kernels of layers, sums, products and averages with the arithmetic of the extension ``scaled``.

Zero points of inputs are taken off first, and padding is zero then. Attributes of the ops:
``multiplier``, ``shift`` and ``rounding`` (:mod:`opendpu.ops.fixed.requantize`), ``clamp``: the
smallest and largest result.
"""

import numpy as np
from onnx import TensorProto

from opendpu.ir import Node
from opendpu.ops.bilinear import weights_of
from opendpu.ops.elementwise import operands
from opendpu.ops.fixed.exact import EXACT
from opendpu.ops.fixed.requantize import bound, centred, multiplied, rounded_away, zero_point
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.window import onnx_window, pair
from opendpu_arch.errors import UnsupportedError

COORDINATE_BITS = 10
"""Fractional bits of a coordinate in bilinear interpolation."""


def bias_of(builder: OnnxBuilder, node: Node) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the 32-bit bias of every output channel; zeros if there is none."""
    for name in node.inputs.get("bias", ()):
        values = builder.graph[name].value
        assert values is not None, name
        return values.astype(np.float64).ravel()
    return np.zeros(node.shape[-1])


def add(builder: OnnxBuilder, node: Node) -> None:
    """Emit a sum or difference: inputs at their own scales, ``left_shift`` more bits, then all.

    A single input is requantized at once.
    """
    names = node.inputs["input"]
    given, first = operands(builder, node, names)
    values = _centred(builder, names, given)
    if len(names) == 1:
        made = multiplied(builder, node, values[0])
        bound(builder, node, made, channels_first=first)
        return
    lift = builder.initializer(np.array(1 << int(node.attrs["left_shift"]), np.float32))
    total = ""
    for number, value in enumerate(values):
        lifted = builder.op("Mul", [value, lift])
        term = multiplied(builder, node, lifted, slice(number, number + 1))
        kind = "Sub" if node.attrs["type"] == "SUB" else "Add"
        total = builder.op(kind, [total, term]) if total else term
    bound(builder, node, multiplied(builder, node, total, slice(-1, None)), channels_first=first)


def mul(builder: OnnxBuilder, node: Node) -> None:
    """Emit a product of two inputs."""
    names = node.inputs["input"]
    given, first = operands(builder, node, names)
    values = _centred(builder, names, given)
    made = multiplied(builder, node, builder.op("Mul", values))
    bound(builder, node, made, channels_first=first)


def product(builder: OnnxBuilder, node: Node) -> None:
    """Emit matrix products of two inputs, of which the attributes say which are transposed."""
    names = node.inputs["input"]
    values = []
    for name, key in zip(names, ("transpose_a", "transpose_b"), strict=True):
        value = centred(builder, builder.plain(name), zero_point(builder, name))
        value = builder.op("Cast", [value], to=TensorProto.DOUBLE)  # sums are then exact
        rank = len(builder.graph[name].shape)
        if node.attrs[key]:
            value = builder.op("Transpose", [value], perm=[*range(rank - 2), rank - 1, rank - 2])
        values.append(value)
    made = multiplied(builder, node, builder.op("MatMul", values))
    bound(builder, node, made, channels_first=False)


def bilinear(builder: OnnxBuilder, node: Node) -> None:
    """Emit bilinear interpolation as LiteRT's kernel of integers has it: ten bits a coordinate.

    Sums have twenty fractional bits and lose them at once, halves away from zero; zero points are
    in them, because the weights of a pixel add up to one. To another scale, sums have the bits that
    layers' weights have, and their multiplier takes these off.
    """
    (source,) = node.inputs["input"]
    size, shape = builder.graph[source].shape, node.shape
    rows, columns = (
        weights_of_axis(
            size[axis], shape[axis], half=bool(node.attrs["half_pixel_centers"]),
            corners=bool(node.attrs["align_corners"]),
        )
        for axis in (1, 2)
    )  # fmt: skip
    value = builder.op("Cast", [builder.channels_first(source)], to=TensorProto.DOUBLE)
    value = builder.op("MatMul", [builder.initializer(rows), value])
    value = builder.op("MatMul", [value, builder.initializer(columns.T.copy())])
    if node.attrs["multiplier"]:
        weights = weights_of(node.attrs)
        assert weights is not None  # legalize.scaled
        bits, _ = weights
        lifted = builder.op("Mul", [value, builder.initializer(np.array(1 << bits, np.float64))])
        taken = builder.initializer(np.array(zero_point(builder, source) << bits, np.float64))
        made = multiplied(builder, node, builder.op("Sub", [lifted, taken]))
        bound(builder, node, made, channels_first=True)
        return
    value = rounded_away(builder, value)
    centre = builder.initializer(np.array(node.quantization.zero_point[0], np.float64))
    bound(builder, node, builder.op("Sub", [value, centre]), channels_first=True)


def weights_of_axis(
    given: int, made: int, *, half: bool, corners: bool
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the share that every input has in every output along an axis, [outputs, inputs].

    The method is that of ``ResizeBilinearInteger`` in LiteRT's ``resize_bilinear.h``.
    """
    one, last = 1 << COORDINATE_BITS, given - 1
    step = (one * given + made // 2) // made
    if corners and made > 1:
        step = (one * last + (made - 1) // 2) // (made - 1)
    at = np.arange(made) * step + (step // 2 - one // 2 if half else 0)
    lower = np.clip(np.trunc(at / one).astype(np.int64), 0, None)
    upper = np.minimum(np.trunc((at + one - 1) / one).astype(np.int64), last)
    shares = np.zeros((made, given))
    places = np.arange(made)
    np.add.at(shares, (places, lower), (one - (at - one * lower)) / one)
    np.add.at(shares, (places, upper), (at - one * lower) / one)
    return shares


def _centred(builder: OnnxBuilder, names: list[str], given: list[str]) -> list[str]:
    """Return inputs with their zero points taken off."""
    return [
        centred(builder, value, zero_point(builder, name))
        for name, value in zip(names, given, strict=True)
    ]


def average(builder: OnnxBuilder, node: Node) -> None:
    """Emit the mean of each window, which has no padding.

    Without a multiplier it is the quotient of the sum, zero points included, halves away from zero.
    With one, which the number of elements is part of already, the sum is multiplied.
    """
    (source,) = node.inputs["input"]
    zero = zero_point(builder, source)
    kernel, stride = pair(node, "kernel"), pair(node, "stride")
    count = kernel[0] * kernel[1]
    reach = max(abs(limit - zero) for limit in builder.limits(source))
    if reach * count > EXACT:
        raise UnsupportedError(
            f"the average of {source!r} is over {count} elements, whose sum is too large for "
            "float32"
        )
    multiplier = node.attrs["multiplier"]
    value = centred(builder, builder.channels_first(source), zero if multiplier else 0)
    channels = builder.graph[source].shape[3]
    ones = builder.initializer(np.ones((channels, 1, kernel[1], kernel[0]), np.float32))
    window = onnx_window(kernel, stride, [0, 0, 0, 0], (1, 1))
    sums = builder.op("Conv", [value, ones], group=channels, **window)
    if multiplier:
        made = multiplied(builder, node, sums)
        bound(builder, node, made, channels_first=True)
        return
    wide = builder.op("Cast", [sums], to=TensorProto.DOUBLE)
    mean = builder.op("Div", [wide, builder.initializer(np.array(count, np.float64))])
    centre = builder.initializer(np.array(node.quantization.zero_point[0], np.float64))
    made = builder.op("Sub", [rounded_away(builder, mean), centre])
    bound(builder, node, made, channels_first=True)


def extreme(builder: OnnxBuilder, node: Node, name: str) -> None:
    """Make the maxima of windows the result of a node, at the input's scale, clamped."""
    low, high = (builder.initializer(np.array(n, np.float32)) for n in node.attrs["clamp"])
    builder.bind(node, builder.op("Clip", [name, low, high]), channels_first=True)
    builder.narrow(node.name, *(int(limit) for limit in node.attrs["clamp"]))
