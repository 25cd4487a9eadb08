# SPDX-License-Identifier: Apache-2.0
"""Operators that MediaPipe adds to TFLite: its segmentation and its face mesh need them.

Their definitions are those of MediaPipe's kernels (``mediapipe/util/tflite/operations``), in
version 2 where there are two.
"""

import struct
from typing import Any

import numpy as np

from opendpu.frontend.channels_last import convolution
from opendpu.frontend.channels_last.axes import (
    channels_first,
    channels_last,
    feature_map,
    known_shape,
    ordered,
)
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.tflite.registry import Call, handles

_SAME, _VALID = 1, 2
"""Paddings, by TFLite's C interface."""


@handles("CUSTOM 'Convolution2DTransposeBias'")
def transpose_conv_bias(call: Call) -> str:
    """The feature map, weights OHWI, bias; padding and strides are three integers of C."""
    options = call.operator.custom
    if len(options) < 12:
        raise Refusal(f"its options have {len(options)} bytes, not 12 or more")
    padding, across, down = struct.unpack_from("<3i", options)
    if padding not in (_SAME, _VALID):
        raise Refusal(f"padding {padding} is not supported")
    strides = (down, across)
    _, *sizes, _ = feature_map(call.b, call.x)
    _, *kernel, _ = known_shape(call.b, call.input(1))
    size, pads = [], []
    for n, k, step in zip(sizes, kernel, strides, strict=True):
        cut = max(0, k - (n - 1) % step - 1) if padding == _SAME else 0
        size.append(step * (n - 1) + k - cut)
        pads.append((cut // 2, cut - cut // 2))
    return convolution.transposed_conv(
        call.b, call.x, ordered(call.b, call.input(1), (3, 0, 1, 2)), name=call.name,
        size=size, bias=call.input(2), padding=(pads[0], pads[1]), stride=strides,
    )  # fmt: skip


@handles("CUSTOM 'TransformLandmarks'")
def transform_landmarks(call: Call) -> str:
    """Points ``[1, count, 2]`` by the matrix ``[1, 4, 4]``: turned, scaled, moved."""
    _second_version(call)
    turn, shift = _rows(call, call.input(1))
    moved = call.b.node("MatMul", [call.x, ordered(call.b, turn, (0, 2, 1))])
    return call.node("Add", moved, ordered(call.b, shift, (0, 2, 1)))


@handles("CUSTOM 'TransformTensorBilinear'")
def transform_tensor(call: Call) -> str:
    """Cut out of a feature map: the matrix leads from places of the result to places in it.

    Places are centers of pixels; what would be outside of the outermost centers is 0.
    """
    _second_version(call)
    given = call.flexible_options("output_height", "output_width")
    height, width = int(given["output_height"]), int(given["output_width"])
    b = call.b
    batch, *size, _ = feature_map(b, call.x)
    if batch != 1:
        raise Refusal(f"the feature map has a batch of {batch}, but must have 1")
    down, across = np.mgrid[:height, :width].astype(np.float32) + 0.5
    points = b.constant(np.stack([across.ravel(), down.ravel()], -1)[None])
    turn, shift = _rows(call, call.input(1))
    turned = b.node("MatMul", [points, ordered(b, turn, (0, 2, 1))])
    places = b.node("Add", [turned, ordered(b, shift, (0, 2, 1))])
    sizes = np.array(size[::-1], np.float32)
    inside = _within(call, places, sizes - 0.5)
    grid = b.node("Sub", [b.node("Mul", [places, b.constant(2 / sizes)]), _one(call)])
    grid = b.node("Reshape", [grid, b.integers(1, height, width, 2)])
    cut = b.node("GridSample", [channels_first(b, call.x), grid], align_corners=0)
    mask = b.node("Reshape", [inside, b.integers(1, height, width, 1)])
    return call.node("Mul", channels_last(b, cut), mask)


@handles("CUSTOM 'Landmarks2TransformMatrix'")
def landmarks_to_matrix(call: Call) -> str:
    """The matrix ``[1, 4, 4]`` that leads from a cut-out to where some points are.

    The cut-out is turned so that two points lie in the direction that is asked for, and holds all
    points of the subset.
    """
    _second_version(call)
    given = call.flexible_options(
        "left_rotation_idx", "right_rotation_idx", "subset_idxs", "output_height",
        "output_width", "scale_x", "scale_y", "target_rotation_radians",
    )  # fmt: skip
    b = call.b
    points = b.node("Slice", [call.x, b.integers(0), b.integers(2), b.integers(2)])
    ends = (given["left_rotation_idx"], given["right_rotation_idx"])
    left, right = (b.node("Gather", [points, b.integers(int(end))], axis=1) for end in ends)
    wide = b.node("Sub", [right, left])
    length = b.node("ReduceL2", [wide], axes=[2], keepdims=1)
    turn = float(given["target_rotation_radians"])
    back = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]], np.float32)
    along = b.node("MatMul", [b.node("Div", [wide, length]), b.constant(back)])
    aside = b.node("MatMul", [along, b.constant(np.array([[0, 1], [-1, 0]], np.float32))])
    axes = b.node("Concat", [along, aside], axis=1)  # a row for each of the cut-out's axes
    subset = b.node("Gather", [points, b.integers(*map(int, given["subset_idxs"]))], axis=1)
    turned = b.node("MatMul", [subset, ordered(b, axes, (0, 2, 1))])
    low = b.node("ReduceMin", [turned], axes=[1], keepdims=1)
    high = b.node("ReduceMax", [turned], axes=[1], keepdims=1)
    middle = b.node("Mul", [b.node("Add", [low, high]), b.constant(np.float32(0.5))])
    size = np.array([given["output_width"], given["output_height"]], np.float32)
    factors = np.array([given["scale_x"], given["scale_y"]], np.float32) / size
    scale = b.node("Mul", [b.node("Sub", [high, low]), b.constant(factors)])
    first = b.node("Sub", [middle, b.node("Mul", [scale, b.constant(size / 2)])])
    shift = ordered(b, b.node("MatMul", [first, axes]), (0, 2, 1))
    scaled = b.node("Mul", [ordered(b, axes, (0, 2, 1)), scale])
    rows = b.node("Concat", [scaled, b.constant(np.zeros((1, 2, 1), np.float32)), shift], axis=2)
    return call.node("Concat", rows, b.constant(np.eye(4, dtype=np.float32)[None, 2:]), axis=1)


def _second_version(call: Call) -> None:
    if call.operator.version != 2:
        raise Refusal(f"version {call.operator.version} is not supported, but 2 is")


def _rows(call: Call, matrix: str) -> tuple[str, str]:
    """Return what turns points of a plane, ``[1, 2, 2]``, and what moves them, ``[1, 2, 1]``."""
    b = call.b
    rows = b.node("Slice", [matrix, b.integers(0), b.integers(2), b.integers(1)])
    turn = b.node("Slice", [rows, b.integers(0), b.integers(2), b.integers(2)])
    return turn, b.node("Slice", [rows, b.integers(3), b.integers(4), b.integers(2)])


def _within(call: Call, places: str, high: Any) -> str:
    """Return 1 for places from 0.5 to ``high`` in both directions, else 0: ``[1, count, 1]``."""
    b = call.b
    enough = b.node("GreaterOrEqual", [places, b.constant(np.float32(0.5))])
    little = b.node("LessOrEqual", [places, b.constant(np.asarray(high, np.float32))])
    both = b.node("Cast", [b.node("And", [enough, little])], to=1)
    return b.node("ReduceMin", [both], axes=[2], keepdims=1)


def _one(call: Call) -> str:
    return call.b.constant(np.float32(1))
