# SPDX-License-Identifier: Apache-2.0
"""Nodes that take parts of a tensor: slices, splits, indices that are known."""

from collections.abc import Sequence

import numpy as np

from opendpu.frontend.context import Call
from opendpu.frontend.layout import Value, reshaped
from opendpu.frontend.ops.registry import Layout, handles
from opendpu.frontend.refusal import Refusal

MOST_RUNS = 64
"""Parts that one ``concat`` joins where indices do not rise by one step."""


@handles("Slice", layout=Layout.NEUTRAL)
def slice_(call: Call) -> None:
    """Convert to ``strided_slice``; along axes that are turned round, to many, and a ``concat``."""
    value = call.context.straight(call.value(0))
    rank = len(value.shape)
    if "starts" in call.attrs:  # before operator set 10
        starts, ends = list(call.attrs["starts"]), list(call.attrs["ends"])
    else:
        starts, ends = (call.weights(i, w).tolist() for i, w in ((1, "starts"), (2, "ends")))
    axes = call.weights(3, "axes").tolist() if call.has(3) else call.attrs.get("axes")
    axes = list(range(len(starts))) if axes is None else axes
    steps = call.weights(4, "steps").tolist() if call.has(4) else [1] * len(starts)
    ranges = [range(size) for size in value.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = value.shape[axis % rank]
        ranges[axis % rank] = range(*slice(start, end, step).indices(size))
    if not all(len(r) for r in ranges):
        raise Refusal("the result is empty")
    falling = {axis: r for axis, r in enumerate(ranges) if r.step < 0}
    rising = [range(n) if a in falling else ranges[a] for a, n in enumerate(value.shape)]
    if not falling or rising != [range(size) for size in value.shape]:
        value = cut(call, value, call.output, rising)
    for axis, places in falling.items():
        value = _joined(call, value, call.output, axis, places)
    call.bind(value)


@handles("Split", layout=Layout.NEUTRAL)
def split(call: Call) -> None:
    """Convert to one ``strided_slice`` a result."""
    value = call.context.straight(call.value(0))
    axis = int(call.attrs.get("axis", 0)) % len(value.shape)
    count, size = len(call.proto.output), value.shape[axis]
    sizes = call.attrs.get("split")
    if sizes is None and call.has(1):
        sizes = call.weights(1, "sizes").tolist()
    if sizes is None:
        step = -(-size // count)
        sizes = [step] * (count - 1) + [size - step * (count - 1)]
    start = 0
    for output, length in zip(call.proto.output, sizes, strict=True):
        ranges = [range(n) for n in value.shape]
        ranges[axis] = range(start, start + length)
        call.context.values[output] = cut(call, value, output, ranges)
        start += length


@handles("Gather", layout=Layout.NEUTRAL)
def gather(call: Call) -> None:
    """Convert to ``strided_slice``, and a ``concat`` of those where indices have several steps.

    One index drops its axis.
    """
    index = call.constant(1)
    value = call.context.straight(call.value(0))
    if index is None or index.ndim > 1 or not index.size:
        raise Refusal("indices are computed, or of several axes")
    axis = int(call.attrs.get("axis", 0)) % len(value.shape)
    places = (index.ravel().astype(np.int64) % value.shape[axis]).tolist()
    taken = _joined(call, value, call.output, axis, places)
    if index.ndim == 0:
        taken = reshaped(taken, (*value.shape[:axis], *value.shape[axis + 1 :]))
    call.bind(taken)


def _joined(call: Call, value: Value, output: str, axis: int, places: Sequence[int]) -> Value:
    """Emit the parts of ``value`` that lie at ``places`` of an axis, and what joins them."""
    runs = _runs(places)
    if len(runs) > MOST_RUNS:
        raise Refusal(
            f"{len(places)} indices of {value.shape[axis]} rise in {len(runs)} runs of one step; "
            f"at most {MOST_RUNS} are joined"
        )
    every = [range(size) for size in value.shape]
    parts = [cut(call, value, output, [*every[:axis], run, *every[axis + 1 :]]) for run in runs]
    if len(parts) == 1:
        return parts[0]
    shape = tuple(len(places) if a == axis else size for a, size in enumerate(value.shape))
    name = call.context.emit(
        output, "concat", tuple(shape[a] for a in value.perm),
        {"input": [part.node for part in parts]}, {"axis": value.perm.index(axis)},
    )  # fmt: skip
    return Value(name, shape, value.perm)


def _runs(places: Sequence[int]) -> list[range]:
    """Return places as ranges with steps of one or more, as few as follow each other."""
    runs: list[range] = []
    at = 0
    while at < len(places):
        step = places[at + 1] - places[at] if at + 1 < len(places) else 1
        end = at + 1
        while step > 0 and end < len(places) and places[end] - places[end - 1] == step:
            end += 1
        runs.append(range(places[at], places[end - 1] + 1, max(step, 1)))
        at = end
    return runs


def cut(call: Call, value: Value, output: str, ranges: Sequence[range]) -> Value:
    """Emit the part of ``value`` that ``ranges``, in ONNX's order of axes, say."""
    if not all(len(r) for r in ranges):
        raise Refusal("the result is empty")
    stored = [ranges[axis] for axis in value.perm]
    attrs = {
        "begin": [r.start for r in stored],
        "end": [r.stop for r in stored],
        "strides": [r.step for r in stored],
    }
    node = call.context.view(value.node, value.stored)
    shape = tuple(len(r) for r in stored)
    name = call.context.emit(output, "strided_slice", shape, {"input": [node]}, attrs)
    return Value(name, tuple(len(r) for r in ranges), value.perm)
