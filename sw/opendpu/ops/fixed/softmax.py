# SPDX-License-Identifier: Apache-2.0
"""LiteRT's softmax of int8 in integers, as its reference kernel computes it, to the bit.

Numbers of the kernel are 32-bit fixed point; :data:`FRACTION` bits are behind the point of those
between -1 and 1, ``FRACTION - n`` of those with ``n`` bits before it. There are only 256
differences to the largest element, so their exponentials are a table; the sum's reciprocal, by
three steps of Newton's, is computed for every row. The method and its constants are gemmlowp's
(``fixedpoint.h``: ``exp_on_negative_values``, ``one_over_one_plus_x_for_x_in_0_1``).
"""

import math

import numpy as np
from onnx import TensorProto

from opendpu.ir import Node
from opendpu.ops.fixed.requantize import FRACTION, LIFT, quantized_multiplier
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Operator, register
from opendpu_arch.errors import UnsupportedError

DIFFERENCE_BITS = 5
"""Bits before the point of a scaled difference."""
SUM_BITS = 12
"""Bits before the point of the sum."""
ROUNDS = 3
MOST_CHANNELS = (1 << SUM_BITS) - 1
_ONE = (1 << FRACTION) - 1
_QUARTERS = (
    (-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535),
    (3, 720401), (4, 242),
)  # fmt: skip
"""``exp(-2**n)`` by n."""
_EIGHTH, _THIRD = 1895147668, 715827883
"""``exp(-1/8)`` and a third."""
_48_17, _32_17 = 1515870810, -1010580540
"""48/17 and -32/17 with two bits before the point: the first guess of a reciprocal."""


def softmax(builder: OnnxBuilder, node: Node) -> None:
    """Emit the softmax over the last axis; the result has scale 1/256 and zero point -128."""
    (source,) = node.inputs["input"]
    if node.shape[-1] > MOST_CHANNELS:
        raise UnsupportedError(
            f"op {node.name!r} ({node.kind}) is over {node.shape[-1]} elements, but softmax in "
            f"integers has at most {MOST_CHANNELS}"
        )
    table = exponentials(float(node.attrs["input_scale"]))
    words = _Words(builder)
    value = builder.op("Cast", [builder.plain(source)], to=TensorProto.INT64)
    largest = builder.reduced("ReduceMax", value, [-1])
    index = builder.op("Sub", [largest, value])
    exps = builder.op("Gather", [words.constant(table), index])
    rescaled = np.array([_divided(int(e), SUM_BITS) for e in table])
    terms = builder.op("Gather", [words.constant(rescaled), index])
    total = builder.op("ReduceSum", [terms, builder.integers([-1])], keepdims=1)
    reciprocal, zeros = _reciprocal(words, total)
    product = words.doubled_high(reciprocal, exps)
    right = words.op("Sub", words.constant(SUM_BITS + FRACTION - 8), zeros)
    half = words.shift(words.constant(1), words.op("Sub", right, words.constant(1)), "LEFT")
    made = words.shift(words.op("Add", product, half), right, "RIGHT")
    made = words.op("Add", made, words.constant(node.quantization.limits[0]))
    made = builder.op("Clip", [made, *(words.constant(n) for n in node.quantization.limits)])
    builder.bind(node, builder.op("Cast", [made], to=TensorProto.FLOAT))


def exponentials(scale: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return ``exp(-n * scale)`` for n in 0..255 with no bits before the point; zero where tiny."""
    real = min(scale * (1 << (FRACTION - DIFFERENCE_BITS)), float(_ONE))
    multiplier, left = quantized_multiplier(real)
    most = ((1 << DIFFERENCE_BITS) - 1) * (1 << (FRACTION - DIFFERENCE_BITS)) / 2.0**left
    table = [
        _exponential(_doubled_high(-n * 2**left, multiplier)) if n <= math.floor(most) else 0
        for n in range(256)
    ]
    return np.array(table, np.int64)


def _exponential(value: int) -> int:
    """Return ``exp`` of a number that is not positive, with 5 bits before the point."""
    if value == 0:
        return _ONE
    quarter = 1 << (FRACTION - DIFFERENCE_BITS - 2)
    inside = (value & (quarter - 1)) - quarter
    made = _of_small(inside << DIFFERENCE_BITS)
    rest = inside - value
    for exponent, factor in _QUARTERS:
        if rest & (1 << (FRACTION - DIFFERENCE_BITS + exponent)):
            made = _doubled_high(made, factor)
    return made


def _of_small(value: int) -> int:
    """Return ``exp`` of a number from -1/4 on, below zero: four terms of a series at -1/8."""
    x = value + (1 << (FRACTION - 3))
    square = _doubled_high(x, x)
    cube, fourth = _doubled_high(square, x), _doubled_high(square, square)
    series = _doubled_high(_divided(fourth, 2) + cube, _THIRD) + square
    return _EIGHTH + _doubled_high(_EIGHTH, x + _divided(series, 1))


def _doubled_high(one: int, other: int) -> int:
    """Return the upper half of the doubled product, halves up."""
    return (one * other + (1 << (FRACTION - 1))) >> FRACTION


def _divided(value: int, bits: int) -> int:
    """Return it shifted right, halves away from zero."""
    size = (abs(value) + (1 << (bits - 1))) >> bits
    return size if value >= 0 else -size


class _Words:
    """Operators on int64 values of an ONNX model that hold 32-bit fixed-point numbers."""

    def __init__(self, builder: OnnxBuilder) -> None:
        self.builder = builder

    def constant(self, value: int | np.ndarray[tuple[int], np.dtype[np.int64]]) -> str:
        """Return a constant."""
        return self.builder.initializer(np.array(value, np.int64))

    def op(self, op_type: str, *inputs: str) -> str:
        """Add an operator of two values."""
        return self.builder.op(op_type, list(inputs))

    def shift(self, value: str, bits: str, direction: str) -> str:
        """Shift what is not negative."""
        given = [self.builder.op("Cast", [v], to=TensorProto.UINT64) for v in (value, bits)]
        made = self.builder.op("BitShift", given, direction=direction)
        return self.builder.op("Cast", [made], to=TensorProto.INT64)

    def doubled_high(self, one: str, other: str) -> str:
        """Return the upper half of the doubled product, halves up."""
        lifted = self.op("Add", self.op("Mul", one, other), self.constant(LIFT + (1 << 30)))
        made = self.shift(lifted, self.constant(FRACTION), "RIGHT")
        return self.op("Sub", made, self.constant(LIFT >> FRACTION))


def _reciprocal(words: _Words, total: str) -> tuple[str, str]:
    """Return the reciprocal of a sum, scaled to 1/2..1, and the sum's leading zeros of 32."""
    builder = words.builder
    powers = words.constant(np.array([1 << n for n in range(1, FRACTION + 1)], np.int64))
    reached = builder.op("Cast", [words.op("GreaterOrEqual", total, powers)], to=TensorProto.INT64)
    digits = builder.op("ReduceSum", [reached, builder.integers([-1])], keepdims=1)
    zeros = words.op("Sub", words.constant(FRACTION), digits)
    shifted = words.shift(total, zeros, "LEFT")  # one to two, with FRACTION bits behind the point
    above = words.op("Sub", shifted, words.constant(1 << FRACTION))
    halved = words.op("Add", words.op("Add", above, words.constant(_ONE)), words.constant(1))
    denominator = words.shift(halved, words.constant(1), "RIGHT")
    x = words.op(
        "Add", words.constant(_48_17), words.doubled_high(denominator, words.constant(_32_17))
    )
    one = words.constant(1 << (FRACTION - 2))
    for _ in range(ROUNDS):
        rest = words.op("Sub", one, words.doubled_high(denominator, x))
        step = words.op("Mul", words.doubled_high(x, rest), words.constant(4))
        x = words.op("Add", x, step)
    scaled = words.op("Mul", x, words.constant(2))
    return builder.op("Min", [scaled, words.constant(_ONE)]), zeros


register(Operator(kind="softmax-fix", emit=softmax))
