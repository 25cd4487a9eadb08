# SPDX-License-Identifier: Apache-2.0
"""Kernels of sums, products and activations of integers."""

import math
from collections import Counter

import numpy as np

from opendpu.ir import Array, Node
from opendpu.ops.elementwise import operands
from opendpu.ops.fixed import scaled
from opendpu.ops.fixed.exact import Exact, bind, carried, tabulated
from opendpu.ops.fixed.requantize import is_scaled
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Operator, register
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.isa import Engine
from opendpu_arch.numerics import GUARD_BITS, HARD_SIGMOID_FACTOR, shift_round

SIGMOID_BITS = 14
"""Fractional bits of the factor of hard-sigmoid."""


def eltwise(builder: OnnxBuilder, node: Node) -> None:
    """Emit a sum, with the guard bits that the engine keeps, a difference or a product."""
    if is_scaled(node):
        product = str(node.attrs["type"]).upper() == "MUL"
        (scaled.mul if product else scaled.add)(builder, node)
        return
    names = node.inputs["input"]
    given, first = operands(builder, node, names)
    values = [
        carried(builder, builder.graph[name], value)
        for name, value in zip(names, given, strict=True)
    ]
    points = [builder.graph[name].fix_point for name in names]
    match str(node.attrs.get("type", "ADD")).upper():
        case "ADD":
            made = _sum(values, points, node.fix_point)
        case "SUB":
            negated = [values[0], *(_negated(value) for value in values[1:])]
            made = _sum(negated, points, node.fix_point, guard=math.inf)
        case "MUL":
            made = _product(values).shifted(sum(points) - node.fix_point)
        case kind:
            raise UnsupportedError(
                f"op {node.name!r}: type is {kind!r}, but must be one of ADD, SUB, MUL"
            )
    bind(builder, node, made, "RELU", channels_first=first)


def _sum(values: list[Exact], points: list[int], point: int, *, guard: float = GUARD_BITS) -> Exact:
    """Return the sum in units of the result.

    Inputs that need the same shift are added before it.
    """
    finest = min(points) + guard
    rights = [at - point for at in points]
    for number, (value, at) in enumerate(zip(values, points, strict=True)):
        if at > finest:
            values[number] = _floored(value, at - int(finest))
            rights[number] -= at - int(finest)
    common, _ = Counter(rights).most_common(1)[0]
    if 0 in rights:
        common = 0
    total: Exact | None = None
    for value, right in zip(values, rights, strict=True):
        term = value.shifted(right - common)
        total = term if total is None else total.plus(term)
    assert total is not None
    return total.shifted(common)


def _floored(value: Exact, right: int) -> Exact:
    """Return integers shifted right without rounding."""
    shifted = value.shifted(right)
    name = value.builder.op("Floor", [shifted.name])
    low, high = (math.floor(limit) for limit in shifted.reach)
    return Exact(value.builder, name, (low, high), wide=value.wide)


def _negated(value: Exact) -> Exact:
    name = value.builder.op("Neg", [value.name])
    return Exact(value.builder, name, (-value.reach[1], -value.reach[0]), value.bits)


def _product(values: list[Exact]) -> Exact:
    made = values[0]
    for other in values[1:]:
        corners = [a * b for a in made.reach for b in other.reach]
        reach = (min(corners), max(corners))
        if made.wide or not made.fits(reach, 0):
            made, other = made.widened(), other.widened()
        name = made.builder.op("Mul", [made.name, other.name])
        made = Exact(made.builder, name, reach, wide=made.wide)
    return made


def leaky_relu(builder: OnnxBuilder, node: Node) -> None:
    """Emit a table: negative integers times ``factor / 2**shift``."""
    right = builder.graph[node.inputs["input"][0]].fix_point - node.fix_point
    factor, shift = int(node.attrs["factor"]), int(node.attrs["shift"])

    def function(x: Array) -> Array:
        return np.where(x < 0, shift_round(x * factor, right + shift), shift_round(x, right))

    tabulated(builder, node, function)


def hard_sigmoid(builder: OnnxBuilder, node: Node) -> None:
    """Emit a table of ``relu6(x + 3) * 2731 / 2**14``."""
    point = builder.graph[node.inputs["input"][0]].fix_point

    def function(x: Array) -> Array:
        wide, bits = (x << -point, 0) if point < 0 else (x, point)  # the 3 needs a bit
        line = np.clip(wide + (3 << bits), 0, 6 << bits) * HARD_SIGMOID_FACTOR
        return shift_round(line, SIGMOID_BITS + bits - node.fix_point)

    tabulated(builder, node, function)


def prelu(builder: OnnxBuilder, node: Node) -> None:
    """Emit negative integers times one slope a channel.

    Files, whose op library lacks the op, have its slopes as second input.
    """
    source, weight = [*node.inputs["input"], *node.inputs.get("weight", [])]
    slopes = builder.constant(weight)
    if slopes is None:
        raise UnsupportedError(
            f"op {node.name!r} ({node.kind}) has slopes that are computed, but must have constants"
        )
    (name,), first = operands(builder, node, [source])
    bits = builder.graph[weight].fix_point
    factors = np.ldexp(slopes.astype(np.float32).ravel(), -bits)
    factors = factors.reshape(-1, 1, 1) if first else factors
    value = carried(builder, builder.graph[source], name)
    made = builder.op("PRelu", [name, builder.initializer(factors)])
    low, high = value.reach
    ends = [low * factors.min(), low * factors.max(), low, high, 0.0]
    reach = (float(min(ends)), float(max(ends)))
    right = builder.graph[source].fix_point - node.fix_point
    bind(builder, node, Exact(builder, made, reach, bits).shifted(right), channels_first=first)


def table(builder: OnnxBuilder, node: Node) -> None:
    """Emit the op's own table, whose entries are in order of the input's byte."""
    entries = np.array(node.attrs["table"], np.int64)
    tabulated(builder, node, lambda x: entries[x & 0xFF])


register(
    Operator(kind="table-fix", emit=table, engine=Engine.MISC),
    Operator(kind="eltwise-fix", emit=eltwise, engine=Engine.MISC),
    Operator(kind="leaky-relu-fix", emit=leaky_relu, engine=Engine.MISC),
    Operator(kind="prelu-fix", emit=prelu, engine=Engine.MISC),
    Operator(kind="hard-sigmoid-fix", emit=hard_sigmoid, engine=Engine.MISC),
)
