# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements."""

import numpy as np
import onnx

from opendpu.frontend.channels_last import arithmetic, shaping
from opendpu.frontend.channels_last.axes import known_shape, ordered, reshaped
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.tensorflow.registry import Call, handles


@handles("Reshape")
def reshape(call: Call) -> str:
    """The shape is the second input."""
    return reshaped(call.b, call.x, tuple(call.integers(1, "shapes")), call.name)


@handles("Squeeze")
def squeeze(call: Call) -> str:
    """Drop axes of size 1: those that are named, or all."""
    shape = known_shape(call.b, call.x)
    axes = call.attr("squeeze_dims") or [i for i, size in enumerate(shape) if size == 1]
    drop = {axis % len(shape) for axis in axes}
    final = tuple(size for i, size in enumerate(shape) if i not in drop)
    return reshaped(call.b, call.x, final, call.name)


@handles("ExpandDims")
def expand_dims(call: Call) -> str:
    """Add an axis of size 1."""
    return call.emit("Unsqueeze", call.x, call.b.integers(*call.integers(1, "axes")))


@handles("Transpose")
def transpose(call: Call) -> str:
    """The second input is the order."""
    return ordered(call.b, call.x, tuple(call.integers(1, "orders")), call.name)


@handles("ConcatV2", "Concat")
def concat(call: Call) -> str:
    """Join along an axis, which is the last input, or of old graphs the first."""
    last = call.node.op == "ConcatV2"
    (axis,) = call.integers(len(call.inputs) - 1 if last else 0, "axes")
    values = call.inputs[:-1] if last else call.inputs[1:]
    if len(values) == 1:
        return values[0]
    return call.emit("Concat", *values, axis=axis % len(known_shape(call.b, values[0])))


@handles("Pack")
def pack(call: Call) -> str:
    """Join along a new axis."""
    return shaping.stack(call.b, call.inputs, call.attr("axis", 0), name=call.name)


@handles("Unpack")
def unpack(call: Call) -> list[str]:
    """Take apart along an axis, which goes."""
    names = call.names(call.attr("num"))
    return shaping.unstack(call.b, call.x, call.attr("axis", 0), names=names)


@handles("Split")
def split(call: Call) -> list[str]:
    """Equal parts; the axis is the first input."""
    (axis,), x, count = call.integers(0, "axes"), call.input(1), call.attr("num_split")
    size = known_shape(call.b, x)[axis] // count
    return shaping.split(call.b, x, [size] * count, axis, names=call.names(count))


@handles("SplitV")
def split_v(call: Call) -> list[str]:
    """Parts of given sizes; the axis is the last input."""
    sizes, (axis,) = call.integers(1, "sizes"), call.integers(2, "axes")
    return shaping.split(call.b, call.x, sizes, axis, names=call.names(len(sizes)))


@handles("Slice")
def slice_(call: Call) -> str:
    """A part by where it begins and its sizes; -1 takes all that is left."""
    begin, size = call.integers(1, "begins"), call.integers(2, "sizes")
    shape = known_shape(call.b, call.x)
    end = [
        whole if n < 0 else first + n for first, n, whole in zip(begin, size, shape, strict=True)
    ]
    return shaping.strided_slice(call.b, call.x, begin, end, [1] * len(begin), name=call.name)


_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@handles("StridedSlice")
def strided_slice(call: Call) -> str:
    """A part as Python's subscripts say it."""
    return shaping.strided_slice(
        call.b, call.x, call.integers(1, "begins"), call.integers(2, "ends"),
        call.integers(3, "strides"), name=call.name, **{m: call.attr(m, 0) for m in _MASKS},
    )  # fmt: skip


@handles("Pad", "PadV2")
def pad(call: Call) -> str:
    """With zeros, or with the third input."""
    amounts = call.constant(1, "pads").astype(np.int64)
    fill = call.input(2) if call.node.op == "PadV2" else ""
    return shaping.pad(call.b, call.x, amounts, name=call.name, fill=fill)


@handles("MirrorPad")
def mirror_pad(call: Call) -> str:
    """With what is inside."""
    amounts = call.constant(1, "pads").astype(np.int64)
    mode = str(call.attr("mode")).lower()
    return shaping.pad(call.b, call.x, amounts, name=call.name, mode=mode)


@handles("Tile")
def tile(call: Call) -> str:
    """Repeat along every axis."""
    return call.emit("Tile", call.x, call.b.integers(*call.integers(1, "repeats")))


@handles("BroadcastTo")
def broadcast_to(call: Call) -> str:
    """Repeat along axes of size 1."""
    return call.emit("Expand", call.x, call.b.integers(*call.integers(1, "shapes")))


@handles("Fill")
def fill(call: Call) -> str:
    """A tensor of one number."""
    return call.emit("Expand", call.input(1), call.b.integers(*call.integers(0, "shapes")))


@handles("Gather", "GatherV2")
def gather(call: Call) -> str:
    """Pick along an axis."""
    if call.attr("batch_dims", 0):
        raise Refusal(f"batch_dims is {call.attr('batch_dims')}, but must be 0")
    axis = call.integers(2, "axes")[0] if call.node.op == "GatherV2" else 0
    rank = len(known_shape(call.b, call.x))
    return call.emit("Gather", call.x, call.input(1), axis=axis % rank)


@handles("GatherNd")
def gather_nd(call: Call) -> str:
    """Pick by coordinates."""
    places = call.b.node("Cast", [call.input(1)], to=onnx.TensorProto.INT64)
    return call.emit("GatherND", call.x, places)


@handles("ReverseV2")
def reverse(call: Call) -> str:
    """Turn axes around."""
    b, axes = call.b, call.integers(1, "axes")
    starts, ends, steps = ([number] * len(axes) for number in (-1, -shaping.LAST, -1))
    return call.emit(
        "Slice", call.x, b.integers(*starts), b.integers(*ends), b.integers(*axes),
        b.integers(*steps),
    )  # fmt: skip


@handles("OneHot")
def one_hot(call: Call) -> str:
    """Vectors with one element that differs."""
    (depth,) = call.integers(1, "depths")
    return arithmetic.one_hot(
        call.b, call.x, depth, call.input(2), call.input(3), call.attr("axis", -1), name=call.name
    )
