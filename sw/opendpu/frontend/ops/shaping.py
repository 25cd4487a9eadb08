# SPDX-License-Identifier: Apache-2.0
"""Nodes that move data: reshape, transpose, concat, pad and their relatives."""

import math
from collections.abc import Sequence

import numpy as np

from opendpu.frontend.context import Array, Call
from opendpu.frontend.layout import Value, plain, reshaped, transposed
from opendpu.frontend.ops.registry import Layout, handles
from opendpu.frontend.ops.slicing import cut
from opendpu.frontend.refusal import FaultError, Refusal
from opendpu.frontend.source import as_float

MOST_COPIES = 16
"""How many copies of a tensor one ``concat`` joins."""
MOST_EDGES = 8
"""How often edges are repeated by the DPU, each time a copy of the feature map."""


@handles("Reshape", keeps_grid=True)
def reshape(call: Call) -> None:
    """Bind the output to a view of the input."""
    value = call.value(0)
    target = [int(size) for size in call.weights(1, "shape").ravel()]
    if not call.attrs.get("allowzero", 0):
        target = [value.shape[i] if size == 0 else size for i, size in enumerate(target)]
    known = math.prod(size for size in target if size != -1)
    total = math.prod(value.shape)
    if target.count(-1) == 1 and known and total % known == 0:
        target[target.index(-1)] = total // known
    if math.prod(target) != total or -1 in target:
        raise FaultError(
            f"shape {list(value.shape)} cannot become {target}; "
            "is another batch size than 1 built into the model?"
        )
    call.bind(reshaped(value, tuple(target)))


@handles("Flatten", keeps_grid=True)
def flatten(call: Call) -> None:
    """Bind the output to a view with two axes."""
    value = call.value(0)
    axis = int(call.attrs.get("axis", 1))
    axis = axis + len(value.shape) if axis < 0 else axis
    shape = (math.prod(value.shape[:axis]), math.prod(value.shape[axis:]))
    call.bind(reshaped(value, shape))


@handles("Expand", keeps_grid=True)
def expand(call: Call) -> None:
    """Bind the output to a view of the input, or to copies of it, one behind the other."""
    value, target = call.value(0), [int(size) for size in call.weights(1, "shape").ravel()]
    shape = np.broadcast_shapes(value.shape, tuple(target))
    lifted = (1,) * (len(shape) - len(value.shape)) + value.shape
    counts = [size // old for size, old in zip(shape, lifted, strict=True)]
    call.bind(_copies(call, reshaped(value, lifted), counts))


@handles("Tile", keeps_grid=True)
def tile(call: Call) -> None:
    """Bind the output to copies of the input, one behind the other."""
    call.bind(_copies(call, call.value(0), call.weights(1, "repeats").ravel().tolist()))


def _copies(call: Call, value: Value, counts: Sequence[int]) -> Value:
    """Emit ``concat`` of copies, ``counts`` of them for each of ONNX's axes."""
    shape = tuple(size * count for size, count in zip(value.shape, counts, strict=True))
    along = [axis for axis, count in enumerate(counts) if count != 1]
    if max(counts, default=1) > MOST_COPIES or min(counts, default=1) < 1:
        raise Refusal(
            f"{list(value.shape)} is repeated to {list(shape)}; at most {MOST_COPIES} copies are "
            "laid side by side"
        )
    value = call.context.straight(value) if along else value
    for axis in along:
        node = call.context.view(value.node, value.stored)
        grown = tuple(
            size * counts[axis] if a == axis else size for a, size in enumerate(value.shape)
        )
        stored = tuple(grown[a] for a in value.perm)
        name = call.context.emit(
            call.output, "concat", stored, {"input": [node] * counts[axis]},
            {"axis": value.perm.index(axis)},
        )  # fmt: skip
        value = Value(name, grown, value.perm)
    return value


@handles("Squeeze", "Unsqueeze", keeps_grid=True)
def squeeze(call: Call) -> None:
    """Bind the output to a view without, or with more, axes of size 1."""
    value = call.value(0)
    axes = call.attrs.get("axes")
    if axes is None and call.has(1):
        axes = call.weights(1, "axes").tolist()
    if call.proto.op_type == "Squeeze":
        rank = len(value.shape)
        if axes is None:
            axes = [axis for axis, size in enumerate(value.shape) if size == 1]
        drop = {axis % rank for axis in axes}
        shape = tuple(size for axis, size in enumerate(value.shape) if axis not in drop)
        if math.prod(shape) != math.prod(value.shape):
            raise Refusal(f"axes {sorted(drop)} of {list(value.shape)} are not all 1")
    else:
        if axes is None:
            raise Refusal("axes are missing")
        rank = len(value.shape) + len(axes)
        at = {axis % rank for axis in axes}
        sizes = iter(value.shape)
        shape = tuple(1 if axis in at else next(sizes) for axis in range(rank))
    call.bind(reshaped(value, shape))


@handles("Transpose", keeps_grid=True)
def transpose(call: Call) -> None:
    """Bind the output to a view with its axes in another order."""
    value = call.context.straight(call.value(0))
    axes = call.attrs.get("perm", list(reversed(range(len(value.shape)))))
    call.bind(transposed(value, tuple(axes)))


@handles("Concat", layout=Layout.NEUTRAL)
def concat(call: Call) -> None:
    """Convert to ``concat`` in the order of axes of the first computed input."""
    values = [call.context.straight(call.value(i)) for i in range(len(call.proto.input))]
    rank = len(values[0].shape)
    axis = int(call.attrs["axis"]) % rank
    others = {(len(v.shape), *v.shape[:axis], *v.shape[axis + 1 :]) for v in values}
    if len(others) > 1:
        raise Refusal(
            f"shapes {', '.join(str(list(v.shape)) for v in values)} differ in other "
            f"axes than {axis}"
        )
    perm = next((v.perm for v in values if v.perm != plain(rank)), plain(rank))
    shape = list(values[0].shape)
    shape[axis] = sum(v.shape[axis] for v in values)
    nodes = [call.context.ordered(v, perm) for v in values]
    name = call.context.emit(
        call.output,
        "concat",
        tuple(shape[a] for a in perm),
        {"input": nodes},
        {"axis": perm.index(axis)},
    )
    call.bind(Value(name, tuple(shape), perm))


@handles("Pad", layout=Layout.NEUTRAL)
def pad(call: Call) -> None:
    """Convert to ``pad``; zeros before a convolution are merged into it later."""
    value = call.context.straight(call.value(0))
    rank = len(value.shape)
    pads = call.attrs.get("pads")
    if pads is None:
        pads = call.weights(1, "pads").tolist()
    fill = float(call.attrs.get("value", 0.0))
    if call.has(2):
        fill = float(as_float(call.weights(2, "fill value")).reshape(()))
    axes = list(range(rank))
    if call.has(3):
        axes = [axis % rank for axis in call.weights(3, "axes").tolist()]
    amounts = np.zeros((rank, 2), dtype=int)
    for position, axis in enumerate(axes):
        amounts[axis] = pads[position], pads[position + len(pads) // 2]
    mode = call.attrs.get("mode", "constant")
    if mode not in ("constant", "reflect", "edge"):
        raise Refusal(f"mode {mode!r} is not supported")
    if amounts.min() < 0:
        kept = [
            range(max(-int(before), 0), size - max(-int(after), 0))
            for size, (before, after) in zip(value.shape, amounts, strict=True)
        ]
        value, amounts = cut(call, value, f"{call.output}_cut", kept), amounts.clip(min=0)
    if mode == "edge":
        call.bind(_repeat_edges(call, value, amounts))
    else:
        values = {"constant_values": [fill] * 2 * rank} if mode == "constant" else {}
        call.bind(_padded(call, value, amounts, mode.upper(), values))


def _repeat_edges(call: Call, value: Value, amounts: Array) -> Value:
    """Repeat what is outermost: a mirror that includes the edge does it by one at a time."""
    if amounts.max() > MOST_EDGES:
        raise Refusal(f"edges repeated {amounts.max()} times; must be at most {MOST_EDGES}")
    for step in range(max(1, int(amounts.max()))):
        value = _padded(call, value, (amounts > step).astype(int), "SYMMETRIC", {})
    return value


def _padded(
    call: Call, value: Value, amounts: Array, mode: str, attrs: dict[str, list[float]]
) -> Value:
    """Emit ``pad`` of ``amounts``, before and behind for each of ONNX's axes, in XIR's mode."""
    stored = [amounts[axis].tolist() for axis in value.perm]
    shape = tuple(size + sum(amount) for size, amount in zip(value.stored, stored, strict=True))
    paddings = [n for pair in stored for n in pair]
    node = call.context.view(value.node, value.stored)
    name = call.context.emit(
        call.output, "pad", shape, {"input": [node]}, {"paddings": paddings, "mode": mode, **attrs}
    )
    onnx_shape = tuple(size + int(amounts[axis].sum()) for axis, size in enumerate(value.shape))
    return Value(name, onnx_shape, value.perm)
