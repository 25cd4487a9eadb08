# SPDX-License-Identifier: Apache-2.0
"""Kernel of products of two feature maps: matrices of integers, of which the second is transposed.

``y = floor(sum(a * b) / 2**cut + 1/2)``, where ``cut`` is the fractional bits that a product has
more than the result. With scales of their own, sums of what is left of the factors without their
zero points are multiplied (:mod:`opendpu.ops.fixed.scaled`); such products are the CPU's.
"""

import itertools

from onnx import TensorProto

from opendpu.ir import Node
from opendpu.ops.fixed import scaled
from opendpu.ops.fixed.exact import EXACT, Exact, bind
from opendpu.ops.fixed.requantize import is_scaled
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Operator, register
from opendpu_arch.isa import Engine

KIND = "matmul-fix"


def product(builder: OnnxBuilder, node: Node) -> None:
    """Emit ``a @ b.T``: every row of the first input times every row of the second."""
    names = node.inputs["input"]
    if is_scaled(node):
        scaled.product(builder, node)
        return
    one, other = (builder.plain(name) for name in names)
    ends = [builder.limits(name) for name in names]
    terms = [a * b for a, b in itertools.product(*ends)]
    count = builder.graph[names[0]].shape[-1]
    low, high = count * min(0, *terms), count * max(0, *terms)
    wide = max(high, -low) > EXACT
    if wide:
        one, other = (builder.op("Cast", [name], to=TensorProto.DOUBLE) for name in (one, other))
    other = builder.op("Transpose", [other], perm=[0, 1, 3, 2])
    made = Exact(builder, builder.op("MatMul", [one, other]), (low, high), wide=wide)
    cut = sum(builder.graph[name].fix_point for name in names) - node.fix_point
    bind(builder, node, made.shifted(cut), "RELU", "RELU6", channels_first=False)


register(Operator(kind=KIND, emit=product, engine=Engine.CONV, multiplies=True))
