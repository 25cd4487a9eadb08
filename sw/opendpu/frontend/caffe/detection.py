# SPDX-License-Identifier: Apache-2.0
"""Layers of SSD (Liu et al., arXiv 1512.02325) in the Caffe that it came with.

Prior boxes are constants, for sizes are known; ``DetectionOutput`` becomes what is around ONNX's
``NonMaxSuppression``, and runs on the CPU.
"""

import math
from typing import Any

import numpy as np

from opendpu.frontend.caffe.registry import Call, handles
from opendpu.frontend.refusal import FaultError, Refusal
from opendpu.ir import Array

CENTER_SIZE, CORNER = 2, 1
NOTHING = -1.0
"""In all fields of rows without a detection, and the score of what is no candidate."""


@handles("Normalize")
def normalize(call: Call) -> str:
    """Divide by the length of the channels of a pixel, or of all values; times learned factors."""
    given, b, shape = call.layer.norm_param, call.b, call.shape
    axes = list(range(1, len(shape))) if given.across_spatial else [1]
    squares = b.node("ReduceSum", [b.node("Mul", [call.x, call.x]), b.integers(*axes)], keepdims=1)
    length = b.node("Sqrt", [b.node("Add", [squares, b.constant(np.float32(given.eps))])])
    count = 1 if given.channel_shared else shape[1]
    factors = call.constant(0, "factors", (1, count, *[1] * (len(shape) - 2)))
    return call.emit("Mul", b.node("Div", [call.x, length]), factors)


@handles("PriorBox")
def prior_box(call: Call) -> str:
    """Boxes of several shapes in every place of the first bottom, and their variances."""
    image = call.b.shape(call.inputs[1]) if len(call.inputs) > 1 else None
    if image is None:
        raise FaultError("it has no second bottom, the image")
    given = call.layer.prior_box_param
    rows, columns = call.shape[2:]
    height = given.img_h or given.img_size or image[2]
    width = given.img_w or given.img_size or image[3]
    down = given.step_h or given.step or height / rows
    across = given.step_w or given.step or width / columns
    y = ((np.arange(rows) + given.offset) * down)[:, None, None]
    x = ((np.arange(columns) + given.offset) * across)[None, :, None]
    w, h = (np.array(sides) / 2 for sides in zip(*_sides(given), strict=True))
    ends = np.broadcast_arrays((x - w) / width, (y - h) / height, (x + w) / width, (y + h) / height)
    boxes = np.stack(ends, -1).reshape(-1, 4)
    if given.clip:
        boxes = np.clip(boxes, 0, 1)
    variances = np.broadcast_to(np.array(list(given.variance) or [0.1]), boxes.shape)
    both = np.stack([boxes.ravel(), variances.ravel()])[None]
    return call.b.constant(both.astype(np.float32), call.name)


def _sides(given: Any) -> list[tuple[float, float]]:
    """Return width and height of the boxes of a place, in the order of their channels."""
    ratios: list[float] = []
    for ratio in given.aspect_ratio:
        if not any(math.isclose(ratio, known, abs_tol=1e-6) for known in (1.0, *ratios)):
            ratios += [ratio, 1 / ratio] if given.flip else [ratio]
    if not given.min_size or (given.max_size and len(given.max_size) != len(given.min_size)):
        raise FaultError("it needs sizes min_size, and max_size for each of them or for none")
    found = []
    for number, least in enumerate(given.min_size):
        found.append((least, least))
        if given.max_size:
            found.append((math.sqrt(least * given.max_size[number]),) * 2)
        found += [(least * math.sqrt(ratio), least / math.sqrt(ratio)) for ratio in ratios]
    return found


@handles("DetectionOutput")
def detection_output(call: Call) -> str:
    """Offsets, scores and prior boxes to rows ``[1, 1, K, 7]``: image, class, score, and ends.

    Rows are sorted by class, then by score. Caffe returns as many as there are; here there are
    always as many as there may be, those behind with -1 everywhere.
    """
    given, b = call.layer.detection_output_param, call.b
    if not given.share_location:
        raise Refusal("share_location: false is not supported")
    if given.nms_param.eta != 1:
        raise Refusal("eta other than 1 is not supported")
    boxes = _decoded(call, given)
    number, classes = b.shape(call.inputs[0])[1] // 4, given.num_classes  # type: ignore[index]
    labels = [n for n in range(classes) if n != given.background_label_id]
    each = min(number, given.nms_param.top_k if given.nms_param.top_k > 0 else number)
    most = each * len(labels)
    most = min(most, given.keep_top_k) if given.keep_top_k > 0 else most
    scores = _candidates(call, number, labels, each)
    kept = b.node(
        "NonMaxSuppression",
        [_upright(call, boxes), scores, b.integers(each),
         b.constant(np.array([given.nms_param.nms_threshold], np.float32)),
         b.constant(np.array([given.confidence_threshold], np.float32))],
    )  # fmt: skip
    column = [b.node("Gather", [kept, b.constant(np.array(i))], axis=1) for i in (1, 2)]
    class_, box = (_extended(call, name, np.zeros(most, np.int64)) for name in column)
    flat = b.node("Reshape", [scores, b.integers(len(labels), number)])
    score = _extended(
        call, b.node("GatherND", [flat, _side_by_side(call, column)]),
        np.full(most, NOTHING, np.float32),
    )  # fmt: skip
    best, place = b.nodes("TopK", [score, b.integers(most)], ["", ""])
    label = b.node("Gather", [b.constant(np.array(labels, np.float32)),
                              b.node("Gather", [class_, place])])  # fmt: skip
    there = b.node("Greater", [best, b.constant(np.float32(NOTHING))])
    nothing = b.constant(np.float32(NOTHING))
    label = b.node("Where", [there, label, b.constant(np.float32(classes))])  # the last ones
    key = b.node("Sub", [best, b.node("Mul", [label, b.constant(np.float32(2))])])
    _, order = b.nodes("TopK", [key, b.integers(most)], ["", ""])
    ends = b.node("Gather", [b.node("Reshape", [boxes, b.integers(-1, 4)]),
                             b.node("Gather", [box, place])])  # fmt: skip
    first = b.node("Mul", [best, b.constant(np.float32(0))])
    columns = [b.node("Unsqueeze", [name, b.integers(1)]) for name in (first, label, best)]
    rows = b.node("Concat", [*columns, ends], axis=1)
    real = b.node("Unsqueeze", [there, b.integers(1)])
    sorted_rows = b.node("Gather", [b.node("Where", [real, rows, nothing]), order], axis=0)
    return call.emit("Reshape", sorted_rows, b.integers(1, 1, most, 7))


def _decoded(call: Call, given: Any) -> str:
    """Return boxes ``[1, N, 4]`` by their ends: left, top, right, bottom."""
    b = call.b
    if len(call.inputs) < 3:
        raise FaultError("it needs offsets, scores and prior boxes")
    if call.shape[0] != 1:
        raise Refusal("it is for one image only")
    if given.code_type not in (CENTER_SIZE, CORNER):
        raise Refusal("code_type CORNER_SIZE is not supported")
    offsets = b.node("Reshape", [call.x, b.integers(1, -1, 4)])
    priors = b.node("Reshape", [call.inputs[2], b.integers(2, -1, 4)])
    prior, variance = (_slice(call, priors, i, i + 1, 0) for i in (0, 1))
    if not given.variance_encoded_in_target:
        offsets = b.node("Mul", [offsets, variance])
    if given.code_type == CORNER:
        return b.node("Add", [prior, offsets])
    low, high = _slice(call, prior, 0, 2, 2), _slice(call, prior, 2, 4, 2)
    size = b.node("Sub", [high, low])
    half = b.constant(np.float32(0.5))
    middle = b.node("Add", [low, b.node("Mul", [size, half])])
    centre = b.node("Add", [b.node("Mul", [_slice(call, offsets, 0, 2, 2), size]), middle])
    sides = b.node("Mul", [b.node("Exp", [_slice(call, offsets, 2, 4, 2)]), size])
    reach = b.node("Mul", [sides, half])
    ends = [b.node("Sub", [centre, reach]), b.node("Add", [centre, reach])]
    return b.node("Concat", ends, axis=2)


def _upright(call: Call, boxes: str) -> str:
    """Return boxes with nothing inside where ends are exchanged, which overlap with none."""
    low, high = _slice(call, boxes, 0, 2, 2), _slice(call, boxes, 2, 4, 2)
    return call.b.node("Concat", [low, call.b.node("Max", [low, high])], axis=2)


def _candidates(call: Call, number: int, labels: list[int], each: int) -> str:
    """Return scores ``[1, classes, N]``, those below the best ``each`` of their class -1."""
    b = call.b
    scores = b.node("Reshape", [call.inputs[1], b.integers(1, number, -1)])
    turned = b.node("Transpose", [scores], perm=[0, 2, 1])
    found = b.node("Gather", [turned, b.constant(np.array(labels))], axis=1)
    if each == number:
        return found
    best, _ = b.nodes("TopK", [found, b.integers(each)], ["", ""])
    least = _slice(call, best, each - 1, each, 2)
    inside = b.node("GreaterOrEqual", [found, least])
    return b.node("Where", [inside, found, b.constant(np.float32(NOTHING))])


def _slice(call: Call, name: str, start: int, end: int, axis: int) -> str:
    b = call.b
    return b.node("Slice", [name, b.integers(start), b.integers(end), b.integers(axis)])


def _extended(call: Call, values: str, filling: Array) -> str:
    return call.b.node("Concat", [values, call.b.constant(filling)], axis=0)


def _side_by_side(call: Call, columns: list[str]) -> str:
    made = [call.b.node("Unsqueeze", [name, call.b.integers(1)]) for name in columns]
    return call.b.node("Concat", made, axis=1)
