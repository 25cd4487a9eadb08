# SPDX-License-Identifier: Apache-2.0
"""Ops that cut, pad, and trade rows and columns for channels."""

from collections.abc import Sequence

import numpy as np

from opendpu.compiler.fixed import point_of
from opendpu.compiler.legalize.context import feature_shape
from opendpu.compiler.legalize.permute import permuted
from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import Call, legalizes
from opendpu.ops.formats import integers_of
from opendpu_arch.numerics import quantize

MOST_AXES = 4
PAD_MODES = ("CONSTANT", "SYMMETRIC", "REFLECT")


def at_result(call: Call, shape: tuple[int, ...] | None = None) -> str:
    """Return the input with the fix point of the result, as NHWC of four axes."""
    shape = call.shape() if shape is None else shape
    if len(shape) > MOST_AXES:
        raise Refusal(
            f"DPU only supports 4 dimensions, but {call.node.kind} has {len(shape)}; fewer would "
            "lift it",
            "XCOM_TENSOR_DIMENSION_UNMATCH",
        )
    copied = call.context.copy(call.sources[0], call.node, call.fix)
    return call.context.view(copied, feature_shape(shape))


def four_axes(values: Sequence[int], fill: int) -> list[int]:
    """Return one number an axis of a tensor for NHWC of four axes."""
    return [values[0], *[fill] * (4 - len(values)), *values[1:]]


@legalizes("strided_slice")
def strided_slice(call: Call) -> str:
    """Make ``strided_slice-fix``; every other channel first becomes its neighbour."""
    attrs, shape = call.node.attrs, call.shape()
    limits = zip(attrs["begin"], attrs["end"], attrs["strides"], shape, strict=True)
    ranges = [range(*slice(begin, end, step).indices(size)) for begin, end, step, size in limits]
    if any(r.step < 1 for r in ranges) or len(ranges[0]) != shape[0]:
        raise Refusal(
            f'DPU only supports "strides"({list(attrs["strides"])}) that are positive, and whole '
            "batches; that would lift it",
            "XCOM_UNEXPECTED_VALUE",
        )
    ranges, shape = _merged(ranges, shape)
    ranges = [ranges[0], *[range(1)] * (MOST_AXES - len(ranges)), *ranges[1:]]  # as feature_shape
    source = at_result(call, shape)
    if ranges[-1].step > 1:
        source = permuted(call, source, ranges[-1])
        ranges[-1] = range(len(ranges[-1]))
    whole = call.context.result[source].shape
    if [len(r) for r in ranges] == list(whole):
        return source
    made = {
        "begin": [r.start for r in ranges], "end": [r.stop for r in ranges],
        "strides": [r.step for r in ranges],
    }  # fmt: skip
    size = tuple(len(r) for r in ranges)
    return call.context.add(
        call.node, call.fix, "strided_slice-fix", {"input": [source]}, made, shape=size
    )


def _merged(ranges: list[range], shape: tuple[int, ...]) -> tuple[list[range], tuple[int, ...]]:
    """Return the same elements with at most four axes, if neighbouring ones can be one.

    They can where the second is taken whole, and the first in one piece.
    """
    ranges, sizes = list(ranges), list(shape)
    axis = len(sizes) - 2
    while len(sizes) > MOST_AXES and axis > 0:
        first, second = ranges[axis], sizes[axis + 1]
        if first.step == 1 and len(ranges[axis + 1]) == second:
            ranges[axis : axis + 2] = [range(first.start * second, first.stop * second)]
            sizes[axis : axis + 2] = [sizes[axis] * second]
        axis -= 1
    return ranges, tuple(sizes)


@legalizes("pad")
def pad(call: Call) -> str:
    """Make ``pad-fix``; a constant gets the fix point of the input before."""
    attrs = call.node.attrs
    mode, amounts = str(attrs["mode"]).upper(), list(attrs["paddings"])
    if mode not in PAD_MODES or min(amounts) < 0:
        raise Refusal(
            f'DPU only supports "mode"({mode}) of {", ".join(PAD_MODES)} with '
            f'"paddings"({amounts}) from 0 on; that would lift it',
            "XCOM_UNEXPECTED_VALUE",
        )
    begin, end = four_axes(amounts[::2], 0), four_axes(amounts[1::2], 0)
    fill = np.asarray((attrs.get("constant_values") or [0.0])[:1])
    value = integers_of(fill, call.fix.quantization)
    if not call.context.scaled:
        point = point_of(call.context.result[call.sources[0]])
        value = quantize(quantize(fill, point) * 2.0**-point, call.point)
    source = at_result(call)
    made = {
        "paddings": [n for pair in zip(begin, end, strict=True) for n in pair], "mode": mode,
        "constant_values": np.asarray(value, np.int8).tobytes(),
    }  # fmt: skip
    shape = tuple(
        size + a + b
        for size, a, b in zip(call.context.result[source].shape, begin, end, strict=True)
    )
    return call.context.add(call.node, call.fix, "pad-fix", {"input": [source]}, made, shape=shape)


@legalizes("gstiling")
def tile(call: Call) -> str:
    """Make ``tile-fix``: blocks of pixels to channels, or back."""
    attrs = {"stride": int(call.node.attrs["stride"]), "reverse": bool(call.node.attrs["reverse"])}
    return call.context.add(call.node, call.fix, "tile-fix", {"input": [at_result(call)]}, attrs)


@legalizes("reorg")
def reorg(call: Call) -> str:
    """Make ``reorg-fix``: as ``tile-fix``, with the rows of ``scale`` blocks interleaved."""
    attrs = {"scale": int(call.node.attrs["scale"]), "reverse": bool(call.node.attrs["reverse"])}
    return call.context.add(call.node, call.fix, "reorg-fix", {"input": [at_result(call)]}, attrs)


@legalizes("pixel-shuffle")
def pixel_shuffle(call: Call) -> str:
    """Make ``tile-fix`` of the channels in another order, or the other way round."""
    scale, upscale = int(call.node.attrs["scale"]), bool(call.node.attrs["upscale"])
    attrs = {"stride": scale, "reverse": upscale}
    source = at_result(call)
    channels = min(call.node.shape[-1], call.shape()[-1])
    if upscale:  # the place inside a block comes last, tile-fix wants it first
        order = np.arange(channels * scale**2).reshape(channels, scale**2).T.ravel()
        source = permuted(call, source, order.tolist())
        return call.context.add(call.node, call.fix, "tile-fix", {"input": [source]}, attrs)
    tiled = call.context.add(call.node, call.fix, "tile-fix", {"input": [source]}, attrs)
    order = np.arange(channels * scale**2).reshape(scale**2, channels).T.ravel()
    return permuted(call, tiled, order.tolist())
