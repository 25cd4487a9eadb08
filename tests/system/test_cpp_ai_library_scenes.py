# SPDX-License-Identifier: Apache-2.0
"""Tasks of the AI Library in C++ for crowds, distances, products, medicine, objects."""

import pathlib
import sys

import numpy as np
import pytest

import xir
from opendpu.runtime import Runner
from opendpu.runtime.program import dpu_subgraphs

sys.path.append(str(pathlib.Path(__file__).parent))

import ai_library
from ai_library import (
    CONF,
    HEIGHT,
    MEAN,
    NMS,
    SCALE,
    WIDTH,
    numbers,
    per_class,
    prepared,
    remaining,
    results,
    run,
    same,
    sigmoid,
    softmax,
    told,
)

SOURCE = pathlib.Path(__file__).with_name("cpp") / "scenes.cpp"
CLASSES = 3
STRIDES = (8, 16)
HEADS = {
    "density": (1, 8),
    "near": (1, 4),
    "product": (7, 0),
    "sick": (2, 4),
    "kind": (3, 4),
    "offset": (2, 4),
    "person": (1, 4),
    "extent": (2, 4),
    "identity": (8, 4),
    **{f"sides{stride}": (4, stride) for stride in STRIDES},
    **{f"middle{stride}": (1, stride) for stride in STRIDES},
    **{f"label{stride}": (CLASSES, stride) for stride in STRIDES},
    "object": (8, 8),
    "first": (16, 8),
    "lesion": (4 * CLASSES, 8),
    "second": (16, 8),
    **{f"many{stride}": (9 * CLASSES, stride) for stride in STRIDES},
    **{f"place{stride}": (36, stride) for stride in STRIDES},
}
"""Outputs: parts of the networks that the tasks are for."""

pytestmark = [pytest.mark.system, pytest.mark.slow]


def drawn(folder: pathlib.Path, height: int) -> tuple[pathlib.Path, np.ndarray]:
    """Return a picture as wide as the input."""
    return ai_library.noise(folder, (height, WIDTH))


def only(xmodel: pathlib.Path, folder: pathlib.Path, head: str, text: str) -> pathlib.Path:
    """Return a model that has one of the outputs, as tasks without a name for theirs have it."""
    path = folder / f"{head}.xmodel"
    ai_library.compiled({head: HEADS[head]}, path)
    return prepared(path, folder, text)


def test_persons_of_a_crowd_are_counted_where_the_image_is(program, xmodel, tmp_path):
    net = only(xmodel, tmp_path, "density", "order_type: RGB")
    path, pixels = drawn(tmp_path, 24)

    def elements(runner: Runner) -> np.ndarray:
        (tensor,) = runner.get_input_tensors()
        factor = SCALE * np.float32(2.0 ** tensor.get_attr("fix_point"))
        reals = pixels * factor - MEAN * factor
        made = np.zeros((1, HEIGHT, WIDTH, 3), np.int8)
        made[0, :24] = np.trunc(reals + np.copysign(0.5, reals)).astype(int)[..., ::-1]
        return made

    density = ai_library.results_of(net, elements, {"density": None})["density"]
    assert np.abs(density[3:]).sum() > 1, "nobody is below the image"
    expected = int(np.abs(density[:3]).sum())
    assert expected > 1
    assert told(program, "bcc", net, path) == [str(expected)]


def test_class_of_a_product(program, xmodel, picture, tmp_path):
    net = only(xmodel, tmp_path, "product", "order_type: RGB")
    values = results(net, picture[1], {"product": None}, rgb=True)["product"]
    assert told(program, "pmg", net, picture[0]) == [str(values.ravel().argmax())]


def test_distances(program, xmodel, picture, tmp_path):
    net = only(xmodel, tmp_path, "near", "order_type: RGB")
    values = results(net, picture[1], {"near": None}, rgb=True)["near"][..., 0]
    lines = told(program, "depth", net, picture[0])
    np.testing.assert_allclose(numbers(lines), 9.99 * values + 0.01, rtol=1e-5, atol=1e-6)


def test_cells_and_polyps(program, xmodel, picture, tmp_path):
    """What is no probability yet becomes one, but cells need none."""
    net = only(xmodel, tmp_path, "near", "order_type: RGB")
    values = results(net, picture[1], {"near": None}, rgb=True)["near"][..., 0]
    (dpu,) = dpu_subgraphs(xir.Graph.deserialize(net))
    with Runner(dpu, device="ref") as runner:
        (tensor,) = runner.get_output_tensors()
        assert tensor.get_attr("fix_point") < 6, "its values are no probabilities"
    lines = told(program, "cells", net, picture[0])
    np.testing.assert_array_equal(numbers(lines), np.where(values > 0, 255, 0))
    lines = numbers(told(program, "polyps", net, picture[0]))
    assert lines.shape == (HEIGHT, WIDTH)
    sure = np.trunc(255 * sigmoid(values))
    # Four times as many pixels: the middle two of four are an eighth from a value's place.
    mixed = np.pad(sure, 1, mode="edge")
    for dy, dx in (1, 1), (1, 2), (2, 1), (2, 2):
        y, x = (0.875 if d in (1, 2) else 0.625 for d in (dy, dx))
        up, left = (-1 if d == 1 else 1 for d in (dy, dx))
        shift = (
            np.roll(mixed, -up, 0),
            np.roll(mixed, -left, 1),
            np.roll(mixed, (-up, -left), (0, 1)),
        )
        blend = y * x * mixed + (1 - y) * x * shift[0] + y * (1 - x) * shift[1]
        blend += (1 - y) * (1 - x) * shift[2]
        assert np.abs(lines[dy::4, dx::4] - blend[1:-1, 1:-1]).max() <= 1


def test_lungs(program, xmodel, picture, tmp_path):
    colours = 'segmentation_param { color1: "0 10 20" color2: "30 40 50" color3: "60 70 80" }'
    names = 'platenum_param { output_tensor_name: "sick" output_tensor_name: "kind" }'
    net = prepared(xmodel, tmp_path, f"order_type: RGB {names} {colours}")
    named = results(xmodel, picture[1], HEADS, rgb=True)
    classes = np.concatenate([named[name].argmax(-1) for name in ("sick", "kind")])
    np.testing.assert_array_equal(numbers(told(program, "lungs", net, picture[0])), classes)
    expected = np.stack([10 * classes, 30 + 10 * classes, 60 + 10 * classes], -1)
    lines = numbers(told(program, "colours", net, picture[0]))
    np.testing.assert_array_equal(lines, expected.reshape(len(classes), -1))


def test_two_outputs_are_needed_for_lungs(program, xmodel, picture, tmp_path):
    net = prepared(xmodel, tmp_path, 'platenum_param { output_tensor_name: "sick" }')
    done = run(program, "lungs", net, picture[0], check=False)
    assert done.returncode != 0
    assert "platenum_param has 1 output_tensor_name, but must have two" in done.stderr


@pytest.mark.parametrize("height", [HEIGHT, 12])
def test_persons_and_their_features(program, xmodel, tmp_path, height):
    path, pixels = drawn(tmp_path, height)
    layers = " ".join(f'layer_name: "{n}"' for n in ("offset", "person", "extent", "identity"))
    text = f"fair_mot_param {{ conf_threshold: {CONF} nms_threshold: {NMS} {layers} }}"
    net = prepared(xmodel, tmp_path, text)
    within = np.full((HEIGHT, WIDTH, 3), 128, np.uint8)
    within[:height] = pixels
    named = results(xmodel, within, HEADS, rgb=True)
    score = sigmoid(named["person"][..., 0])
    row, column = np.nonzero(score >= CONF)
    centre = (np.stack([column, row], 1) + named["offset"][row, column]) * 4 / (WIDTH, height)
    extent = named["extent"][row, column] * 4 / (WIDTH, height)
    corners = np.concatenate([centre - extent / 2, centre + extent / 2], 1)
    kept = remaining(corners, score[row, column])
    assert len(kept) >= 3
    expected = []
    for i in kept:
        features = named["identity"][row[i], column[i]]
        expected.append([1, score[row[i], column[i]], *corners[i, :2], *extent[i]])
        expected.append(features / np.linalg.norm(features))
    for line, wanted in zip(told(program, "fairmot", net, path), expected, strict=True):
        np.testing.assert_allclose(numbers([line])[0], wanted, rtol=1e-4, atol=1e-5)


def test_fcos(program, xmodel, tmp_path, picture):
    text = f"fcos_param {{ pre_nms_thresh: {CONF} pre_nms_top_n: 9 nms_threshold: {NMS} "
    text += f"fpn_post_nms_top_n: 12 num_classes: {CLASSES} "
    for stride in STRIDES:
        text += f'stride: {stride} cls_layer_name: "label{stride}" '
        text += f'offset_layer_name: "sides{stride}" center_layer_name: "middle{stride}" '
    net = prepared(xmodel, tmp_path, text + "}")
    named = results(xmodel, picture[1], HEADS, rgb=False)
    step = ai_library.steps(xmodel, HEADS)
    boxes, scores, labels = [], [], []
    for stride in STRIDES:
        label = named[f"label{stride}"]
        least = np.trunc(-np.log(1 / CONF - 1) / step[f"label{stride}"]) * step[f"label{stride}"]
        row, column, number = np.nonzero(label > least)
        score = sigmoid(label) * sigmoid(named[f"middle{stride}"])
        score = np.sqrt(score[row, column, number])
        best = np.argsort(-score, kind="stable")[:9]
        row, column, number, score = row[best], column[best], number[best], score[best]
        place = np.stack([column, row], 1) * stride + stride // 2
        sides = named[f"sides{stride}"][row, column] * stride
        low = np.clip(place - sides[:, :2], 0, (WIDTH - 1, HEIGHT - 1))
        high = np.clip(place + sides[:, 2:], 0, (WIDTH - 1, HEIGHT - 1)) + 1
        seen = (high >= low).all(1)
        boxes.append(np.concatenate([low, high], 1)[seen])
        scores.append(score[seen])
        labels.append(number[seen])
    box, score, label = map(np.concatenate, (boxes, scores, labels))
    expected = []
    for number in range(CLASSES):
        (chosen,) = np.nonzero(label == number)
        kept = chosen[remaining(box[chosen], score[chosen])]
        expected += [(number, score[k], *box[k]) for k in kept]
    expected = sorted(expected, key=lambda one: -one[1])[:12]
    lines = numbers(run(program, "fcos", net, picture[0]).stdout.splitlines())
    assert (np.diff(lines[:, 1]) <= 0).all()
    same(lines.tolist(), expected)


def test_lesions(program, xmodel, picture, tmp_path):
    rows, columns = HEIGHT // 8, WIDTH // 8
    text = "medical_refine_det_param { medical_prior_box_param { "
    text += f"input_shape: {HEIGHT} input_shape: {WIDTH} offset: 0.5 steps: 8 steps: 8 "
    text += f"feature_shapes: {rows} feature_shapes: {columns} min_sizes: 9 max_sizes: 16 "
    text += f"aspect_ratios: 2 }} num_classes: {CLASSES - 1} nms_threshold: {NMS} "
    text += f"conf_threshold: {CONF} keep_top_k: 8 top_k: 30 scale_xy: 0.1 scale_wh: 0.2 "
    kinds = {"ARM_CONF": "object", "ARM_LOC": "first", "ODM_CONF": "lesion", "ODM_LOC": "second"}
    text += "".join(f'output_info {{ type: {t} name: "{n}" }} ' for t, n in kinds.items())
    net = prepared(xmodel, tmp_path, text + "}")
    named = results(xmodel, picture[1], HEADS, rgb=False)
    row, column, shape = np.mgrid[:rows, :columns, :4].reshape(3, -1)
    root = np.sqrt(2)
    sizes = np.array([[9, 9], [12, 12], [9 * root, 9 / root], [9 / root, 9 * root]])
    size = sizes[shape] / (WIDTH, HEIGHT)
    centre = np.stack([(column + 0.5) / columns, (row + 0.5) / rows], 1)
    for name in "first", "second":
        code = named[name].reshape(-1, 4)
        centre = centre + 0.1 * code[:, :2] * size
        size = size * np.exp(0.2 * code[:, 2:])
    scores = softmax(named["lesion"].reshape(-1, CLASSES))
    scores[softmax(named["object"].reshape(-1, 2))[:, 1] <= 0.01] = 0
    scores[:, 0] = 0
    expected = per_class(np.concatenate([centre, size], 1), scores)
    expected = sorted(expected, key=lambda one: -one[1])[:8]
    lines = numbers(told(program, "lesions", net, picture[0]))
    assert (np.diff(lines[:, 1]) <= 0).all()
    same(lines.tolist(), expected)


def test_what_does_not_fit_lesions(program, xmodel, picture, tmp_path):
    text = "medical_refine_det_param { medical_prior_box_param { input_shape: 32 min_sizes: 9 } }"
    done = run(program, "lesions", prepared(xmodel, tmp_path, text), picture[0], check=False)
    assert done.returncode != 0
    assert "medical_prior_box_param must have two input_shape" in done.stderr


def test_retinanet(program, picture, tmp_path):
    """Corners are compared as if they were centres and sizes, as in AMD's library."""
    heads = {name: HEADS[name] for name in HEADS if name.startswith(("many", "place"))}
    path = ai_library.compiled(heads, tmp_path / "retina.xmodel")
    text = f"retinanet_param {{ conf_threshold: {CONF} nms_threshold: {NMS} top_k: 20 "
    net = prepared(path, tmp_path, text + "box_threshold: 3 }")
    named = results(path, picture[1], heads, rgb=True)
    boxes, scores, labels = [], [], []
    for level, stride in enumerate(STRIDES):
        rows, columns = HEIGHT // stride, WIDTH // stride
        row, column, ratio, scale = np.mgrid[:rows, :columns, :3, :3].reshape(4, -1)
        side = 32 * 2.0**level * 2 ** (scale / 3)
        root = np.sqrt(np.array([0.5, 1, 2])[ratio])
        shape = np.stack([side / root, side * root], 1)
        code = named[f"place{stride}"].reshape(-1, 4)
        centre = np.stack([column, row], 1) * stride + code[:, :2] * shape
        extent = np.exp(code[:, 2:]) * shape
        limits = (WIDTH, HEIGHT) * 2
        box = np.concatenate([centre - extent / 2, centre + extent / 2], 1).clip(0, limits)
        score = sigmoid(named[f"many{stride}"].reshape(-1, CLASSES))
        anchor, label = np.nonzero(score >= CONF)
        best = np.argsort(-score[anchor, label], kind="stable")[:20]
        anchor, label = anchor[best], label[best]
        seen = (box[anchor, 2:] - box[anchor, :2] >= 3).all(1)
        boxes.append(box[anchor[seen]])
        scores.append(score[anchor[seen], label[seen]])
        labels.append(label[seen])
    box, score, label = map(np.concatenate, (boxes, scores, labels))
    taken = np.concatenate([box[:, :2] - box[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2], 1)
    expected = []
    for number in range(CLASSES):
        (chosen,) = np.nonzero(label == number)
        kept = chosen[remaining(taken[chosen], score[chosen])]
        expected += [(number, score[k], *box[k]) for k in kept]
    lines = numbers(run(program, "retinanet", net, picture[0]).stdout.splitlines())
    assert (np.diff(lines[:, 1]) <= 0).all()
    same(lines.tolist(), expected)
