# SPDX-License-Identifier: Apache-2.0
"""What detectors of TensorFlow's object detection end with: boxes out of offsets, the best kept."""

import numpy as np
from onnx import TensorProto

from opendpu.frontend.channels_last.axes import known_shape
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.tflite.registry import Call, handles

_SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")


@handles("CUSTOM 'TFLite_Detection_PostProcess'")
def post_process(call: Call) -> list[str]:
    """Offsets ``[1, N, 4]``, scores ``[1, N, classes]`` and anchors ``[N, 4]`` to at most so many
    boxes, classes, scores and their number.

    Boxes are kept by class with ``use_regular_nms``, otherwise anchors have their best class only.
    A first class more than ``num_classes`` is the background.
    """
    given = call.flexible_options(
        "max_detections", "num_classes", "nms_score_threshold", "nms_iou_threshold", *_SCALES
    )
    each = int(given.get("max_classes_per_detection", 1))
    if each != 1:
        raise Refusal(f"max_classes_per_detection is {each}, but must be 1")
    b, most = call.b, int(given["max_detections"])
    overlap, lowest = given["nms_iou_threshold"], given["nms_score_threshold"]
    boxes = _decoded(call, np.array([given[name] for name in _SCALES], np.float32))
    by_class = bool(given.get("use_regular_nms", False))
    scores, classes = _scores(call, int(given["num_classes"]), by_class=by_class)
    number = int(given.get("detections_per_class", 100)) if by_class else most
    kept = b.node(
        "NonMaxSuppression",
        [boxes, scores, b.integers(number), b.constant(np.array([overlap], np.float32)),
         b.constant(np.nextafter(np.array([lowest], np.float32), np.float32(-np.inf)))],
    )  # fmt: skip
    # batch, class, anchor; as many rows as wanted at least, those behind with no score
    column = [b.node("Gather", [kept, b.constant(np.array(i))], axis=1) for i in range(3)]
    anchor = _extended(call, column[2], np.zeros(most, np.int64))
    if by_class:
        class_ = _extended(call, column[1], np.zeros(most, np.int64))
    else:
        class_ = b.node("Gather", [classes, anchor], axis=0)
    flat = b.node("Reshape", [scores, b.integers(*known_shape(b, scores)[1:])])
    places = b.node("Concat", [_as_column(call, column[1]), _as_column(call, column[2])], axis=1)
    score = _extended(call, b.node("GatherND", [flat, places]), np.full(most, -1, np.float32))
    best, order = b.nodes("TopK", [score, b.integers(most)], ["", ""])
    there = b.node("GreaterOrEqual", [best, b.constant(np.float32(0))])
    mask = b.node("Cast", [there], to=TensorProto.FLOAT)
    picked = b.node("Gather", [b.node("Reshape", [boxes, b.integers(-1, 4)]),
                               b.node("Gather", [anchor, order])])  # fmt: skip
    numbers = b.node("Cast", [b.node("Gather", [class_, order])], to=TensorProto.FLOAT)
    return [
        _result(call, 0, b.node("Mul", [picked, _as_column(call, mask)]), (1, most, 4)),
        _result(call, 1, b.node("Mul", [numbers, mask]), (1, most)),
        _result(call, 2, b.node("Mul", [best, mask]), (1, most)),
        _result(call, 3, b.node("ReduceSum", [mask], keepdims=1), (1,)),
    ]


def _decoded(call: Call, scales: np.ndarray) -> str:
    """Return boxes ``[1, N, 4]`` by their ends: top, left, bottom, right."""
    b, anchors = call.b, call.constant(2, "anchors").astype(np.float32)
    if known_shape(b, call.x)[0] != 1:
        raise Refusal("it is for one image only")
    offsets = b.node("Div", [call.x, b.constant(scales)])
    centre, size = (
        b.node("Slice", [offsets, b.integers(first), b.integers(first + 2), b.integers(2)])
        for first in (0, 2)
    )
    middle = b.node(
        "Add", [b.node("Mul", [centre, b.constant(anchors[:, 2:])]), b.constant(anchors[:, :2])]
    )
    half = b.node("Mul", [b.node("Exp", [size]), b.constant(anchors[:, 2:] / 2)])
    ends = [b.node("Sub", [middle, half]), b.node("Add", [middle, half])]
    return b.node("Concat", ends, axis=2)


def _scores(call: Call, count: int, *, by_class: bool) -> tuple[str, str]:
    """Return scores ``[1, classes, N]``, and every anchor's best class; one class without them."""
    b = call.b
    background = known_shape(b, call.input(1))[2] - count
    found = b.node(
        "Slice", [call.input(1), b.integers(background), b.integers(background + count),
                  b.integers(2)],
    )  # fmt: skip
    turned = b.node("Transpose", [found], perm=[0, 2, 1])
    best = b.node("ArgMax", [b.node("Squeeze", [turned, b.integers(0)])], axis=0, keepdims=0)
    if by_class:
        return turned, best
    return b.node("ReduceMax", [turned], axes=[1], keepdims=1), best


def _extended(call: Call, values: str, filling: np.ndarray) -> str:
    return call.b.node("Concat", [values, call.b.constant(filling)], axis=0)


def _as_column(call: Call, values: str) -> str:
    return call.b.node("Unsqueeze", [values, call.b.integers(1)])


def _result(call: Call, number: int, value: str, shape: tuple[int, ...]) -> str:
    return call.b.node("Reshape", [value, call.b.integers(*shape)], call.names[number])
