# SPDX-License-Identifier: Apache-2.0
"""Max and average pooling, global pooling, and means over the feature map."""

import dataclasses

import numpy as np

from opendpu.frontend.context import Call
from opendpu.frontend.layout import Value, reshaped
from opendpu.frontend.ops.registry import Layout, handles
from opendpu.frontend.ops.window import Window, window_of, with_ceil_mode
from opendpu.frontend.refusal import Refusal


@handles("MaxPool", layout=Layout.SPATIAL)
def max_pool(call: Call) -> None:
    """Convert to ``maxpool2d``."""
    if len(call.proto.output) > 1 and call.proto.output[1]:
        raise Refusal("the second output (indices) is not supported")
    _pool(call, "maxpool2d")


@handles("AveragePool", layout=Layout.SPATIAL)
def average_pool(call: Call) -> None:
    """Convert to ``avgpool2d``."""
    _pool(call, "avgpool2d")


def _pool(call: Call, kind: str) -> None:
    rank = len(call.value(0).shape)
    node, shape = call.feature_map()
    size = (shape[1], shape[2])
    window = window_of(call, tuple(call.attrs["kernel_shape"]), size)
    if window.dilation != (1, 1):
        raise Refusal(f"dilations are {list(window.dilation)}, but must be 1")
    attrs = {}
    explicit = window.pads
    if call.attrs.get("ceil_mode", 0):
        every, window = _takes_all(window, size), with_ceil_mode(window, size)
        if every and window.output(size) == (1, 1):
            call.set_feature_map(_whole(call, kind, node), rank)
            return
    if kind == "avgpool2d":
        counted = bool(call.attrs.get("count_include_pad", 0))
        padded = any(sum(pair) for pair in window.pads)
        if counted and window.pads != explicit:
            if any(sum(pair) for pair in explicit):
                raise Refusal("ceil_mode with count_include_pad and pads is not supported")
            counted = False
        attrs["count_include_pad"] = counted or not padded
        attrs["count_include_invalid"] = attrs["count_include_pad"]
    attrs |= window.attrs()
    name = call.context.emit(
        call.output, kind, (shape[0], *window.output(size), shape[3]), {"input": [node]}, attrs
    )
    call.set_feature_map(name, rank)


def _takes_all(window: Window, size: tuple[int, int]) -> bool:
    """Return whether a window without padding is as large as the feature map, or larger."""
    padded = any(sum(pair) for pair in window.pads)
    return not padded and all(k >= s for k, s in zip(window.kernel, size, strict=True))


@handles("GlobalAveragePool", "GlobalMaxPool", layout=Layout.SPATIAL)
def global_pool(call: Call) -> None:
    """Convert to a pool whose kernel is the whole feature map."""
    kind = "avgpool2d" if call.proto.op_type == "GlobalAveragePool" else "maxpool2d"
    rank = len(call.value(0).shape)
    node, _ = call.feature_map()
    call.set_feature_map(_whole(call, kind, node), rank)


def _whole(call: Call, kind: str, node: str) -> str:
    batch, height, width, channels = call.context.graph[node].shape
    attrs = {
        "kernel": [width, height],
        "stride": [width, height],
        "pad": [0, 0, 0, 0],
        "pad_mode": "FLOOR",
        "global": True,
    }
    shape = (batch, 1, 1, channels)
    return call.context.emit(call.output, kind, shape, {"input": [node]}, attrs)


@handles("ReduceMean", "ReduceMax", "ReduceSum")
def reduce(call: Call) -> None:
    """Convert a mean or maximum of height and width to a pool, all others to ``reduction_*``."""
    value = call.value(0)
    rank = len(value.shape)
    given = call.attrs.get("axes")
    if given is None and call.has(1):
        given = call.weights(1, "axes").tolist()
    if not given:
        if call.attrs.get("noop_with_empty_axes", 0):
            raise Refusal("noop_with_empty_axes is not supported")
        given = range(rank)
    axes = sorted(axis % rank for axis in given)
    keep = bool(call.attrs.get("keepdims", 1))
    what = call.proto.op_type.removeprefix("Reduce").lower()
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(value.shape))
    final = kept if keep else tuple(s for axis, s in enumerate(value.shape) if axis not in axes)
    if what != "sum" and (rank, axes) in ((4, [2, 3]), (3, [2])):
        node, _ = call.feature_map()
        name = _whole(call, "avgpool2d" if what == "mean" else "maxpool2d", node)
        call.set_feature_map(name, rank)
        call.bind(reshaped(call.context.values[call.output], final))
        return
    kind = f"reduction_{what}"
    value = call.context.straight(value)
    node = call.context.view(value.node, value.stored)
    stored_axes = sorted(value.perm.index(axis) for axis in axes)
    shape = tuple(1 if i in stored_axes else size for i, size in enumerate(value.stored))
    name = call.context.emit(
        call.output, kind, shape, {"input": [node]}, {"axis": stored_axes, "keep_dims": True}
    )
    call.bind(reshaped(dataclasses.replace(value, node=name, shape=kept), final))


@handles("ArgMax")
def argmax(call: Call) -> None:
    """Convert to ``argmax``, which drops its axis."""
    if call.attrs.get("select_last_index", 0):
        raise Refusal("select_last_index is 1, but only the first largest element is found")
    value = call.context.straight(call.value(0))
    rank = len(value.shape)
    axis = int(call.attrs.get("axis", 0)) % rank
    node = call.context.view(value.node, value.stored)
    at = value.perm.index(axis)
    shape = (*value.stored[:at], *value.stored[at + 1 :]) or (1,)
    name = call.context.emit(
        call.output, "argmax", shape, {"input": [node]}, {"axis": at}, np.int32
    )
    name = call.context.emit(call.output, "cast", shape, {"input": [name]}, {}, np.int64)
    kept = tuple(1 if a == axis else size for a, size in enumerate(value.shape))
    final = (*value.shape[:axis], *value.shape[axis + 1 :])
    result = reshaped(Value(name, kept, value.perm), kept)
    call.bind(result if call.attrs.get("keepdims", 1) else reshaped(result, final))
