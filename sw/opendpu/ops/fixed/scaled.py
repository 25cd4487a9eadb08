# SPDX-License-Identifier: Apache-2.0
"""Kernels of layers, sums, products and averages with the arithmetic of the extension ``scaled``.

Zero points of inputs are taken off first, and padding is zero then. Attributes of the ops:
``multiplier``, ``shift`` and ``rounding`` (:mod:`opendpu.ops.fixed.requantize`), ``clamp``: the
smallest and largest result.
"""

import numpy as np
from onnx import TensorProto

from opendpu.ir import Node
from opendpu.ops.elementwise import operands
from opendpu.ops.fixed.exact import EXACT
from opendpu.ops.fixed.requantize import bound, centred, multiplied, rounded_away, zero_point
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.window import onnx_window, pair
from opendpu_arch.errors import UnsupportedError


def bias_of(builder: OnnxBuilder, node: Node) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the 32-bit bias of every output channel; zeros if there is none."""
    for name in node.inputs.get("bias", ()):
        values = builder.graph[name].value
        assert values is not None, name
        return values.astype(np.float64).ravel()
    return np.zeros(node.shape[-1])


def add(builder: OnnxBuilder, node: Node) -> None:
    """Emit a sum or difference: every input at its own scale with ``left_shift`` more bits, then the result's.

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
