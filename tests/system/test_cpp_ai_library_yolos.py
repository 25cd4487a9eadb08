# SPDX-License-Identifier: Apache-2.0
"""YOLOs of the AI Library in C++, against NumPy's on the same outputs."""

import pathlib
import sys

import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).parent))

import ai_library
from ai_library import (
    CONF,
    HEIGHT,
    NMS,
    WIDTH,
    numbers,
    prepared,
    remaining,
    results,
    run,
    same,
    sigmoid,
    softmax,
    told,
)

SOURCE = pathlib.Path(__file__).with_name("cpp") / "detectors.cpp"
CLASSES = 3
HEADS = {  # channels and stride
    "fine": (64 + CLASSES, 8),
    "coarse": (64 + CLASSES, 16),
    "box6": (4, 8),
    "cls6": (CLASSES, 8),
    "seven8": (3 * (5 + CLASSES), 8),
    "seven16": (3 * (5 + CLASSES), 16),
}
"""Outputs: parts of the networks that the tasks are for."""

pytestmark = [pytest.mark.system, pytest.mark.slow]


def small_picture(folder: pathlib.Path, width: int, height: int) -> tuple[pathlib.Path, np.ndarray]:
    """Return a picture of one colour, and the colour."""
    colour = np.array([250, 20, 60], np.uint8)
    path = folder / "small.ppm"
    path.write_bytes(b"P6 %d %d 255\n" % (width, height) + bytes(colour[::-1]) * width * height)
    return path, colour


@pytest.mark.parametrize("whole_graph", [False, True])
def test_yolov6(program, xmodel, tmp_path, whole_graph):
    """The picture's longer side is six pixels shorter than the input's.

    A whole graph has the CPU's projection and sigmoid behind it: distances side by side, scores.
    """
    path, colour = small_picture(tmp_path, 21, 13)  # twice as large in the input
    text = f"model_type: YOLOv6 yolo_v6_param {{ num_classes: {CLASSES} conf_threshold: {CONF} "
    text += f"nms_threshold: {NMS} max_nms_num: 15 anchorCnt: 1 stride: 8 "
    text += "" if whole_graph else "without_dfl: true "
    text = ("use_graph_runner: true " if whole_graph else "") + text
    net = prepared(xmodel, tmp_path, text + 'bbox_layer_name: "box6" cls_layer_name: "cls6" }')
    fitted = np.full((HEIGHT, WIDTH, 3), 114, np.uint8)
    fitted[3:29, 3:45] = colour
    named = results(xmodel, fitted, HEADS, rgb=True)
    height, width, _ = named["cls6"].shape
    rows, columns = np.mgrid[:height, :width].reshape(2, -1)
    middle, sides = np.stack([columns, rows], 1) + 0.5, named["box6"].reshape(-1, 4)
    if whole_graph:
        sides = named["box6"].reshape(4, -1).T
    corners = np.concatenate([middle - sides[:, :2], middle + sides[:, 2:]], 1) * 8
    values = named["cls6"].reshape(-1, CLASSES)
    label = CLASSES - 1 - values[:, ::-1].argmax(1)
    score = values.max(1) if whole_graph else sigmoid(values.max(1))
    # The library compares boxes as if their corners were their centres.
    seen = corners - np.tile((corners[:, 2:] - corners[:, :2]) / 2, 2)
    expected = []
    for number in range(CLASSES):
        (chosen,) = np.nonzero((label == number) & (score > CONF))
        for i in remaining(seen[chosen], score[chosen]):
            expected.append((number, score[chosen[i]], *(corners[chosen[i]] - 3) / 2))
    expected = sorted(expected, key=lambda row: -row[1])[:15]
    same(numbers(run(program, "yolov6", net, path).stdout.splitlines()).tolist(), expected)


BIASES = np.reshape([8, 12, 20, 10, 24, 30, 40, 20, 12, 12, 30, 16], (2, 3, 2))


def of_anchors(maps: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return objectness, corners (shares of the input) and scores of boxes as YOLOv5 has them."""
    sure, boxes, scores = [], [], []
    for number, values in enumerate(maps):
        height, width, _ = values.shape
        rows, columns, anchors = np.mgrid[:height, :width, :3].reshape(3, -1)
        fields = values.reshape(-1, 5 + CLASSES)
        centre = 2 * sigmoid(fields[:, :2]) - 0.5 + np.stack([columns, rows], 1)
        size = (2 * sigmoid(fields[:, 2:4])) ** 2 * BIASES[number][anchors] / (WIDTH, HEIGHT)
        centre = centre / (width, height)
        boxes.append(np.concatenate([centre - size / 2, centre + size / 2], 1))
        sure.append(fields[:, 4])
        scores.append(sigmoid(fields[:, 4:5]) * sigmoid(fields[:, 5:]))
    return np.concatenate(sure), np.concatenate(boxes), np.concatenate(scores)


def test_yolov7(program, xmodel, tmp_path):
    """A picture half as wide fills the middle of the input, and boxes are shares of the picture."""
    path, colour = small_picture(tmp_path, 24, 32)
    biases = " ".join(f"biases: {bias}" for bias in BIASES.ravel())
    text = (
        f"model_type: YOLOv7 yolo_v7_param {{ num_classes: {CLASSES} conf_thresh: {CONF} {biases}"
    )
    text += f' nms_threshold: {NMS} detect_layer_name: "seven8" detect_layer_name: "seven16" }}'
    net = prepared(xmodel, tmp_path, text)
    fitted = np.full((HEIGHT, WIDTH, 3), 114, np.uint8)
    fitted[:, 12:36] = colour
    named = results(xmodel, fitted, HEADS, rgb=True)
    steps = ai_library.steps(xmodel, HEADS)
    maps = [named["seven8"], named["seven16"]]
    sure, box, score = of_anchors(maps)
    counts = []
    for name in ("seven8", "seven16"):
        lowest = np.trunc(-np.log(1 / CONF - 1) / steps[name]) * steps[name]
        counts.append(np.full(named[name].size // (5 + CLASSES), lowest))
    box = (box - (0.25, 0, 0.25, 0)) * (2, 1, 2, 1)
    expected = []
    for number in range(CLASSES):
        (chosen,) = np.nonzero((sure > np.concatenate(counts)) & (score[:, number] > CONF))
        for i in remaining(box[chosen], score[chosen, number]):
            k = chosen[i]
            expected.append((number, score[k, number], *box[k, :2], *(box[k, 2:] - box[k, :2])))
    same(numbers(told(program, "yolov7", net, path)).tolist(), expected)


def test_yolov4_is_yolov3(program, xmodel, picture, tmp_path):
    biases = " ".join(f"biases: {bias}" for bias in BIASES[:1].ravel())
    text = f"model_type: YOLOv3 yolo_v3_param {{ num_classes: {CLASSES} conf_threshold: {CONF} "
    text += f"anchorCnt: 3 nms_threshold: {NMS} {biases} type: YOLOV4_CSP "
    net = prepared(xmodel, tmp_path, text + 'layer_name: "seven8" }')
    sure, box, score = of_anchors([results(xmodel, picture[1], HEADS, rgb=True)["seven8"]])
    expected = []
    for number in range(CLASSES):
        (chosen,) = np.nonzero((sigmoid(sure) >= CONF) & (score[:, number] >= CONF))
        for i in remaining(box[chosen], score[chosen, number]):
            k = chosen[i]
            expected.append((number, score[k, number], *box[k, :2], *(box[k, 2:] - box[k, :2])))
    same(numbers(told(program, "yolov4", net, picture[0])).tolist(), expected)


def test_yolov8(program, xmodel, tmp_path):
    """A smaller picture is not enlarged; it has grey around it."""
    colour = np.array([250, 20, 60], np.uint8)
    path = tmp_path / "small.ppm"
    path.write_bytes(b"P6 13 16 255\n" + np.tile(colour[::-1], 13 * 16).tobytes())
    text = f"model_type: YOLOv8 yolo_v8_param {{ num_classes: {CLASSES} conf_thresh: {CONF} "
    text += f"nms_threshold: {NMS} max_boxes_num: 40 max_nms_num: 15 stride: 8 stride: 16 "
    net = prepared(
        xmodel, tmp_path, text + 'detect_layer_name: "fine" detect_layer_name: "coarse"}'
    )
    fitted = np.full((HEIGHT, WIDTH, 3), 114, np.uint8)
    fitted[8:24, 17:30] = colour
    named = results(xmodel, fitted, HEADS, rgb=True)
    places, scores, labels = [], [], []
    for name, stride in ("fine", 8), ("coarse", 16):
        height, width, _ = named[name].shape
        fields = named[name].reshape(-1, 64 + CLASSES)
        rows, columns = np.mgrid[:height, :width].reshape(2, -1)
        middle = np.stack([columns, rows], 1) + 0.5
        sides = softmax(fields[:, :64].reshape(-1, 4, 16)) @ np.arange(16)
        corners = np.concatenate([middle - sides[:, :2], middle + sides[:, 2:]], 1) * stride
        step = ai_library.steps(xmodel, HEADS)[name]
        lowest = np.trunc(-np.log(1 / CONF - 1) / step) * step
        cell, label = np.nonzero(fields[:, 64:] > lowest)
        places.append(corners[cell])
        scores.append(sigmoid(fields[cell, 64 + label]))
        labels.append(label)
    box, score, label = map(np.concatenate, (places, scores, labels))
    order = np.argsort(-score, kind="stable")[:40]
    expected = []
    for number in range(CLASSES):
        chosen = order[label[order] == number]
        for i in remaining(box[chosen], score[chosen]):
            k = chosen[i]
            expected.append((number, score[k], *(box[k] - (17, 8, 17, 8))))
    expected = sorted(expected, key=lambda row: -row[1])[:15]
    seen = numbers(run(program, "yolov8", net, path).stdout.splitlines())
    assert (np.diff(seen[:, 1]) <= 0).all()
    same(seen.tolist(), expected)


def test_what_is_refused(program, xmodel, picture, tmp_path):
    def refusal(kind: str, text: str) -> str:
        done = run(program, kind, prepared(xmodel, tmp_path, text), picture[0], check=False)
        assert done.returncode == 3
        return done.stderr

    text = f'yolo_v8_param {{ num_classes: {CLASSES} detect_layer_name: "fine" }}'
    assert "there are 0 strides, but 1 outputs" in refusal("yolov8", text)
    text = 'yolo_v8_param { num_classes: 7 stride: 8 detect_layer_name: "fine" }'
    assert "has 67 channels, but boxes have 64 and num_classes is 7" in refusal("yolov8", text)
    assert "yolo_v6_param has no without_dfl" in refusal("yolov6", "")
    message = refusal("yolov6", "yolo_v6_param { without_dfl: true num_classes: 1 }")
    assert "yolo_v6_param has 0 bbox_layer_name, 0 cls_layer_name and 0 stride" in message
    text = f'yolo_v7_param {{ num_classes: {CLASSES} detect_layer_name: "seven8" }}'
    assert "there are 0 biases, but must be 6" in refusal("yolov7", text)
    for kind, text in (
        ("yolov7", "yolo_v7_param { num_classes: -4 biases: [1, 1, 1, 1, 1, 1]"),
        ("yolov8", "yolo_v8_param { num_classes: -4 stride: 8"),
    ):
        message = refusal(kind, f'{text} detect_layer_name: "seven8" }}')
        assert "num_classes is -4, but must be at least 1" in message
