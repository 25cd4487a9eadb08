# SPDX-License-Identifier: Apache-2.0
"""Block floating point: neighbours along the last axis share an exponent.

With the exponent ``e`` of the largest magnitude of a block, a number is an integer of ``mantissa``
bits and a sign times ``2**(e - mantissa + 1)``. With microexponents, pairs whose largest magnitude
is below ``2**e`` use half that step. The formats: AMD's BFP16 (8 numbers, 7 bits and a sign), and
MX6 and MX9 of Rouhani et al., "With Shared Microexponents", arXiv 2302.08007, table 1. Integers are
to the nearest, ties to even, and saturate.
"""

import dataclasses

import numpy as np

from opendpu.ir import Array, NumberFormat
from opendpu.ops.formats.node_builder import NodeBuilder

LEAST_EXPONENT = -119
"""Least exponent of a block; smaller magnitudes use it too. All steps are normal numbers then:
TensorFlow lets its threads take others for zero."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """A format: numbers of a block, numbers of a sub-block (0 for none), bits without the sign."""

    block: int
    subblock: int
    mantissa: int


LAYOUTS = {
    NumberFormat.BFP16: Layout(8, 0, 7),
    NumberFormat.MX6: Layout(16, 2, 4),
    NumberFormat.MX9: Layout(16, 2, 7),
}


def fake_quantize(values: Array, layout: Layout) -> Array:
    """Return float32 numbers as blocks along the last axis stand for them."""
    size = values.shape[-1]
    pad = -size % layout.block
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, pad)])
    blocks = padded.reshape(*values.shape[:-1], -1, layout.block)
    step = _power(np.abs(blocks).max(axis=-1, keepdims=True))
    if layout.subblock:
        pairs = blocks.reshape(*blocks.shape[:-1], -1, layout.subblock)
        small = np.abs(pairs).max(axis=-1, keepdims=True) < step[..., None]
        lowered = np.where(small, np.float32(0.5), np.float32(1)) * step[..., None]
        step = np.broadcast_to(lowered, pairs.shape).reshape(blocks.shape)
    step = step * np.float32(2.0 ** (1 - layout.mantissa))
    most = np.float32(2**layout.mantissa - 1)
    made = np.clip(np.rint(blocks / step), -most, most) * step
    return np.asarray(made.reshape(padded.shape)[..., :size])


def _power(largest: Array) -> Array:
    """Return the largest power of two that is not above each number."""
    _, exponent = np.frexp(largest)
    exponent = np.where(largest > 0, exponent - 1, LEAST_EXPONENT)
    return np.ldexp(np.float32(1), np.maximum(exponent, LEAST_EXPONENT)).astype(np.float32)


def emit(builder: NodeBuilder, value: str, layout: Layout, rank: int) -> str:
    """Add the nodes that do the same to a value in the graph's order of axes; return its name."""

    def number(given: float) -> str:
        return builder.initializer(np.array(given, np.float32))

    shape = builder.op("Shape", [value])
    last = builder.op("Slice", [shape, *map(builder.integers, ([rank - 1], [rank]))])
    wanted = builder.integers([layout.block])
    pad = builder.op("Mod", [builder.op("Neg", [last]), wanted])
    pads = builder.op("Concat", [builder.integers([0] * (2 * rank - 1)), pad], axis=0)
    padded = builder.op("Pad", [value, pads])
    whole = builder.op("Shape", [padded])
    keep = [0] * (rank - 1)
    blocks = builder.op("Reshape", [padded, builder.integers([*keep, -1, layout.block])])
    step = _emit_power(builder, _emit_largest(builder, blocks))
    if layout.subblock:
        count = layout.block // layout.subblock
        pairs = builder.op(
            "Reshape", [blocks, builder.integers([*keep, 0, count, layout.subblock])]
        )
        outer = builder.op("Unsqueeze", [step, builder.integers([-1])])
        small = builder.op("Less", [_emit_largest(builder, pairs), outer])
        lowered = builder.op("Mul", [
            builder.op("Where", [small, number(0.5), number(1)]), outer
        ])  # fmt: skip
        spread = builder.op("Expand", [lowered, builder.op("Shape", [pairs])])
        step = builder.op("Reshape", [spread, builder.op("Shape", [blocks])])
    step = builder.op("Mul", [step, number(2.0 ** (1 - layout.mantissa))])
    made = builder.op("Round", [builder.op("Div", [blocks, step])])
    most = 2**layout.mantissa - 1
    made = builder.op("Mul", [builder.op("Clip", [made, number(-most), number(most)]), step])
    made = builder.op("Reshape", [made, whole])
    return builder.op("Slice", [made, builder.integers([0]), last, builder.integers([rank - 1])])


def _emit_largest(builder: NodeBuilder, value: str) -> str:
    return builder.reduced("ReduceMax", builder.op("Abs", [value]), [-1])


def _emit_power(builder: NodeBuilder, largest: str) -> str:
    """Add nodes that find the power of two below: the logarithm's, put right by comparing."""

    def number(given: float) -> str:
        return builder.initializer(np.array(given, np.float32))

    least = number(2.0**LEAST_EXPONENT)
    largest = builder.op("Max", [largest, least])
    logarithm = builder.op("Div", [builder.op("Log", [largest]), number(np.log(2.0))])
    exponent = builder.op("Floor", [logarithm])
    power = builder.op("Pow", [number(2), exponent])
    half, double = (builder.op("Mul", [power, number(n)]) for n in (0.5, 2))
    power = builder.op("Where", [builder.op("Less", [largest, power]), half, power])
    reached = builder.op("GreaterOrEqual", [largest, double])
    return builder.op("Where", [reached, double, power])
