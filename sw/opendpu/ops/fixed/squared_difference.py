# SPDX-License-Identifier: Apache-2.0
"""Kernel of squares of differences with scales of their own, in LiteRT's integers.

Both inputs get seven bits more and a common scale, which is twice the larger of theirs; the square
of their difference, which has 31 bits, is requantized. Attributes: ``multiplier``, ``shift`` and
``rounding`` of the inputs and of the square (:mod:`opendpu.ops.fixed.requantize`), ``clamp``.
"""

import numpy as np

from opendpu.ir import Node
from opendpu.ops.fixed.requantize import bound, centred, multiplied, zero_point
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Operator, register

KIND = "squared-difference-fix"
LEFT_SHIFT = 7
"""Bits that the inputs get before they are multiplied."""


def squared_difference(builder: OnnxBuilder, node: Node) -> None:
    """Emit the square of the first input less the second."""
    lift = builder.initializer(np.array(1 << LEFT_SHIFT, np.float32))
    terms = []
    for number, name in enumerate(node.inputs["input"]):
        value = centred(builder, builder.plain(name), zero_point(builder, name))
        lifted = builder.op("Mul", [value, lift])
        terms.append(multiplied(builder, node, lifted, slice(number, number + 1)))
    difference = builder.op("Sub", terms)
    square = builder.op("Mul", [difference, difference])
    made = multiplied(builder, node, square, slice(2, 3))
    bound(builder, node, made, channels_first=False)


register(Operator(kind=KIND, emit=squared_difference))
