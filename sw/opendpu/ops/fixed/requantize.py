# SPDX-License-Identifier: Apache-2.0
"""Requantization of the extension ``scaled`` as ONNX nodes, to the bit.

Integers are multiplied by the real number ``multiplier * 2**(shift - 31)``, get the zero point and
are clamped. How products are rounded is an attribute:

* ``TWICE``: halves up at bit 31, then halves away from zero at what is left of the shift. So do
  LiteRT's reference kernels, but for fully connected layers.
* ``ONCE``: the exact product, halves away from zero.

Products have up to 62 bits, so they are int64; what is behind a shift, float64 has exactly.
"""

import enum
import math
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from opendpu.ir import Array, Node
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu_arch.scaled import MULTIPLIER_BITS, Rounding

FRACTION = MULTIPLIER_BITS
"""Fractional bits of a multiplier."""
LIFT = 1 << 62
"""Makes a product positive, so that a logical shift rounds it down."""


class Halves(enum.StrEnum):
    """How products with multipliers are rounded, by the names of the contract's."""

    TWICE = Rounding.TWICE.name
    ONCE = Rounding.ONCE.name


def is_scaled(node: Node) -> bool:
    """Tell whether an op computes with multipliers, as the extension ``scaled`` does."""
    return "multiplier" in node.attrs


def quantized_multiplier(factor: float) -> tuple[int, int]:
    """Return multiplier (31 bits, the highest set) and left shift of a factor above zero."""
    fraction, shift = math.frexp(factor)
    multiplier = math.floor(math.ldexp(fraction, FRACTION) + 0.5)
    return (multiplier >> 1, shift + 1) if multiplier == 1 << FRACTION else (multiplier, shift)


def zero_point(builder: OnnxBuilder, name: str) -> int:
    """Return the zero point of a result."""
    return builder.graph[name].quantization.zero_point[0]


def multiplied(
    builder: OnnxBuilder, node: Node, value: str, which: slice = slice(None),
    along: Sequence[int] = (),
) -> str:  # fmt: skip
    """Add the multiplication of integers by real numbers; return the name of float64 integers.

    Parameters
    ----------
    node
        The op, whose attributes say ``multiplier``, ``shift`` and ``rounding``.
    value
        Integers of up to 32 bits, in any type.
    which
        Of the multipliers and shifts: one, or one for each index of an axis.
    along
        Shape in which several of them broadcast to the value.
    """

    def constant(numbers: Array) -> str:
        return builder.initializer(numbers.reshape(along if numbers.size > 1 else ()))

    shift = np.array(node.attrs["shift"][which], np.int64)
    factor = np.array(node.attrs["multiplier"][which], np.int64)
    wide = builder.op("Cast", [value], to=TensorProto.INT64)
    if node.attrs["rounding"] == Halves.ONCE:
        size = builder.op("Mul", [builder.op("Abs", [wide]), constant(factor)])
        right = FRACTION - shift
        size = builder.op("Add", [size, constant(np.left_shift(1, right - 1))])
        size = _shifted(builder, size, constant(right.astype(np.uint64)))
        sign = builder.op("Cast", [builder.op("Sign", [wide])], to=TensorProto.DOUBLE)
        return builder.op("Mul", [size, sign])
    product = builder.op("Mul", [wide, constant(factor << np.maximum(shift, 0))])
    lift = builder.initializer(np.array(LIFT + (1 << (FRACTION - 1)), np.int64))
    bits = builder.initializer(np.array(FRACTION, np.uint64))
    real = _shifted(builder, builder.op("Add", [product, lift]), bits)
    real = builder.op("Sub", [real, _double(builder, float(LIFT >> FRACTION))])
    if not (shift < 0).any():
        return real
    scale = constant(np.ldexp(1.0, np.minimum(shift, 0)))
    return rounded_away(builder, builder.op("Mul", [real, scale]))


def _shifted(builder: OnnxBuilder, value: str, bits: str) -> str:
    """Add a right shift of int64 that is not negative; return the name of float64."""
    lifted = builder.op("Cast", [value], to=TensorProto.UINT64)
    upper = builder.op("BitShift", [lifted, bits], direction="RIGHT")
    return builder.op("Cast", [upper], to=TensorProto.DOUBLE)


def rounded_away(builder: OnnxBuilder, value: str) -> str:
    """Add the rounding of float64 numbers, halves away from zero; return the name."""
    size = builder.op("Add", [builder.op("Abs", [value]), _double(builder, 0.5)])
    return builder.op("Mul", [builder.op("Floor", [size]), builder.op("Sign", [value])])


def bound(builder: OnnxBuilder, node: Node, value: str, *, channels_first: bool) -> None:
    """Make float64 integers the result of a node: its zero point added, clamped, float32."""
    low, high = (int(limit) for limit in node.attrs["clamp"])
    zero = node.quantization.zero_point[0]
    if zero:
        value = builder.op("Add", [value, _double(builder, zero)])
    value = builder.op("Clip", [value, _double(builder, low), _double(builder, high)])
    name = builder.op("Cast", [value], to=TensorProto.FLOAT)
    builder.bind(node, name, channels_first=channels_first)
    builder.narrow(node.name, low, high)


def centred(builder: OnnxBuilder, value: str, zero: int) -> str:
    """Add the subtraction of a zero point; return the name."""
    if not zero:
        return value
    return builder.op("Sub", [value, builder.initializer(np.array(zero, np.float32))])


def _double(builder: OnnxBuilder, number: float) -> str:
    return builder.initializer(np.array(number, np.float64))
