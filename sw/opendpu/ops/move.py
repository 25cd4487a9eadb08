# SPDX-License-Identifier: Apache-2.0
"""Ops that move data: reshapes, slices, concatenations, blocks of pixels, resizing."""

import math
from collections.abc import Sequence

import numpy as np

from opendpu.ir import Node
from opendpu.ops.elementwise import operands, simple
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Operator, Result, register
from opendpu_arch.errors import UnsupportedError


def reshape(builder: OnnxBuilder, node: Node) -> None:
    """Emit the same elements in another shape."""
    (source,) = node.inputs["input"]
    value = builder.plain(source)
    builder.bind(node, builder.reshape(value, builder.graph[source].type, node.shape))


def transpose(builder: OnnxBuilder, node: Node) -> None:
    """Emit the axes in another order."""
    value = builder.plain(node.inputs["input"][0])
    order = [int(a) for a in node.attrs["order"]]
    builder.bind(node, builder.op("Transpose", [value], perm=order))


def _concat(builder: OnnxBuilder, node: Node) -> None:
    names = node.inputs["input"]
    axis = int(node.attrs["axis"]) % len(node.shape)
    given, first = operands(builder, node, names)
    if builder.batched:
        given = [as_many(builder, node, n, v) for n, v in zip(names, given, strict=True)]
    if first:
        axis = (0, 2, 3, 1)[axis]
    builder.bind(node, builder.op("Concat", given, axis=axis), channels_first=first)


def as_many(builder: OnnxBuilder, node: Node, name: str, value: str) -> str:
    """Return a constant once for every sample of the other inputs."""
    if builder.constant(name) is None:
        return value
    other = next(n for n in node.inputs["input"] if builder.constant(n) is None)
    batch = builder.front_of_shape(builder.plain(other), 1)
    rest = builder.integers([1] * (len(node.shape) - 1))
    return builder.op("Expand", [value, builder.op("Concat", [batch, rest], axis=0)])


def _stack(builder: OnnxBuilder, node: Node) -> None:
    axis = int(node.attrs["axis"])
    axes = builder.integers([axis])
    given = [builder.op("Unsqueeze", [builder.plain(n), axes]) for n in node.inputs["input"]]
    builder.bind(node, builder.op("Concat", given, axis=axis))


def strided_slice(builder: OnnxBuilder, node: Node) -> None:
    """Emit a part of every axis."""
    (source,) = node.inputs["input"]
    axes = [a for a in range(len(node.shape)) if a or not builder.batched]
    limits = [[int(node.attrs[key][a]) for a in axes] for key in ("begin", "end", "strides")]
    begin, end, strides = (builder.integers(values) for values in limits)
    given = [builder.plain(source), begin, end, builder.integers(axes), strides]
    builder.bind(node, builder.op("Slice", given))


def pad(builder: OnnxBuilder, node: Node) -> None:
    """Emit constants, or mirrored elements, around a tensor."""
    padded(builder, node, float((node.attrs.get("constant_values") or [0.0])[0]))


def padded(builder: OnnxBuilder, node: Node, fill: float) -> None:
    """Emit ``fill``, or mirrored elements, around a tensor."""
    amounts, mode = [int(n) for n in node.attrs["paddings"]], str(node.attrs["mode"]).upper()
    value = builder.plain(node.inputs["input"][0])
    if mode not in ("CONSTANT", "REFLECT", "SYMMETRIC"):
        raise UnsupportedError(
            f"op {node.name!r}: mode is {mode!r}, but must be CONSTANT, REFLECT or SYMMETRIC"
        )
    if mode == "SYMMETRIC":
        builder.bind(node, _mirrored(builder, node, value, amounts))
        return
    given = [value, builder.integers([*amounts[::2], *amounts[1::2]])]
    if mode == "CONSTANT":
        given.append(builder.initializer(np.array(fill, np.float32)))
    made = builder.op("Pad", given, mode="constant" if mode == "CONSTANT" else "reflect")
    builder.bind(node, made)


def _mirrored(builder: OnnxBuilder, node: Node, value: str, amounts: Sequence[int]) -> str:
    """Return padding that repeats the outermost elements first, axis by axis."""
    shape = builder.graph[node.inputs["input"][0]].shape
    for axis, size in enumerate(shape):
        before, after = amounts[2 * axis : 2 * axis + 2]
        if before or after:
            places = np.pad(np.arange(size), (before, after), mode="symmetric")
            value = builder.op("Gather", [value, builder.integers(places)], axis=axis)
    return value


def rearranged(
    builder: OnnxBuilder, node: Node, split: Sequence[int], order: Sequence[int]
) -> None:
    """Emit a reshape to ``split``, a transpose, and a reshape to the result."""
    source = builder.graph[node.inputs["input"][0]]
    value = builder.reshape(builder.plain(source.name), source.type, split)
    value = builder.op("Transpose", [value], perm=list(order))
    builder.bind(node, builder.reshape(value, source.type, node.shape))


def tile(builder: OnnxBuilder, node: Node) -> None:
    """Trade blocks of pixels for channels: row in the block, column, channel; or back."""
    size = int(node.attrs["stride"])
    batch, height, width, channels = builder.graph[node.inputs["input"][0]].shape
    if node.attrs["reverse"]:
        split = [batch, height, width, size, size, channels // size**2]
    else:
        split = [batch, height // size, size, width // size, size, channels]
    rearranged(builder, node, split, (0, 1, 3, 2, 4, 5))


def reorg(builder: OnnxBuilder, node: Node) -> None:
    """As ``tile``; the rows of a block are ``scale`` apart, in groups of ``scale**2`` rows."""
    size = int(node.attrs["scale"])
    batch, height, width, channels = builder.graph[node.inputs["input"][0]].shape
    if node.attrs["reverse"]:
        split = [batch, height // size, size, width, size, size, channels // size**2]
        rearranged(builder, node, split, (0, 1, 4, 2, 3, 5, 6))
    else:
        split = [batch, height // size**2, size, size, width // size, size, channels]
        rearranged(builder, node, split, (0, 1, 3, 4, 2, 5, 6))


def _pixel_shuffle(builder: OnnxBuilder, node: Node) -> None:
    """Trade channels for blocks of pixels or back: channel, row in the block, column."""
    size = int(node.attrs["scale"])
    batch, height, width, channels = builder.graph[node.inputs["input"][0]].shape
    if node.attrs["upscale"]:
        split = [batch, height, width, channels // size**2, size, size]
        rearranged(builder, node, split, (0, 1, 4, 2, 5, 3))
    else:
        split = [batch, height // size, size, width // size, size, channels]
        rearranged(builder, node, split, (0, 1, 3, 5, 2, 4))


def resize(builder: OnnxBuilder, node: Node) -> None:
    """Emit Resize; where scale times size is no whole number, by the size of the result."""
    (source,), mode = node.inputs["input"], str(node.attrs["mode"]).upper()
    if mode not in ("NEAREST", "BILINEAR") or len(node.shape) != 4:
        raise UnsupportedError(
            f"op {node.name!r}: mode is {mode!r} for {len(node.shape)} dimensions, but must be "
            "NEAREST or BILINEAR for 4"
        )
    shape, corners = builder.graph[source].shape, bool(node.attrs.get("align_corners"))
    half = bool(node.attrs.get("half_pixel_centers"))
    where = "align_corners" if corners else "half_pixel" if half else "asymmetric"
    nearest = mode == "NEAREST"
    across, down = (float(s) for s in node.attrs.get("scale") or (0, 0))
    sizes = (node.shape[1], node.shape[2])
    exact = all(
        math.floor(np.float32(scale) * size) == made
        for scale, size, made in zip((down, across), shape[1:3], sizes, strict=True)
    )
    given = [builder.channels_first(source), ""]
    if exact:
        given.append(builder.initializer(np.array([1, 1, down, across], np.float32)))
    else:
        rest = builder.integers(sizes)
        front = builder.front_of_shape(given[0], 2)
        given += ["", builder.op("Concat", [front, rest], axis=0)]
    attrs = {"nearest_mode": "round_prefer_ceil" if corners else "floor"} if nearest else {}
    made = builder.op(
        "Resize", given, mode="nearest" if nearest else "linear",
        coordinate_transformation_mode=where, **attrs,
    )  # fmt: skip
    builder.bind(node, made, channels_first=True)


def resized(node: Node) -> Result:
    """Return where the elements of a resized map come from."""
    nearest = str(node.attrs.get("mode", "")).upper() == "NEAREST"
    return Result.MOVED if nearest else Result.COMPUTED


register(
    *(
        Operator(kind=kind, emit=reshape, result=Result.MOVED, fixed="reshape-fix")
        for kind in ("reshape", "flatten", "squeeze")
    ),
    Operator(kind="identity", emit=simple("Identity"), result=Result.MOVED),
    Operator(kind="transpose", emit=transpose, result=Result.MOVED, fixed="transpose"),
    Operator(kind="concat", emit=_concat, result=Result.MOVED, fixed="concat-fix"),
    Operator(kind="stack", emit=_stack, result=Result.MOVED),
    Operator(
        kind="strided_slice", emit=strided_slice, result=Result.MOVED, fixed="strided_slice-fix"
    ),
    Operator(kind="pad", emit=pad, result=Result.PADDED, fixed="pad-fix"),
    Operator(kind="gstiling", emit=tile, result=Result.MOVED, fixed="tile-fix"),
    Operator(kind="reorg", emit=reorg, result=Result.MOVED, fixed="reorg-fix"),
    Operator(kind="pixel-shuffle", emit=_pixel_shuffle, result=Result.MOVED, fixed="tile-fix"),
    Operator(kind="resize", emit=resize, result=resized, fixed="upsample-fix"),
)
