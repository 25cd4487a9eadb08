# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements: slices, pads, blocks, stacks."""

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from opendpu.frontend.building import Builder
from opendpu.frontend.channels_last.axes import (
    channels_first,
    channels_last,
    feature_map,
    known_shape,
    ordered,
    reshaped,
)
from opendpu.frontend.refusal import Refusal
from opendpu.ir import Array

LAST = np.iinfo(np.int64).max


def strided_slice(
    b: Builder, x: str, begin: Sequence[int], end: Sequence[int], strides: Sequence[int], *,
    name: str, begin_mask: int = 0, end_mask: int = 0, ellipsis_mask: int = 0,
    new_axis_mask: int = 0, shrink_axis_mask: int = 0,
) -> str:  # fmt: skip
    """Cut as Python's subscripts do; bit ``i`` of a mask is about entry ``i``."""
    shape = known_shape(b, x)
    entries = len(begin)
    taken = sum(not (new_axis_mask >> i) & 1 for i in range(entries)) - bool(ellipsis_mask)
    starts, ends, axes, steps, final = [], [], [], [], []
    axis = 0
    for i in range(entries):
        bit = 1 << i
        if ellipsis_mask & bit:
            skipped = len(shape) - taken
            final += [shape[axis + n] for n in range(skipped)]
            axis += skipped
            continue
        if new_axis_mask & bit:
            final.append(1)
            continue
        size = shape[axis]
        if shrink_axis_mask & bit:
            first = begin[i] + size if begin[i] < 0 else begin[i]
            part = slice(first, first + 1, 1)
        else:
            part = slice(
                None if begin_mask & bit else begin[i], None if end_mask & bit else end[i],
                strides[i],
            )  # fmt: skip
        start, stop, step = part.indices(size)
        if (start, stop, step) != (0, size, 1):
            starts.append(start)
            ends.append(stop if stop >= 0 else -LAST)
            axes.append(axis)
            steps.append(step)
        if not shrink_axis_mask & bit:
            final.append(len(range(start, stop, step)))
        axis += 1
    final += shape[axis:]
    made = x
    if axes:
        made = b.node(
            "Slice", [x, *(b.integers(*numbers) for numbers in (starts, ends, axes, steps))], name
        )
    found = known_shape(b, made)
    return made if found == tuple(final) else reshaped(b, made, tuple(final))


def pad(
    b: Builder, x: str, amounts: Array, *, name: str, mode: str = "constant", fill: str = ""
) -> str:
    """Pad by ``amounts`` ``[axes, 2]``; ``symmetric`` repeats the border, ``reflect`` does not."""
    if mode == "symmetric":
        return _mirrored(b, x, amounts, name)
    pads = b.integers(*amounts[:, 0].tolist(), *amounts[:, 1].tolist())
    return b.node("Pad", [x, pads, *([fill] if fill else [])], name, mode=mode)


def _mirrored(b: Builder, x: str, amounts: Array, name: str) -> str:
    """Gather along every axis that is padded: ONNX's Pad leaves out the border."""
    shape = known_shape(b, x)
    padded = [axis for axis, both in enumerate(amounts.tolist()) if any(both)]
    for axis in padded:
        indices = np.pad(np.arange(shape[axis]), amounts[axis].tolist(), "symmetric").tolist()
        last = axis == padded[-1]
        x = b.node("Gather", [x, b.integers(*indices)], name if last else "", axis=axis)
    return x if padded else b.node("Identity", [x], name)


def computed_slice(b: Builder, x: str, begin: str, size: str, *, name: str) -> str:
    """Cut out a part whose place or size is computed; sizes of -1 take all that is left."""
    begin, size = (b.node("Cast", [value], to=TensorProto.INT64) for value in (begin, size))
    open_ = b.node("Less", [size, b.integers(0)])
    end = b.node("Where", [open_, b.integers(LAST), b.node("Add", [begin, size])])
    return b.node("Slice", [x, begin, end], name)


def stack(b: Builder, values: Sequence[str], axis: int, *, name: str) -> str:
    """Join values along a new axis."""
    rank = len(known_shape(b, values[0])) + 1
    lifted = [
        b.node("Unsqueeze", [value, b.integers(axis % rank)], f"{name}/unsqueeze")
        for value in values
    ]
    return b.node("Concat", lifted, name, axis=axis % rank)


def unstack(b: Builder, x: str, axis: int, *, names: Sequence[str]) -> list[str]:
    """Return the parts of a value along an axis, without that axis."""
    axis %= len(known_shape(b, x))
    at = b.integers(axis)
    if len(names) == 1:
        return [b.node("Squeeze", [x, at], names[0])]
    sizes = b.integers(*[1] * len(names))
    parts = b.nodes("Split", [x, sizes], [f"{name}/split" for name in names], axis=axis)
    return [b.node("Squeeze", [part, at], n) for part, n in zip(parts, names, strict=True)]


def split(
    b: Builder, x: str, sizes: Sequence[int], axis: int, *, names: Sequence[str]
) -> list[str]:
    """Return the parts of a value along an axis; one size may be -1."""
    shape = known_shape(b, x)
    axis %= len(shape)
    rest = shape[axis] - sum(size for size in sizes if size >= 0)
    sizes = [rest if size < 0 else size for size in sizes]
    if len(names) == 1:
        return [x]
    return b.nodes("Split", [x, b.integers(*sizes)], names, axis=axis)


def blocks(b: Builder, kind: str, x: str, size: int, *, name: str) -> str:
    """Trade pixels for channels: ``DepthToSpace`` or ``SpaceToDepth``."""
    feature_map(b, x)
    more = {"mode": "DCR"} if kind == "DepthToSpace" else {}
    return channels_last(b, b.node(kind, [channels_first(b, x)], name, blocksize=size, **more))


def space_to_batch(
    b: Builder, x: str, block: Sequence[int], amounts: Array, *, name: str
) -> str:  # fmt: skip
    """Move blocks of the spatial axes, padded before, into the batch."""
    count = len(block)
    rank = len(known_shape(b, x))
    every = np.zeros((rank, 2), np.int64)
    every[1 : 1 + count] = amounts
    padded = pad(b, x, every, name=f"{name}/pad") if every.any() else x
    batch, *space = known_shape(b, padded)
    sizes = [n for size, part in zip(space, block, strict=False) for n in (size // part, part)]
    rest = space[count:]
    apart = reshaped(b, padded, (batch, *sizes, *rest), f"{name}/apart")
    order = (
        *(2 + 2 * i for i in range(count)), 0, *(1 + 2 * i for i in range(count)),
        *range(1 + 2 * count, 1 + 2 * count + len(rest)),
    )  # fmt: skip
    moved = ordered(b, apart, order)
    final = (batch * int(np.prod(block)), *sizes[::2], *rest)
    return reshaped(b, moved, final, name)


def batch_to_space(
    b: Builder, x: str, block: Sequence[int], crops: Array, *, name: str
) -> str:  # fmt: skip
    """Undo :func:`space_to_batch`, and crop."""
    count = len(block)
    batch, *space = known_shape(b, x)
    if batch % int(np.prod(block)):
        raise Refusal(f"a batch of {batch} is no multiple of the block {list(block)}")
    batch //= int(np.prod(block))
    rest = space[count:]
    apart = reshaped(b, x, (*block, batch, *space), f"{name}/apart")
    order = [count]
    for i in range(count):
        order += [count + 1 + i, i]
    order += range(2 * count + 1, 2 * count + 1 + len(rest))
    moved = ordered(b, apart, tuple(order))
    sizes = [size * part for size, part in zip(space, block, strict=False)]
    whole = reshaped(b, moved, (batch, *sizes, *rest), name)
    if not np.any(crops):
        return whole
    return strided_slice(
        b, whole, [0, *(int(c[0]) for c in crops)],
        [batch, *(size - int(c[1]) for size, c in zip(sizes, crops, strict=True))],
        [1] * (count + 1), name=f"{name}/crop",
    )  # fmt: skip
