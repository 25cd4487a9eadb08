# SPDX-License-Identifier: Apache-2.0
"""Further tasks of the AI Library in C++, against NumPy's on the same outputs."""

import pathlib
import sys

import numpy as np
import pytest

import xir
from opendpu.quantize import Override, TensorSpec
from opendpu.runtime.program import dpu_subgraphs

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
NUMBER = {
    "province": 32, "letter": 26, "first": 35, "second": 35, "third": 35, "fourth": 35,
    "fifth": 35, "colour": 2,
}  # fmt: skip
"""Classes of the outputs for a plate's characters."""
HEADS = {  # channels and stride
    "arm_loc": (8, 8),
    "odm_loc": (8, 8),
    "odm_conf": (2 * CLASSES, 8),
    "vehicle": (12, 8),
    "seg": (5, 4),
    "plate_conf": (128, 16),
    "plate_box": (512, 16),
    "tfl8": (12, 8),
    "tfl16": (12, 16),
    "tfc8": (3 * CLASSES, 8),
    "tfc16": (3 * CLASSES, 16),
    "eff_box8": (16, 8),
    "eff_box16": (16, 16),
    "eff_cls8": (4 * CLASSES, 8),
    "eff_cls16": (4 * CLASSES, 16),
    **{name: (classes, 0) for name, classes in NUMBER.items()},
}
"""Outputs: parts of the networks that the tasks are for."""
PRIORS = (8.0, 14.0)
"""Least and largest size of prior boxes."""

pytestmark = [pytest.mark.system, pytest.mark.slow]


PRIOR = (
    f"prior_box_param {{ layer_width: {WIDTH // 8} layer_height: {HEIGHT // 8} offset: 0.5 "
    f"min_sizes: {PRIORS[0]} max_sizes: {PRIORS[1]} "
    "variances: 0.1 variances: 0.1 variances: 0.2 variances: 0.2 } "
)


def moved(code: np.ndarray, place: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return corners of boxes that codes move."""
    centre, sides = place + 0.1 * code[:, :2] * size, size * np.exp(0.2 * code[:, 2:4])
    return np.concatenate([centre - sides / 2, centre + sides / 2], 1)


def from_priors(code: np.ndarray) -> np.ndarray:
    """Return corners of prior boxes that codes move, within the image."""
    rows, columns, shapes = np.mgrid[: HEIGHT // 8, : WIDTH // 8, :2].reshape(3, -1)
    place = np.stack([(columns + 0.5) / (WIDTH // 8), (rows + 0.5) / (HEIGHT // 8)], 1)
    side = np.array([PRIORS[0], np.sqrt(np.prod(PRIORS))])[shapes][:, None] / (WIDTH, HEIGHT)
    return np.clip(moved(code, place, side), 0, 1)


def of_classes(box: np.ndarray, score: np.ndarray, top_k: int, keep: int) -> list[tuple]:
    """Return label, score and number of what remains, by falling score."""
    made = []
    for label in range(1, CLASSES):
        (chosen,) = np.nonzero(score[:, label] > CONF)
        chosen = chosen[np.argsort(-score[chosen, label], kind="stable")][:top_k]
        for i in remaining(box[chosen], score[chosen, label]):
            made.append((label, score[chosen[i], label], chosen[i]))
    return sorted(made, key=lambda row: -row[1])[:keep]


def test_refinedet(program, xmodel, picture, tmp_path):
    """The second stage moves what the first one made of prior boxes, and NMS runs again."""
    names = " ".join(f'layer_name: "{n}"' for n in ("arm_loc", "seg", "odm_loc", "odm_conf"))
    text = f"model_type: REFINEDET refine_det_param {{ num_classes: {CLASSES} {PRIOR} {names} "
    text += f"nms_threshold: {NMS} top_k: 30 keep_top_k: 25 conf_threshold: 0 "
    path = prepared(xmodel, tmp_path, text + f"conf_threshold: {CONF} conf_threshold: {CONF} }}")
    named = results(xmodel, picture[1], HEADS, rgb=False)
    first = from_priors(named["arm_loc"].reshape(-1, 4))
    score = softmax(named["odm_conf"].reshape(-1, CLASSES))
    code = named["odm_loc"].reshape(-1, 4)
    low, high = first[:, :2], first[:, 2:]
    second = moved(code, (low + high) / 2, high - low)
    seen = of_classes(first, score, 30, 25)
    expected = []
    for label in range(1, CLASSES):
        chosen = np.array([k for known, _, k in seen if known == label])
        for i in remaining(second[chosen], score[chosen, label]):
            box = second[chosen[i]]
            expected.append((label, score[chosen[i], label], *box[:2], *(box[2:] - box[:2])))
    same(numbers(told(program, "refinedet", path, picture[0])).tolist(), expected)


@pytest.mark.parametrize("kind", ["multitask", "multicolour"])
def test_multitask(program, xmodel, picture, tmp_path, kind):
    colours = np.random.default_rng(14).integers(0, 256, (3, 5))
    text = f"model_type: MULTI_TASK multi_task_param {{ num_of_detection_classes: {CLASSES} {PRIOR}"
    text += f'loc_name: "vehicle" conf_name: "odm_conf" seg_name: "seg" nms_threshold: {NMS} '
    text += f"top_k: 30 keep_top_k: 20 th_conf: 0 th_conf: {CONF} th_conf: {CONF} }} "
    text += "segmentation_param { "
    for number, levels in enumerate(colours, 1):
        text += f'color{number}: "{" ".join(map(str, levels))}" '
    path = prepared(xmodel, tmp_path, text + "}")
    named = results(xmodel, picture[1], HEADS, rgb=False)
    code = named["vehicle"].reshape(-1, 6)
    box = from_priors(code)
    score = softmax(named["odm_conf"].reshape(-1, CLASSES))
    expected = [
        (label, value, *box[k, :2], *(box[k, 2:] - box[k, :2]),
         np.degrees(np.arctan2(code[k, 5], code[k, 4])))
        for label, value, k in of_classes(box, score, 30, 20)
    ]  # fmt: skip
    lines = told(program, kind, path, picture[0])
    split = lines.index("pixels")
    same(numbers(lines[:split]).tolist(), expected)
    labels = named["seg"].argmax(-1)
    assert len(np.unique(labels)) > 2
    seen = numbers(lines[split + 1 :])
    if kind == "multitask":
        np.testing.assert_array_equal(seen, labels)
    else:
        np.testing.assert_array_equal(seen.reshape(*labels.shape, 3), colours.T[labels])


def test_plates(program, xmodel, picture, tmp_path):
    """The likeliest of all places; corners are whole pixels of the input from there."""
    path = prepared(xmodel, tmp_path, "model_type: PLATEDETECT")
    named = results(xmodel, picture[1], HEADS, rgb=False)
    height, width, _ = named["plate_conf"].shape
    tiles = named["plate_conf"].reshape(height, width, 2, 8, 8)
    sure = tiles[:, :, 1].transpose(2, 3, 0, 1)  # places first: of equals, the last of this order
    last = sure.size - 1 - sure.ravel()[::-1].argmax()
    down, right, row, column = np.unravel_index(last, sure.shape)
    minus, plus = tiles[row, column, :, down, right]
    offsets = named["plate_box"].reshape(height, width, 4, 2, 8, 8)[row, column, :, :, down, right]
    points = np.trunc(4 * np.array([8 * column + right, 8 * row + down]) + offsets)
    low = [min(points[0, 0], points[3, 0]), min(points[0, 1], points[1, 1])]
    high = [max(points[1, 0], points[2, 0]), max(points[2, 1], points[3, 1])]
    size = np.array([WIDTH, HEIGHT])
    score = softmax(np.array([minus, np.trunc(plus)]))[1]
    lines = told(program, "plate", path, picture[0])
    box = [score, *(low / size), *(np.subtract(high, low) / size)]
    np.testing.assert_allclose(numbers(lines[:1])[0], box, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(numbers(lines[1:]), points / size, rtol=1e-5, atol=1e-6)


PROVINCES = [
    "jing", "hu", "jin", "yu", "ji", "jin", "meng", "liao", "ji", "hei", "su", "zhe", "wan",
    "min", "gan", "lu", "yu", "e", "xiang", "yue", "gui", "qiong", "chuan", "gui", "yun", "zang",
    "shan", "gan", "qing", "ning", "xin",
]  # fmt: skip


def test_numbers_of_plates(program, xmodel, picture, tmp_path):
    names = " ".join(f'output_tensor_name: "{name}"' for name in NUMBER)
    path = prepared(xmodel, tmp_path, f"model_type: PLATENUM platenum_param {{ {names} }}")
    named = results(xmodel, picture[1], HEADS, rgb=False)
    best = [max(int(named[name].argmax()) - 1, 0) for name in NUMBER]
    letters = [chr(code) for code in range(ord("A"), ord("Z") + 1) if chr(code) != "I"]
    others = [str(digit) for digit in range(10)] + [letter for letter in letters if letter != "O"]
    text = PROVINCES[best[0]] + letters[best[1]] + "".join(others[i] for i in best[2:7])
    colour = ("Blue", "Yellow")[int(named["colour"].argmax())]
    line = run(program, "number", path, picture[0]).stdout.strip()
    assert line == f"{WIDTH} {HEIGHT} {text} {colour}"


@pytest.mark.parametrize("on_cpu", [False, True])
def test_joints(program, picture, tmp_path, on_cpu):
    """AMD's network averages on the CPU, between two DPU subgraphs; the DPU can do it, too."""
    heads = {"joint": (28, 0)}
    options = {}
    if on_cpu:
        kept = Override(names=("s0",), activation=TensorSpec(number_format="float32"))
        options["overrides"] = (kept,)
        options["hidden"] = (700, 700)  # enough for the DPU to be worth it
    xmodel = ai_library.compiled(heads, tmp_path / "joints.xmodel", **options)
    parts = dpu_subgraphs(xir.Graph.deserialize(xmodel))
    assert len(parts) == (2 if on_cpu else 1)
    path = prepared(xmodel, tmp_path, "model_type: POSEDETECT")
    points = numbers(told(program, "pose", path, picture[0]))
    values = ai_library.over_averages(xmodel, picture[1], "joint")
    expected = values.reshape(14, 2) / (WIDTH, HEIGHT)
    np.testing.assert_allclose(points, [*expected, expected[-1]], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("normalized", [False, True])
def test_features(program, picture, tmp_path, normalized):
    heads = {"feature": (6, 8)}
    xmodel = ai_library.compiled(heads, tmp_path / "features.xmodel")
    rng = np.random.default_rng(15)
    mean, weight, var = rng.normal(0, 1, 6), rng.normal(1, 0.5, 6), rng.uniform(0.1, 2, 6)
    text = "".join(
        f"bn_{name}: {value} "
        for name, values in (("means", mean), ("weights", weight), ("vars", var))
        for value in values
    )
    text = f"reid_param {{ {text} }}" if normalized else ""
    path = prepared(xmodel, tmp_path, f"model_type: REID {text}")
    values = results(xmodel, picture[1], heads, rgb=True)["feature"].reshape(-1, 6).mean(0)
    if normalized:
        values = (values - mean) / np.sqrt(var + 1e-5) * weight
    seen = numbers(told(program, "reid", path, picture[0]))[:, 0]
    np.testing.assert_allclose(seen, values / np.linalg.norm(values), rtol=1e-4, atol=1e-6)


PIPELINE = """
model { ssd { num_classes: %d
  image_resizer { fixed_shape_resizer { height: 32 width: 48 } }
  feature_extractor { type: "ssd_mobilenet_v1" depth_multiplier: 1.0 }
  box_coder { faster_rcnn_box_coder { y_scale: 10.0 x_scale: 8.0 width_scale: 4.0 } }
  anchor_generator { ssd_anchor_generator {
    num_layers: 2 min_scale: 0.2 max_scale: 0.8 aspect_ratios: 1.0 aspect_ratios: 2.0 } }
  post_processing { score_converter: %s batch_non_max_suppression {
    score_threshold: %g iou_threshold: %g max_detections_per_class: 30
    max_total_detections: 20 } } } }
train_config { batch_size: 24 }
"""


@pytest.mark.parametrize("converter", ["SIGMOID", "SOFTMAX"])
def test_tfssd(program, xmodel, picture, tmp_path, converter):
    """Anchors are made from the pipeline's configuration; missing scales are the API's own."""
    infos = "".join(
        f'output_info {{ type: {kind} name: "{name}" }} '
        for kind, names in (("BBOX", ("tfl8", "tfl16")), ("CONF", ("tfc8", "tfc16")))
        for name in names
    )
    maps = "".join(f"feature_map_list: {size} " for size in (4, 6, 2, 3))
    net = prepared(xmodel, tmp_path, f"model_type: TFSSD tfssd_param {{ {infos} {maps} }}")
    text = PIPELINE % (CLASSES - 1, converter, CONF, NMS)
    (tmp_path / "net_officialcfg.prototxt").write_text(text)
    named = results(xmodel, picture[1], HEADS, rgb=True)
    shapes = [[(0.1, 1), (0.2, 2), (0.2, 0.5)], [(0.8, 1), (0.8, 2), (np.sqrt(0.8), 1)]]
    boxes, scores = [], []
    for stride, theirs in zip((8, 16), shapes, strict=True):
        height, width, _ = named[f"tfl{stride}"].shape
        rows, columns, kind = np.mgrid[:height, :width, :3].reshape(3, -1)
        scale, ratio = np.array(theirs)[kind].T
        size = np.stack([scale * np.sqrt(ratio) * HEIGHT / WIDTH, scale / np.sqrt(ratio)], 1)
        middle = np.stack([(columns + 0.5) / width, (rows + 0.5) / height], 1)
        dy, dx, dh, dw = named[f"tfl{stride}"].reshape(-1, 4).T
        centre = middle + np.stack([dx / 8, dy / 10], 1) * size
        sides = size * np.exp(np.stack([dw / 4, dh / 5], 1))
        boxes.append(np.concatenate([centre - sides / 2, centre + sides / 2], 1))
        scores.append(named[f"tfc{stride}"].reshape(-1, CLASSES))
    box, value = np.concatenate(boxes), np.concatenate(scores)
    score = sigmoid(value) if converter == "SIGMOID" else softmax(value)
    expected = [
        (label, known, *box[k, :2], *(box[k, 2:] - box[k, :2]))
        for label, known, k in of_classes(box, score, 30, 20)
    ]
    same(numbers(told(program, "tfssd", net, picture[0])).tolist(), expected)


EFFICIENT = (
    "model_type: EFFICIENTDET_D2 efficientdet_d2_param { anchor_info { min_level: 3 max_level: 4 "
    "num_scales: 2 anchor_scales: 1.5 anchor_scales: 2 aspect_ratio: 1 aspect_ratio: 0.5 } "
    f"num_classes: {CLASSES} pre_nms_num: 40 nms_threshold: {NMS} conf_threshold: {CONF} "
    "nms_output_num: 25 "
    + "".join(
        f'output_info {{ type: {kind} level: {level} name: "eff_{name}{1 << level}" }} '
        for level in (3, 4)
        for kind, name in (("CONF", "cls"), ("BBOX", "box"))
    )
    + "}"
)


def test_efficientdet(program, xmodel, tmp_path):
    """A picture of another shape lies in the input's corner; nothing is beside it."""
    pixels = np.full((HEIGHT // 2, WIDTH // 4, 3), (250, 20, 60), np.uint8)
    path = tmp_path / "small.ppm"
    path.write_bytes(b"P6 %d %d 255\n" % pixels.shape[1::-1] + pixels[..., ::-1].tobytes())
    fitted = np.broadcast_to(ai_library.MEAN, (HEIGHT, WIDTH, 3)).copy()
    fitted[:, : WIDTH // 2] = (250, 20, 60)
    named = results(xmodel, fitted, HEADS, rgb=True)
    boxes, scores = [], []
    for stride, size in ((8, 1.5), (16, 2)):
        height, width, _ = named[f"eff_box{stride}"].shape
        rows, columns, octave, ratio = np.mgrid[:height, :width, :2, :2].reshape(4, -1)
        side = size * stride * 2 ** (octave / 2)
        root = np.sqrt([1, 0.5])[ratio]
        shape = np.stack([side * root, side / root], 1)
        middle = stride * (np.stack([columns, rows], 1) + 0.5)
        dy, dx, dh, dw = named[f"eff_box{stride}"].reshape(-1, 4).T
        centre, sides = (
            middle + np.stack([dx, dy], 1) * shape,
            shape * np.exp(np.stack([dw, dh], 1)),
        )
        boxes.append(np.concatenate([centre - sides / 2, sides], 1))
        scores.append(sigmoid(named[f"eff_cls{stride}"]).reshape(-1, CLASSES))
    box, score = np.concatenate(boxes), np.concatenate(scores)
    order = np.argsort(-score, axis=None, kind="stable")[:40]
    places, labels = np.unravel_index(order, score.shape)
    expected = []
    for label in range(CLASSES):
        chosen = places[labels == label]
        chosen = chosen[score[chosen, label] >= CONF]
        # The library compares boxes as if their corners were their centres.
        corner, size = box[chosen, :2], box[chosen, 2:]
        seen = np.concatenate([corner - size / 2, corner + size / 2], 1)
        for i in remaining(seen, score[chosen, label]):
            share = box[chosen[i]].reshape(2, 2) / (WIDTH / 2, HEIGHT)
            expected.append((label, score[chosen[i], label], *share.ravel()))
    expected = sorted(expected, key=lambda row: -row[1])[:25]
    lines = run(program, "efficient", prepared(xmodel, tmp_path, EFFICIENT), path).stdout
    size, *lines = lines.splitlines()
    assert size == f"size {WIDTH // 4} {HEIGHT // 2}"
    same(numbers(lines).tolist(), expected)


def test_features_of_faces(program, picture, tmp_path):
    heads = {"feature": (512, 0)}
    xmodel = ai_library.compiled(heads, tmp_path / "face.xmodel")
    path = prepared(xmodel, tmp_path, "model_type: FACEFEATURE")
    expected = results(xmodel, picture[1], heads, rgb=True)["feature"].ravel()
    assert len(np.unique(expected)) > 9
    for kind in ("features", "fixed"):
        seen = numbers(told(program, kind, path, picture[0]))[:, 0]
        np.testing.assert_allclose(seen, expected, rtol=1e-6)


def test_what_is_refused(program, xmodel, picture, tmp_path):
    def refusal(kind: str, text: str, **heads: tuple[int, int]) -> str:
        net = xmodel
        if heads:
            net = ai_library.compiled(heads, tmp_path / "other.xmodel")
        done = run(program, kind, prepared(net, tmp_path, text), picture[0], check=False)
        assert done.returncode == 3
        return done.stderr

    assert "refine_det_param has 0 layer_name, but must have four" in refusal("refinedet", "")
    message = refusal("multitask", "")
    assert "multi_task_param has no loc_name or no conf_name" in message
    assert "fourteen joints have 28" in refusal("pose", "", joint=(10, 0))
    assert "no output has 128 channels" in refusal("plate", "", joint=(10, 0))
    assert "a plate has eight outputs, but there are 1" in refusal("number", "", joint=(10, 0))
    text = 'platenum_param { output_tensor_name: "nowhere" }'
    assert "no output has 'nowhere' in its name" in refusal("number", text)
    message = refusal("reid", "reid_param { bn_means: 1 }", joint=(10, 0))
    assert "reid_param must have 10 bn_means, bn_vars and bn_weights" in message
    assert "net_officialcfg.prototxt: cannot be read" in refusal("tfssd", "")
    (tmp_path / "net_officialcfg.prototxt").write_text("model { ssd { num_classes: 2 } }")
    assert "has no ssd_anchor_generator" in refusal("tfssd", "")
    text = PIPELINE % (CLASSES - 1, "SIGMOID", CONF, NMS)
    (tmp_path / "net_officialcfg.prototxt").write_text(text)
    assert "feature_map_list has 0 numbers, but 2 layers have two each" in refusal("tfssd", "")
    message = refusal("efficient", "")
    assert "num_classes is 0, but must be at least 1" in message
    message = refusal("efficient", EFFICIENT.replace("max_level: 4", "max_level: 40"))
    assert "has levels 3 to 40 and 2 anchor_scales" in message
    message = refusal("efficient", EFFICIENT.replace("num_scales: 2", "num_scales: 3"))
    assert "has 16 channels, but 6 anchors have 4 each, in the same cells" in message
    message = refusal("efficient", EFFICIENT.replace("level: 4 name", "level: 5 name"))
    assert "names no output for boxes or classes of level 4" in message
    assert "values, but features have 512" in refusal("features", "", joint=(10, 0))
    huge = PRIOR.replace("layer_width: ", "layer_width: 10000000")
    names = " ".join(f'layer_name: "{n}"' for n in ("arm_loc", "seg", "odm_loc", "odm_conf"))
    message = refusal("refinedet", f"refine_det_param {{ num_classes: 2 {huge} {names} }}")
    assert "the configuration asks for more than 4194304 prior boxes" in message
