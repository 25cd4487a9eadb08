# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements."""

import math

import numpy as np
import onnx
import tflite
from onnx import numpy_helper

from opendpu.frontend.channels_last import arithmetic, shaping
from opendpu.frontend.channels_last.axes import known_shape, reshaped
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.tflite.registry import Call, handles

MOST_NUMBERS = 1 << 24
"""Of a range; no network has more positions."""


@handles("RESHAPE")
def reshape(call: Call) -> str:
    """The shape is the second input, or among the options of old files."""
    if call.has(1) and call.b.value(call.input(1)) is not None:
        shape = call.integers(1, "shapes")
    else:
        found = call.options(tflite.ReshapeOptions).NewShapeAsNumpy()
        if isinstance(found, int):
            raise Refusal("its shape is computed, but must be constant")
        shape = found.tolist()
    return reshaped(call.b, call.x, tuple(shape), call.name)


@handles("DENSIFY")
def densify(call: Call) -> str:
    """Nothing is left to do: constants are read with their zeros."""
    return call.x


@handles("SQUEEZE")
def squeeze(call: Call) -> str:
    """Drop axes of size 1: those that are named, or all."""
    shape = known_shape(call.b, call.x)
    around = call.operator.dilation
    drop = {i for i, size in enumerate(shape) if size == 1}
    if around is not None and around.sequence is not None:
        drop = {1, 2} - {around.sequence}
    else:
        axes = call.options(tflite.SqueezeOptions).SqueezeDimsAsNumpy()
        if not isinstance(axes, int) and axes.size:
            drop = {int(axis) % len(shape) for axis in axes}
    return reshaped(
        call.b, call.x, tuple(s for i, s in enumerate(shape) if i not in drop), call.name
    )


@handles("EXPAND_DIMS")
def expand_dims(call: Call) -> str:
    """Add an axis of size 1."""
    return call.node("Unsqueeze", call.x, call.b.integers(*call.integers(1, "axes")))


@handles("CONCATENATION")
def concatenation(call: Call) -> str:
    """Join along an axis."""
    given = call.options(tflite.ConcatenationOptions)
    fused = given.FusedActivationFunction()
    made = call.b.node("Concat", call.inputs, call.inner(fused), axis=given.Axis())
    return call.activated(made, fused)


@handles("PACK")
def pack(call: Call) -> str:
    """Join along a new axis."""
    return shaping.stack(
        call.b, call.inputs, call.options(tflite.PackOptions).Axis(), name=call.name
    )


@handles("UNPACK")
def unpack(call: Call) -> list[str]:
    """Take apart along an axis, which goes."""
    axis = call.options(tflite.UnpackOptions).Axis()
    return shaping.unstack(call.b, call.x, axis, names=call.names)


@handles("SPLIT")
def split(call: Call) -> list[str]:
    """Equal parts; the axis is the first input."""
    (axis,), x, count = call.integers(0, "axes"), call.input(1), len(call.names)
    size = known_shape(call.b, x)[axis] // count
    return shaping.split(call.b, x, [size] * count, axis, names=call.names)


@handles("SPLIT_V")
def split_v(call: Call) -> list[str]:
    """Parts of given sizes; the axis is the last input."""
    sizes, (axis,) = call.integers(1, "sizes"), call.integers(2, "axes")
    return shaping.split(call.b, call.x, sizes, axis, names=call.names)


@handles("SLICE")
def slice_(call: Call) -> str:
    """A part by where it begins and its sizes; -1 takes all that is left."""
    if any(call.b.value(call.input(index)) is None for index in (1, 2)):
        return shaping.computed_slice(call.b, call.x, call.input(1), call.input(2), name=call.name)
    begin, size = call.integers(1, "begins"), call.integers(2, "sizes")
    shape = known_shape(call.b, call.x)
    end = [
        whole if n < 0 else first + n for first, n, whole in zip(begin, size, shape, strict=True)
    ]
    return shaping.strided_slice(call.b, call.x, begin, end, [1] * len(begin), name=call.name)


@handles("STRIDED_SLICE")
def strided_slice(call: Call) -> str:
    """A part as Python's subscripts say it."""
    given = call.options(tflite.StridedSliceOptions)
    begin, end = call.integers(1, "begins"), call.integers(2, "ends")
    if given.Offset():  # ends are counted from where the part begins
        end = [first + size for first, size in zip(begin, end, strict=True)]
    return shaping.strided_slice(
        call.b, call.x, begin, end,
        call.integers(3, "strides"), name=call.name, begin_mask=given.BeginMask(),
        end_mask=given.EndMask(), ellipsis_mask=given.EllipsisMask(),
        new_axis_mask=given.NewAxisMask(), shrink_axis_mask=given.ShrinkAxisMask(),
    )  # fmt: skip


@handles("PAD", "PADV2")
def pad(call: Call) -> str:
    """With zeros, or with the third input."""
    amounts = call.constant(1, "pads").astype(np.int64)
    return shaping.pad(call.b, call.x, amounts, name=call.name, fill=call.optional(2) or "")


@handles("MIRROR_PAD")
def mirror_pad(call: Call) -> str:
    """With what is inside."""
    amounts = call.constant(1, "pads").astype(np.int64)
    reflect = call.options(tflite.MirrorPadOptions).Mode() == tflite.MirrorPadMode.REFLECT
    mode = "reflect" if reflect else "symmetric"
    return shaping.pad(call.b, call.x, amounts, name=call.name, mode=mode)


@handles("TILE")
def tile(call: Call) -> str:
    """Repeat along every axis."""
    return call.node("Tile", call.x, call.b.integers(*call.integers(1, "repeats")))


@handles("BROADCAST_TO")
def broadcast_to(call: Call) -> str:
    """Repeat along axes of size 1."""
    return call.node("Expand", call.x, call.b.integers(*call.integers(1, "shapes")))


@handles("FILL")
def fill(call: Call) -> str:
    """A tensor of one number."""
    return call.node("Expand", call.input(1), call.b.integers(*call.integers(0, "shapes")))


@handles("GATHER")
def gather(call: Call) -> str:
    """Pick along an axis."""
    given = call.options(tflite.GatherOptions)
    if given.BatchDims():
        raise Refusal(f"batch_dims is {given.BatchDims()}, but must be 0")
    axis = given.Axis() % len(known_shape(call.b, call.x))
    return call.node("Gather", call.x, call.input(1), axis=axis)


@handles("GATHER_ND")
def gather_nd(call: Call) -> str:
    """Pick by coordinates."""
    places = call.b.node("Cast", [call.input(1)], to=onnx.TensorProto.INT64)
    return call.node("GatherND", call.x, places)


@handles("SCATTER_ND")
def scatter_nd(call: Call) -> str:
    """Elements by coordinates into zeros; those of one place are added."""
    shape = call.b.integers(*call.integers(2, "shapes"))
    zero = numpy_helper.from_array(np.zeros(1, call.dtypes[0]))
    zeros = call.b.node("ConstantOfShape", [shape], value=zero)
    places = call.b.node("Cast", [call.x], to=onnx.TensorProto.INT64)
    return call.node("ScatterND", zeros, places, call.input(1), reduction="add")


@handles("EMBEDDING_LOOKUP")
def embedding_lookup(call: Call) -> str:
    """Rows of a table."""
    return call.node("Gather", call.input(1), call.x, axis=0)


@handles("REVERSE_SEQUENCE")
def reverse_sequence(call: Call) -> str:
    """Turn around as many elements of an axis as there are in use."""
    given = call.options(tflite.ReverseSequenceOptions)
    counts = call.b.node("Cast", [call.input(1)], to=onnx.TensorProto.INT64)
    return call.node(
        "ReverseSequence", call.x, counts, time_axis=given.SeqDim(), batch_axis=given.BatchDim()
    )


@handles("RANK")
def rank(call: Call) -> str:
    """How many axes there are."""
    return call.b.constant(np.array(len(known_shape(call.b, call.x)), np.int32), call.name)


@handles("DEPTH_TO_SPACE")
def depth_to_space(call: Call) -> str:
    """Channels become blocks of pixels."""
    size = call.options(tflite.DepthToSpaceOptions).BlockSize()
    return shaping.blocks(call.b, "DepthToSpace", call.x, size, name=call.name)


@handles("SPACE_TO_DEPTH")
def space_to_depth(call: Call) -> str:
    """Blocks of pixels become channels."""
    size = call.options(tflite.SpaceToDepthOptions).BlockSize()
    return shaping.blocks(call.b, "SpaceToDepth", call.x, size, name=call.name)


@handles("SPACE_TO_BATCH_ND")
def space_to_batch(call: Call) -> str:
    """Blocks of pixels move into the batch."""
    block, amounts = call.integers(1, "blocks"), call.constant(2, "pads")
    return shaping.space_to_batch(call.b, call.x, block, amounts, name=call.name)


@handles("BATCH_TO_SPACE_ND")
def batch_to_space(call: Call) -> str:
    """The batch becomes blocks of pixels."""
    block, crops = call.integers(1, "blocks"), call.constant(2, "crops")
    return shaping.batch_to_space(call.b, call.x, block, crops, name=call.name)


@handles("REVERSE_V2")
def reverse(call: Call) -> str:
    """Turn axes around."""
    b, axes = call.b, call.integers(1, "axes")
    starts, ends, steps = ([number] * len(axes) for number in (-1, -shaping.LAST, -1))
    return call.node(
        "Slice", call.x, b.integers(*starts), b.integers(*ends), b.integers(*axes),
        b.integers(*steps),
    )  # fmt: skip


@handles("SHAPE")
def shape(call: Call) -> str:
    """The shape, which is known."""
    found = known_shape(call.b, call.x)
    return call.b.constant(np.array(found, call.dtypes[0]), call.name)


@handles("ZEROS_LIKE")
def zeros_like(call: Call) -> str:
    """Zeros in the shape of the input."""
    zeros = np.zeros(known_shape(call.b, call.x), call.b.dtype(call.x))
    return call.b.constant(zeros, call.name)


@handles("ONE_HOT")
def one_hot(call: Call) -> str:
    """Vectors with one element that differs."""
    (depth,) = call.integers(1, "depths")
    axis = call.options(tflite.OneHotOptions).Axis()
    return arithmetic.one_hot(
        call.b, call.x, depth, call.input(2), call.input(3), axis, name=call.name
    )


@handles("RANGE")
def range_(call: Call) -> str:
    """Numbers from the first input up to, but without, the second, by steps of the third."""
    start, stop, step = (call.constant(index, "ends and steps").item() for index in range(3))
    count = max(0, math.ceil((stop - start) / step))
    if count > MOST_NUMBERS:
        raise Refusal(f"a range of {count} numbers, more than {MOST_NUMBERS}")
    numbers = start + step * np.arange(count, dtype=call.dtypes[0])
    return call.b.constant(numbers.astype(call.dtypes[0]), call.name)
