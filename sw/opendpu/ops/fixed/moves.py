# SPDX-License-Identifier: Apache-2.0
"""Kernels that move integers: those of real numbers, and a shift where fix points differ."""

import math

from opendpu.ir import Node
from opendpu.ops import move
from opendpu.ops.elementwise import operands
from opendpu.ops.fixed import scaled
from opendpu.ops.fixed.exact import bind, carried
from opendpu.ops.fixed.requantize import is_scaled
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Emit, Operator, Result, register

INTERPOLATION_BITS = 14
"""Fractional bits that weights along both axes can have together."""


def moved(emit: Emit) -> Emit:
    """Return the kernel on integers of an op that has one input, whose elements it moves.

    Bilinear interpolation is such an op too where its weights have few fractional bits, as those
    of the DPU have: float32 then has the result of every order of its products and sums.
    """

    def kernel(builder: OnnxBuilder, node: Node) -> None:
        emit(builder, node)
        (source,) = node.inputs["input"]
        before = builder.graph[source]
        first = builder.is_first(node.name)
        name = builder.channels_first(node.name) if first else builder.plain(node.name)
        value = carried(builder, before, name)
        if str(node.attrs.get("mode", "")).upper() == "BILINEAR":
            value.bits = INTERPOLATION_BITS
        bind(builder, node, value.shifted(_right(before, node)), channels_first=first)

    return kernel


def _right(before: Node, node: Node) -> int:
    """Return by how many bits integers are shifted right on their way into a node."""
    if before.quantization.same_grid(node.quantization):
        return 0
    return before.fix_point - node.fix_point


def _concat(builder: OnnxBuilder, node: Node) -> None:
    """Emit a concatenation of inputs at the fix point of the result."""
    names = node.inputs["input"]
    given, first = operands(builder, node, names)
    parts, lows, highs = [], [], []
    for name, value in zip(names, given, strict=True):
        before = builder.graph[name]
        shifted = carried(builder, before, value).shifted(_right(before, node))
        parts.append(shifted.rounded(*node.quantization.limits))
        lows.append(math.floor(shifted.reach[0]))
        highs.append(math.ceil(shifted.reach[1]))
    if builder.batched:
        parts = [move.as_many(builder, node, n, v) for n, v in zip(names, parts, strict=True)]
    axis = int(node.attrs["axis"]) % len(node.shape)
    made = builder.op("Concat", parts, axis=(0, 2, 3, 1)[axis] if first else axis)
    builder.bind(node, made, channels_first=first)
    builder.narrow(node.name, min(lows), max(highs))


def _pad(builder: OnnxBuilder, node: Node) -> None:
    """Emit a border of one byte or of mirrored elements around the bytes of the input."""
    given = node.attrs.get("constant_values") or b"\0"
    fill = int.from_bytes(bytes(given)[:1], signed=True)
    low, high = builder.limits(node.inputs["input"][0])
    move.padded(builder, node, fill)
    builder.narrow(node.name, min(low, fill), max(high, fill))


_repeat = moved(move.resize)


def _upsample(builder: OnnxBuilder, node: Node) -> None:
    """Emit a resize; interpolation between scales of their own has a kernel of its own."""
    interpolates = str(node.attrs["mode"]).upper() == "BILINEAR"
    (scaled.bilinear if is_scaled(node) and interpolates else _repeat)(builder, node)


register(
    Operator(kind="reshape-fix", emit=moved(move.reshape), result=Result.MOVED),
    Operator(kind="concat-fix", emit=_concat, result=Result.MOVED),
    Operator(kind="strided_slice-fix", emit=moved(move.strided_slice), result=Result.MOVED),
    Operator(kind="pad-fix", emit=_pad, result=Result.PADDED),
    Operator(kind="tile-fix", emit=moved(move.tile), result=Result.MOVED),
    Operator(kind="reorg-fix", emit=moved(move.reorg), result=Result.MOVED),
    Operator(kind="upsample-fix", emit=_upsample, result=move.resized),
    Operator(kind="downsample-fix", emit=moved(move.resize), result=move.resized),
)
