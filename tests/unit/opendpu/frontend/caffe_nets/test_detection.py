# SPDX-License-Identifier: Apache-2.0
"""Detectors of Caffe (SSD): prior boxes, and what is made of them, against their definitions."""

import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu import api
from opendpu.frontend.caffe import load_caffe
from opendpu.quantize import quantize
from opendpu_arch.errors import ModelFormatError, UnsupportedError

sys.path.append(str(Path(__file__).parent))
from caffe_files import layer, run, written

VARIANCES = (0.1, 0.1, 0.2, 0.2)
PRIORS = (
    "prior_box_param { min_size: 8 max_size: 12 aspect_ratio: 1 aspect_ratio: 2 %s "
    + " ".join(f"variance: {v}" for v in VARIANCES)
    + " }"
)
IMAGE, MAP, CLASSES = 24, 3, 3
STEP = IMAGE // MAP
CLEAR = 3e-6
"""What decisions must be away from being others: more than float32 rounds."""
EACH = 4
"""Boxes in a place: the least, the one between both sizes, and ratio 2 both ways."""


@pytest.fixture
def x(rng):
    return rng.standard_normal((1, 4, 7, 6)).astype(np.float32)


def detector(rng, folder, parameters, extra=""):
    """Write an SSD with one map; return its path."""
    sizes = f"num_output: 8 kernel_size: {STEP} stride: {STEP}"
    text = layer("Convolution", f"convolution_param {{ {sizes} }}", tops=["map"], name="map")
    weights = {"map": [rng.standard_normal((8, 3, STEP, STEP)) / 14, rng.standard_normal(8)]}
    for name, size in (("loc", 4), ("conf", CLASSES)):
        count = EACH * size
        text += layer("Convolution", f"convolution_param {{ num_output: {count} kernel_size: 1 }}",
                      ["map"], [name], name)  # fmt: skip
        weights[name] = [rng.standard_normal((count, 8, 1, 1)) / 3, rng.standard_normal(count)]
        text += layer("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", [name],
                      [f"{name}_turned"], f"{name}_turned")  # fmt: skip
        text += layer("Flatten", "", [f"{name}_turned"], [f"{name}_flat"], f"{name}_flat")
    shape = f"reshape_param {{ shape {{ dim: 0 dim: -1 dim: {CLASSES} }} }}"
    text += layer("Reshape", shape, ["conf_flat"], ["conf_rows"], "conf_rows")
    text += layer("Softmax", "softmax_param { axis: 2 }", ["conf_rows"], ["scores"], "scores")
    text += layer("Flatten", "", ["scores"], ["scores_flat"], "scores_flat")
    text += layer("PriorBox", PRIORS % extra, ["map", "data"], ["priors"], "priors")
    text += layer("DetectionOutput", f"detection_output_param {{ num_classes: {CLASSES} "
                  f"{parameters} }}", ["loc_flat", "scores_flat", "priors"], ["found"],
                  "found")  # fmt: skip
    return written(folder, text, weights, (1, 3, IMAGE, IMAGE)), weights


def priors():
    """Return the boxes of the map, by their definition."""
    found = []
    sides = [(8, 8), (np.sqrt(96),) * 2, (8 * np.sqrt(2), 8 / np.sqrt(2))]
    sides.append(sides[-1][::-1])
    for row in range(MAP):
        for column in range(MAP):
            x, y = (column + 0.5) * STEP, (row + 0.5) * STEP
            found += [[x - w / 2, y - h / 2, x + w / 2, y + h / 2] for w, h in sides]
    return np.array(found) / IMAGE


def overlap(one, other):
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    both = np.prod(np.maximum(sides, 0))
    return both / (np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2]) - both)


def detections(x, weights, threshold, top, keep, limit, code):
    """Return rows of image, class, score and ends, as Caffe computes them, and how clearly.

    The latter is the least distance of scores from each other and the threshold, and of overlaps
    from the limit: what rounding may change.
    """
    blocks = x[0].reshape(3, MAP, STEP, MAP, STEP)
    maps = np.einsum("crhsw,ochw->rso", blocks, weights["map"][0]) + weights["map"][1]
    loc = (maps @ weights["loc"][0][:, :, 0, 0].T + weights["loc"][1]).reshape(-1, 4)
    conf = (maps @ weights["conf"][0][:, :, 0, 0].T + weights["conf"][1]).reshape(-1, CLASSES)
    scores = np.exp(conf - conf.max(1, keepdims=True))
    scores /= scores.sum(1, keepdims=True)
    prior = priors()
    size, middle = prior[:, 2:] - prior[:, :2], (prior[:, 2:] + prior[:, :2]) / 2
    centre = loc[:, :2] * VARIANCES[:2] * size + middle
    sides = np.exp(loc[:, 2:] * VARIANCES[2:]) * size
    boxes = np.hstack([centre - sides / 2, centre + sides / 2])
    if code == "CORNER":
        boxes = prior + loc * VARIANCES
    rows = []
    every = np.sort([*scores[:, 1:].ravel(), threshold])
    overlaps = [overlap(one, other) for one in boxes for other in boxes]
    clear = min(np.diff(every).min(), np.abs(np.array(overlaps) - limit).min())
    for label in range(1, CLASSES):
        order = [i for i in np.argsort(-scores[:, label]) if scores[i, label] > threshold][:top]
        kept = []
        for i in order:
            if all(overlap(boxes[i], boxes[j]) <= limit for j in kept):
                kept.append(i)
        rows += [[0, label, scores[i, label], *boxes[i]] for i in kept]
    best = sorted(rows, key=lambda row: -row[2])[:keep]
    return np.array(sorted(best, key=lambda row: (row[1], -row[2]))).reshape(-1, 7), clear


@pytest.mark.parametrize("code", ["CENTER_SIZE", "CORNER"])
@pytest.mark.parametrize(("threshold", "top", "keep"), [(0.4, 400, 20), (0.3, 10, 12), (1, 20, 5)])
def test_detections_are_those_of_caffe(threshold, top, keep, code, rng, tmp_path):
    limit = 0.45
    path, weights = detector(
        rng, tmp_path,
        f"nms_param {{ nms_threshold: {limit} top_k: {top} }} code_type: {code} "
        f"keep_top_k: {keep} confidence_threshold: {threshold}",
    )  # fmt: skip
    clear = 0.0
    while clear < CLEAR:
        x = rng.standard_normal((1, 3, IMAGE, IMAGE)).astype(np.float32)
        expected, clear = detections(x, weights, threshold, top, keep, limit, code)
    (found,) = run(load_caffe(path), x)
    assert found.shape == (1, 1, keep, 7)
    np.testing.assert_allclose(found[0, 0, : len(expected)], expected, atol=1e-4)
    assert (found[0, 0, len(expected) :] == -1).all()


def test_a_detector_compiles(rng, tmp_path):
    path, _ = detector(rng, tmp_path, "keep_top_k: 5 confidence_threshold: 0.3")
    data = {"data": rng.standard_normal((2, 3, IMAGE, IMAGE)).astype(np.float32)}
    compiled = api.compile_graph(quantize(load_caffe(path), data), target="B512")
    assert "DPU" in {part.device for part in compiled.report.subgraphs}


def test_prior_boxes_inside_the_image_with_one_variance(x, tmp_path):
    text = "min_size: 3 aspect_ratio: 2 flip: false clip: true variance: 0.2 step: 2 offset: 0"
    path = written(tmp_path, layer("Pooling", "pooling_param { kernel_size: 2 stride: 2 }",
                                   tops=["small"])
                   + layer("PriorBox", f"prior_box_param {{ {text} }}", ["small", "data"],
                           ["boxes"], "boxes"), {})  # fmt: skip
    found = run(load_caffe(path), x)[-1]
    w, h = 1.5 * np.sqrt(2), 1.5 / np.sqrt(2)
    expected = [
        end
        for row in range(4)
        for column in range(3)
        for across, down in ((1.5, 1.5), (w, h))
        for end in ((2 * column - across) / 6, (2 * row - down) / 7,
                    (2 * column + across) / 6, (2 * row + down) / 7)
    ]  # fmt: skip
    np.testing.assert_allclose(found[0, 0], np.clip(expected, 0, 1), atol=1e-6)
    np.testing.assert_allclose(found[0, 1], 0.2, atol=1e-7)


@pytest.mark.parametrize("across", [True, False])
def test_normalized_channels(across, x, rng, tmp_path):
    factors = rng.uniform(1, 20, 4)
    given = f"norm_param {{ across_spatial: {str(across).lower()} channel_shared: false }}"
    (found,) = run(load_caffe(written(tmp_path, layer("Normalize", given), {"one": [factors]})), x)
    length = np.sqrt(np.square(x).sum((1, 2, 3) if across else 1, keepdims=True))
    np.testing.assert_allclose(found, x / length * factors[:, None, None], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "said"),
    [("share_location: false", "share_location: false is not supported"),
     ("nms_param { eta: 0.9 }", "eta other than 1 is not supported"),
     ("code_type: CORNER_SIZE", "code_type CORNER_SIZE is not supported")],
)  # fmt: skip
def test_what_is_not_supported_is_said(given, said, rng, tmp_path):
    with pytest.raises(UnsupportedError, match=said):
        load_caffe(detector(rng, tmp_path, given)[0])


def test_prior_boxes_need_sizes_for_all(rng, tmp_path):
    path, _ = detector(rng, tmp_path, "keep_top_k: 5", extra="min_size: 4")
    with pytest.raises(ModelFormatError, match="min_size, and max_size for each of them or for"):
        load_caffe(path)
