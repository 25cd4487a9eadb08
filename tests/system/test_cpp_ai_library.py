# SPDX-License-Identifier: Apache-2.0
"""The AI Library in C++: boxes, classes and pixels, against NumPy's on the same outputs."""

import pathlib
import shutil
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
    NMS,
    WIDTH,
    found,
    per_class,
    prepared,
    remaining,
    run,
    same,
    sigmoid,
    softmax,
)

SOURCE = pathlib.Path(__file__).with_name("cpp") / "tasks.cpp"
CLASSES, ANCHORS = 3, 2
BIASES = (8.0, 12.0, 20.0, 10.0, 24.0, 30.0, 40.0, 20.0)
HEADS = {  # channels and stride
    "fine": (ANCHORS * (5 + CLASSES), 8),
    "coarse": (ANCHORS * (5 + CLASSES), 16),
    "loc_a": (8, 8),
    "loc_b": (8, 16),
    "conf_a": (2 * CLASSES, 8),
    "conf_b": (2 * CLASSES, 16),
    "corner": (4, 4),
    "face": (2, 4),
    "mask": (5, 4),
    "digit": (10, 0),
}
"""Outputs: parts of the networks that the tasks are for."""

pytestmark = [pytest.mark.system, pytest.mark.slow]


def results(xmodel: pathlib.Path, pixels: np.ndarray, *, rgb: bool) -> dict[str, np.ndarray]:
    return ai_library.results(xmodel, pixels, HEADS, rgb=rgb)


def cells(values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return fields of all cells and anchors, and columns, rows and numbers of anchors."""
    height, width, _ = values.shape
    rows, columns, anchors = np.mgrid[:height, :width, :ANCHORS].reshape(3, -1)
    return values.reshape(-1, 5 + CLASSES), columns, rows, anchors


def yolov3(maps: list[np.ndarray], kind: str) -> list[tuple[float, ...]]:
    boxes, scores = [], []
    for number, values in enumerate(reversed(maps)):
        fields, columns, rows, anchors = cells(values)
        height, width, _ = values.shape
        bias = np.reshape(BIASES, (2, ANCHORS, 2))[number][anchors] / (WIDTH, HEIGHT)
        xy, size = sigmoid(fields[:, :2]), np.exp(fields[:, 2:4])
        if kind == "YOLOV5":
            xy, size = 2 * xy - 0.5, (2 * sigmoid(fields[:, 2:4])) ** 2
        centre = (xy + np.stack([columns, rows], 1)) / (width, height)
        objectness = sigmoid(fields[:, 4:5])
        seen = objectness[:, 0] >= CONF
        boxes.append(np.concatenate([centre, size * bias], 1)[seen])
        scores.append((objectness * sigmoid(fields[:, 5:]))[seen])
    return per_class(np.concatenate(boxes), np.concatenate(scores))


YOLO = (
    f"yolo_v3_param {{ num_classes: {CLASSES} anchorCnt: {ANCHORS} conf_threshold: {CONF}"
    f" nms_threshold: {NMS} " + " ".join(f"biases: {bias}" for bias in BIASES)
)


@pytest.mark.parametrize("kind", ["NORMAL", "YOLOV5"])
@pytest.mark.parametrize("task", ["yolov3", "task"])
def test_yolov3(program, xmodel, picture, tmp_path, kind, task):
    text = f'model_type: YOLOv3 {YOLO} layer_name: "coarse" layer_name: "fine" type: {kind} }}'
    path = prepared(xmodel, tmp_path, text)
    named = results(xmodel, picture[1], rgb=True)
    lines = found(program, task, path, picture[0])
    same(lines, yolov3([named["coarse"], named["fine"]], kind))


TEXTS = {
    "yolov3": (f'model_type: YOLOv3 {YOLO} layer_name: "coarse" layer_name: "fine" }}', True),
    "faces": (
        f"dense_box_param {{ num_of_classes: 2 nms_threshold: {NMS} det_threshold: {CONF} }}",
        False,
    ),
    "classes": (
        'classification_param { top_k: 4 layer_name: "digit" label_type: "CIFAR10" }',
        False,
    ),
}
"""Of tasks: their part of a .prototxt, and whether they turn channels around."""


@pytest.mark.parametrize("task", ["yolov3", "yolov4", "faces", "classes"])
def test_inputs_in_memory_from_xrt(program, xmodel, picture, tmp_path, task):
    """What a picture becomes, handed over in a buffer object, gives what the picture gives."""
    kind = {"yolov4": "yolov3"}.get(task, task)
    text, rgb = TEXTS[kind]
    path = prepared(xmodel, tmp_path, text)
    (dpu,) = dpu_subgraphs(xir.Graph.deserialize(xmodel))
    with Runner(dpu, device="ref") as runner:
        elements = ai_library.elements_of(runner, picture[1], rgb=rgb)
    elements.tofile(tmp_path / "elements.bin")
    told = run(program, f"bo {task}", path, tmp_path / "elements.bin").stdout
    assert told == run(program, kind, path, picture[0]).stdout
    assert len(told.splitlines()) > 2
    (elements ^ 0x55).tofile(tmp_path / "elements.bin")
    assert run(program, f"bo {task}", path, tmp_path / "elements.bin").stdout != told


def test_buffer_objects_that_do_not_fit(program, xmodel, tmp_path):
    lines = run(program, "refused", prepared(xmodel, tmp_path, "")).stdout.splitlines()
    assert lines[0] == "0 buffer objects for 1 inputs given, but it must be one for one"
    assert lines[1] == "2 buffer objects for 1 inputs given, but it must be one for one"
    assert "but its buffer object has 1" in lines[2]


def test_yolov2(program, xmodel, picture, tmp_path):
    path = prepared(xmodel, tmp_path, f'model_type: YOLOv2 {YOLO} layer_name: "fine" }}')
    values = results(xmodel, picture[1], rgb=True)["fine"]
    fields, columns, rows, anchors = cells(values)
    height, width, _ = values.shape
    centre = (sigmoid(fields[:, :2]) + np.stack([columns, rows], 1)) / (width, height)
    bias = np.reshape(BIASES, (-1, 2))[anchors] / (width, height)
    boxes = np.concatenate([centre, np.exp(fields[:, 2:4]) * bias], 1)
    scores = sigmoid(fields[:, 4:5]) * softmax(fields[:, 5:])
    expected = [
        (label, score, max(x, 0), max(y, 0), w, h)
        for label, score, x, y, w, h in per_class(boxes, scores)
    ]
    same(found(program, "yolov2", path, picture[0]), expected)


@pytest.mark.parametrize("kind", ["NORMAL", "YOLOX_NANO"])
def test_yolovx(program, xmodel, tmp_path, kind):
    """A picture half as large fills a part of the input at its top left."""
    colour = np.array([250, 20, 60], np.uint8)
    path = tmp_path / "small.ppm"
    path.write_bytes(b"P6 12 16 255\n" + np.tile(colour[::-1], 12 * 16).tobytes())
    text = f"yolo_v5_param {{ yolo_param {{ num_classes: {CLASSES} anchorCnt: {ANCHORS} "
    text += f'conf_threshold: {CONF} nms_threshold: {NMS} type: {kind} layer_name: "coarse" '
    text += 'layer_name: "fine" } stride: 16 stride: 8 }'
    net = prepared(xmodel, tmp_path, text)
    lines = [line.split() for line in run(program, "yolovx", net, path).stdout.splitlines()]
    scale = 2.0
    fitted = np.full((HEIGHT, WIDTH, 3), 114, np.uint8)
    fitted[:, :24] = colour
    named = results(xmodel, fitted, rgb=False)
    boxes, scores, labels = [], [], []
    for name, stride in ("fine", 8), ("coarse", 16):
        fields, columns, rows, _ = cells(named[name])
        centre = (fields[:, :2] + np.stack([columns, rows], 1)) * stride
        boxes.append(np.concatenate([centre, np.exp(fields[:, 2:4]) * stride], 1))
        best = CLASSES - 1 - fields[:, :4:-1].argmax(1)
        labels.append(best)
        top = np.take_along_axis(fields[:, 5:], best[:, None], 1)[:, 0]
        scores.append(sigmoid(fields[:, 4]) * sigmoid(top))
    box, score, label = map(np.concatenate, (boxes, scores, labels))
    seen = box[:, :2] - (box[:, 2:] / 2 if kind == "YOLOX_NANO" else 0)
    corners = np.concatenate([seen - box[:, 2:] / 2, seen + box[:, 2:] / 2], 1)
    expected = []
    for number in range(CLASSES):
        (chosen,) = np.nonzero((label == number) & (score > CONF))
        for i in remaining(corners[chosen], score[chosen]):
            k = chosen[i]
            low, high = box[k, :2] - box[k, 2:] / 2, box[k, :2] + box[k, 2:] / 2
            expected.append((number, score[k], *(low / scale), *(high / scale)))
    same([[float(word) for word in line] for line in lines], expected)


def test_points_of_a_face(program, xmodel, picture, tmp_path):
    path = prepared(xmodel, tmp_path, "use_graph_runner: false")
    (dpu,) = dpu_subgraphs(xir.Graph.deserialize(xmodel))
    with Runner(dpu, device="ref") as runner:
        (first, *_) = [tensor.name for tensor in runner.get_output_tensors()]
    (head,) = [head for head in HEADS if head in first]
    values = results(xmodel, picture[1], rgb=False)[head].ravel()[:10]
    lines = run(program, "points", path, picture[0]).stdout.splitlines()
    points = [[float(word) for word in line.split()] for line in lines]
    np.testing.assert_allclose(points, values.reshape(2, 5).T)


PRIORS = {"a": (8.0, 14.0), "b": (16.0, 26.0)}
"""Least and largest size of the prior boxes of two maps."""


def test_ssd(program, xmodel, picture, tmp_path):
    text = f"model_type: SSD ssd_param {{ num_classes: {CLASSES} nms_threshold: {NMS} "
    text += f"conf_threshold: 0 conf_threshold: {CONF} conf_threshold: {CONF} "
    text += "keep_top_k: 20 top_k: 30 "
    for order, (key, (low, high)) in enumerate(PRIORS.items()):
        stride = 8 << order
        text += f"prior_box_param {{ layer_width: {WIDTH // stride} offset: 0.5 "
        text += f"layer_height: {HEIGHT // stride} min_sizes: {low} max_sizes: {high} "
        text += "variances: 0.1 variances: 0.1 variances: 0.2 variances: 0.2 } "
        text += f'output_info {{ type: BBOX order: {order} name: "loc_{key}" }} '
        text += f'output_info {{ type: CONF order: {order} name: "conf_{key}" }} '
    path = prepared(xmodel, tmp_path, text + "}")
    named = results(xmodel, picture[1], rgb=False)
    boxes, scores = [], []
    for order, (key, (low, high)) in enumerate(PRIORS.items()):
        height, width = HEIGHT // (8 << order), WIDTH // (8 << order)
        rows, columns, shapes = np.mgrid[:height, :width, :2].reshape(3, -1)
        prior = np.stack([(columns + 0.5) / width, (rows + 0.5) / height], 1)
        side = np.array([low, np.sqrt(low * high)])[shapes][:, None] / (WIDTH, HEIGHT)
        code = named[f"loc_{key}"].reshape(-1, 4)
        centre, size = prior + 0.1 * code[:, :2] * side, side * np.exp(0.2 * code[:, 2:])
        boxes.append(np.clip(np.concatenate([centre - size / 2, centre + size / 2], 1), 0, 1))
        scores.append(softmax(named[f"conf_{key}"].reshape(-1, CLASSES)))
    box, score = np.concatenate(boxes), np.concatenate(scores)
    expected = []
    for label in range(1, CLASSES):
        (chosen,) = np.nonzero(score[:, label] > CONF)
        chosen = chosen[np.argsort(-score[chosen, label], kind="stable")][:30]
        for i in remaining(box[chosen], score[chosen, label]):
            k = chosen[i]
            expected.append((label, score[k, label], *box[k, :2], *(box[k, 2:] - box[k, :2])))
    expected = sorted(expected, key=lambda row: -row[1])[:20]
    same(found(program, "ssd", path, picture[0]), expected)


def test_faces(program, xmodel, picture, tmp_path):
    text = f"dense_box_param {{ num_of_classes: 2 nms_threshold: {NMS} det_threshold: {CONF} }}"
    path = prepared(xmodel, tmp_path, text)
    named = results(xmodel, picture[1], rgb=False)
    height, width, _ = named["corner"].shape
    rows, columns = np.mgrid[:height, :width].reshape(2, -1)
    places = named["corner"].reshape(-1, 4) + 4 * np.stack([columns, rows, columns, rows], 1)
    score = softmax(named["face"].reshape(-1, 2))[:, 1]
    (chosen,) = np.nonzero(score > CONF)
    expected = []
    for i in remaining(places[chosen], score[chosen], 1.0):
        left, top, right, bottom = places[chosen[i]]
        sides = (right - left) / WIDTH, (bottom - top) / HEIGHT
        expected.append((0, score[chosen[i]], left / WIDTH, top / HEIGHT, *sides))
    same(found(program, "faces", path, picture[0]), expected)


CLASSES = {
    "": [
        "tench, Tinca tinca,", "goldfish, Carassius auratus,",
        "great white shark, white shark, man-eater, man-eating shark, Carcharodon carcharias,",
        "tiger shark, Galeocerdo cuvieri,", "hammerhead, hammerhead shark,",
        "electric ray, crampfish, numbfish, torpedo,", "stingray,", "cock,", "hen,",
        "ostrich, Struthio camelus,",
    ],
    "CIFAR10": [
        "airplane,", "automobile,", "bird,", "cat,", "deer,", "dog,", "frog,", "horse,", "ship,",
        "truck",
    ],
    "FMNIST": [
        "top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag",
        "ankleBoot",
    ],
    "ORIEN": ["Left", "Right", "Front", "Back", *[""] * 6],
    "CAR_COLOR_CHEN": [
        "beige,", "black,", "blue,", "brown,", "gold,", "green,", "grey,", "orange,", "pink,",
        "purple,",
    ],
}  # fmt: skip
"""The first ten names of each list, with the commas that they have in Vitis AI."""


@pytest.mark.parametrize("kind", CLASSES)
def test_classes(program, xmodel, picture, tmp_path, kind):
    text = f'classification_param {{ top_k: 10 layer_name: "digit" label_type: "{kind}" }}'
    path = prepared(xmodel, tmp_path, text)
    scores = softmax(results(xmodel, picture[1], rgb=False)["digit"].ravel())
    lines = run(program, "classes", path, picture[0]).stdout.splitlines()
    order = np.argsort(-scores, kind="stable")
    for line, index in zip(lines[1:], order, strict=True):
        number, score, name = line.split(" ", maxsplit=2)
        assert (int(number), name) == (index, CLASSES[kind][index])
        assert float(score) == pytest.approx(scores[index], rel=1e-5)


def test_pixels_and_their_colours(program, xmodel, picture, tmp_path):
    colours = np.random.default_rng(13).integers(0, 256, (3, 5))
    text = 'order_type: RGB segmentation_param { output_tensor_name: "mask" '
    for number, levels in enumerate(colours, 1):
        text += f'color{number}: "{" ".join(map(str, levels))}" '
    path = prepared(xmodel, tmp_path, text + "}")
    labels = results(xmodel, picture[1], rgb=True)["mask"].argmax(-1)
    assert len(np.unique(labels)) > 2
    pixels = np.array(found(program, "pixels", path, picture[0]))
    np.testing.assert_array_equal(pixels, labels)
    painted = np.array(found(program, "colours", path, picture[0]))
    np.testing.assert_array_equal(painted.reshape(*labels.shape, 3), colours.T[labels])


def test_pictures_of_other_sizes_are_resized_or_fitted(program, xmodel, tmp_path):
    """A picture of one colour stays one where it is resized; beside a fitted one it is grey."""
    colour = np.array([40, 90, 200], np.uint8)
    path = tmp_path / "plain.ppm"
    path.write_bytes(b"P6 24 32 255\n" + np.tile(colour[::-1], 24 * 32).tobytes())
    layers = 'layer_name: "coarse" layer_name: "fine"'
    net = prepared(xmodel, tmp_path, f"{YOLO} {layers} }}")
    named = results(xmodel, np.full((HEIGHT, WIDTH, 3), colour), rgb=True)
    same(found(program, "yolov3", net, path), yolov3([named["coarse"], named["fine"]], "NORMAL"))
    net = prepared(xmodel, tmp_path, f"is_tf: true {YOLO} {layers} test_mAP: true }}")
    fitted = np.full((HEIGHT, WIDTH, 3), 128, np.uint8)
    fitted[:, 12:36] = colour
    named = results(xmodel, fitted, rgb=True)
    expected = [
        (label, score, x * 2 - 0.5, y, w * 2, h)
        for label, score, x, y, w, h in yolov3([named["coarse"], named["fine"]], "NORMAL")
    ]
    same(found(program, "yolov3", net, path), expected)


@pytest.mark.parametrize("rounded", [False, True])
def test_functions_on_inputs(program, rounded):
    done = run(program, "functions", "-", XLNX_ENABLE_ROUND_SETINPUT=str(int(rounded)))
    *words, told = done.stdout.split(" ", 43)
    pixels = np.array([10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 200, 255]).reshape(4, 3)
    reals = (pixels - np.float32([11, 22, 33])) * np.float32([0.75, -0.5, 1.5])
    elements = np.trunc(reals).astype(np.int64).astype(np.int8)
    if rounded:
        elements = np.trunc(reals + np.copysign(0.5, reals)).clip(-128, 127).astype(np.int8)
    seen = np.array([int(word) for word in words[19:]]).reshape(2, 4, 3)
    np.testing.assert_array_equal(seen, [elements, elements[:, ::-1]])
    assert told == "the image has 3 channels, but there are 2 means and 3 scales"


def test_functions_on_outputs(program):
    numbers = [float(word) for word in run(program, "functions", "-").stdout.split()[:19]]
    values = np.array([1, -2, 127, 2, -3, 127, 4, -4, 127, 4, 0, 127])
    means = values.reshape(4, 3).mean(0) * 2  # 5.5, -4.5 and beyond the range
    assert numbers[:3] == [np.floor(means[0] + 0.5), np.ceil(means[1] - 0.5), 127]
    assert numbers[3:15] == values.reshape(3, 2, 2).transpose(1, 2, 0).ravel().tolist()
    shares = softmax(values[:4].reshape(2, 2) * 0.25)
    np.testing.assert_allclose(numbers[15:], shares.ravel(), rtol=1e-6)


def test_main_functions_of_demos(program, xmodel, picture, tmp_path):
    folder = tmp_path / "models" / "net"
    folder.mkdir(parents=True)
    prepared(xmodel, folder, f'{YOLO} layer_name: "coarse" layer_name: "fine" }}')
    models = {"VAI_LIBRARY_MODELS_DIR": str(folder.parent)}
    done = run(program, "demo", "net", picture[0], folder=tmp_path, **models)
    assert done.stdout.startswith("boxes ") and done.stdout.endswith(" 1\n\n")
    assert done.stderr == "batch: 0     image: noise.ppm\n"
    assert (tmp_path / "0_noise_result.jpg").stat().st_size > 0
    (tmp_path / "list").write_text(f"{picture[0]}\n")
    for threads, lines in (1, ["FPS", "E2E_MEAN", "DPU_MEAN"]), (2, ["FPS"]):
        done = run(program, "speed", "net", "-t", threads, "-s", 1, tmp_path / "list", **models)
        numbers = dict(line.split("=") for line in done.stdout.splitlines())
        assert list(numbers) == lines
        assert all(float(number) > 0 for number in numbers.values())


def test_what_is_refused(program, xmodel, picture, tmp_path):
    def refusal(kind: str, path: object) -> str:
        done = run(program, kind, path, picture[0], check=False)
        assert done.returncode == 3
        return done.stderr

    assert "there is no model nothing; tried: ./nothing/nothing.xmodel" in refusal("ssd", "nothing")
    shutil.copy(xmodel, tmp_path / "alone.xmodel")
    assert "alone.prototxt: cannot be read" in refusal("ssd", tmp_path / "alone.xmodel")
    net = prepared(xmodel, tmp_path, f'{YOLO} layer_name: "nowhere" }}')
    assert "no output has 'nowhere' in its name; there are:" in refusal("yolov2", net)
    net = prepared(xmodel, tmp_path, f'{YOLO} layer_name: "mask" }}')
    assert "has 5 channels, but anchorCnt is 2 and num_classes 3" in refusal("yolov2", net)
    net = prepared(xmodel, tmp_path, "ssd_param { num_classes: 3 }")
    assert "there are 0 prior boxes and 3 classes, but outputs have" in refusal("ssd", net)
    net = prepared(xmodel, tmp_path, "ssd_param { num_classes }")
    assert "net.prototxt:1: Expected" in refusal("ssd", net)
