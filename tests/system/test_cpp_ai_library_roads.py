# SPDX-License-Identifier: Apache-2.0
"""Tasks of the AI Library in C++ for traffic, against NumPy's on the same outputs."""

import itertools
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

SOURCE = pathlib.Path(__file__).with_name("cpp") / "roads.cpp"
CLASSES, ANCHORS = 3, 2
HEADS = {  # channels and stride
    "fine": (ANCHORS * (5 + CLASSES), 8),
    "coarse": (ANCHORS * (5 + CLASSES), 16),
    "place": (8, 8),
    "kind": (2 * CLASSES, 8),
    "middle": (2, 8),
    "seg": (5, 4),
    "lane": (2, 4),
    "drive": (3, 8),
    "depth": (1, 4),
    "car": (12, 0),
}
"""Outputs: parts of the networks that the tasks are for."""

pytestmark = [pytest.mark.system, pytest.mark.slow]

BIASES = np.reshape([8, 12, 20, 10, 24, 30, 40, 20], (2, ANCHORS, 2))


def ofa_text(strides: str = "stride: 8 stride: 16") -> str:
    biases = " ".join(f"biases: {bias}" for bias in BIASES.ravel())
    return (
        f"model_type: YOLOv5 yolo_v5_param {{ yolo_param {{ num_classes: {CLASSES} anchorCnt:"
        f" {ANCHORS} conf_threshold: {CONF} nms_threshold: {NMS} {biases} layer_name:"
        f' "coarse" layer_name: "fine" }} {strides} max_boxes_num: 25 max_nms_num: 9 }}'
    )


def test_ofa_yolo(program, xmodel, tmp_path):
    """A picture half as wide fills the middle of the input, and boxes are shares of the picture."""
    colour = np.array([250, 20, 60], np.uint8)
    path = tmp_path / "small.ppm"
    path.write_bytes(b"P6 11 16 255\n" + bytes(colour[::-1]) * 11 * 16)
    net = prepared(xmodel, tmp_path, ofa_text())
    fitted = np.full((HEIGHT, WIDTH, 3), 114, np.uint8)
    fitted[:, 13:35] = colour
    named = results(xmodel, fitted, HEADS, rgb=True)
    boxes, scores = [], []
    for number, (name, stride) in enumerate({"fine": 8, "coarse": 16}.items()):
        height, width, _ = named[name].shape
        rows, columns, anchors = np.mgrid[:height, :width, :ANCHORS].reshape(3, -1)
        fields = named[name].reshape(-1, 5 + CLASSES)
        centre = (2 * sigmoid(fields[:, :2]) - 0.5 + np.stack([columns, rows], 1)) * stride
        size = (2 * sigmoid(fields[:, 2:4])) ** 2 * BIASES[number][anchors]
        boxes.append(np.concatenate([centre - size / 2, centre + size / 2], 1))
        scores.append(sigmoid(fields[:, 4:5]) * sigmoid(fields[:, 5:]))
    box, score = np.concatenate(boxes), np.concatenate(scores)
    place, label = np.nonzero(score > CONF)
    first = np.argsort(-score[place, label], kind="stable")[:25]
    assert len(place) > 25
    place, label = place[first], label[first]
    expected = []
    for number in range(CLASSES):
        chosen = place[label == number]
        for i in remaining(box[chosen], score[chosen, number]):
            low, high = np.split((box[chosen[i]] - (13, 0, 13, 0)) / (22, 32, 22, 32), 2)
            expected.append((number, score[chosen[i], number], *low, *(high - low)))
    assert len(expected) > 9
    expected = sorted(expected, key=lambda row: -row[1])[:9]
    same(numbers(told(program, "ofayolo", net, path)).tolist(), expected)


@pytest.mark.parametrize(
    ("kind", "name"), [("VEHICLE_MAKE", "gmc,"), ("VEHICLE_TYPE", "crossover,")]
)
def test_cars(program, xmodel, picture, tmp_path, kind, name):
    names = {
        "VEHICLE_MAKE": {9: "gmc,", 0: "acura,"},
        "VEHICLE_TYPE": {11: "convertible", 10: "crossover,", 0: "MPV,"},
    }
    text = f'layer_name: "car" top_k: 12 label_type: "{kind}"'
    path = prepared(xmodel, tmp_path, f"vehicleclassification_param {{ {text} }}")
    score = softmax(results(xmodel, picture[1], HEADS, rgb=True)["car"].ravel())
    lines = [line.split(maxsplit=2) for line in told(program, "vehicle", path, picture[0])]
    order = np.argsort(-score, kind="stable")
    assert [int(line[0]) for line in lines] == order.tolist()
    np.testing.assert_allclose([float(line[1]) for line in lines], score[order], rtol=1e-5)
    seen = {int(line[0]): line[2] for line in lines}
    assert names[kind].items() <= seen.items()
    assert name in seen.values()


FOCAL, CENTRE, UP, PITCH, YAW = (40.0, 36.0), (21.0, 7.0), 1.5, 4.0, 1.5
LEFT, RIGHT, TOP, BOTTOM = 0, 39, 11, 23


def rotation() -> np.ndarray:
    """Return the camera's axes (right, down, ahead) in those of the road (right, ahead, up)."""
    (sp, sy), (cp, cy) = np.sin(np.radians([PITCH, YAW])), np.cos(np.radians([PITCH, YAW]))
    return np.array([[cy, -sy, 0], [-sp * sy, -sp * cy, -cp], [cp * sy, cp * cy, -sp]])


def seen_from_above(height: int, width: int) -> np.ndarray:
    """Return for each pixel of the road from above the number of the camera's."""
    (sp, sy), (cp, cy) = np.sin(np.radians([PITCH, YAW])), np.cos(np.radians([PITCH, YAW]))
    middle = int(FOCAL[0] * sy * cy / cp * (1 + sp) + CENTRE[0] * cy)
    corners = np.array([(middle, TOP), (RIGHT, TOP), (LEFT, TOP), (middle, BOTTOM)])
    ways = np.append((corners - CENTRE) / FOCAL, np.ones((4, 1)), 1) @ rotation()
    ground = ways[:, :2] * (-UP / ways[:, 2:])
    low, high = ground.min(0), ground.max(0)
    steps = (high - low) / (width, height)
    row, column = np.mgrid[:height, :width]
    x, y = low[0] + (column + 0.5) * steps[0], high[1] - (row + 0.5) * steps[1]
    points = np.stack([x, y, np.full_like(x, -UP)], -1) @ rotation().T
    u, v = np.moveaxis(points[..., :2] / points[..., 2:] * FOCAL + CENTRE, -1, 0)
    u = np.where((u > LEFT) & (u < RIGHT), u, 0).astype(int)
    v = np.where((v > TOP) & (v < BOTTOM), v, 0).astype(int)
    return v * width + u


def middles(kinds: np.ndarray) -> np.ndarray:
    """Return the map with nothing but the middles of what is of one kind in each row."""
    seeds = np.zeros_like(kinds)
    for row, line in enumerate(kinds):
        cuts = np.concatenate([[0], np.nonzero(np.diff(line))[0] + 1, [len(line)]])
        for first, end in itertools.pairwise(cuts):
            if line[first] and end - first > 1:
                seeds[row, end - 1 - (end - first) // 2] = line[first]
    return seeds


def lines_of(kinds: np.ndarray) -> list[tuple[int, list[tuple[int, int]]]]:
    """Return type and points of the lines of a map."""
    height, width = kinds.shape
    seeds = middles(kinds)
    source = seen_from_above(height, width)
    above = seeds.ravel()[source]
    owner = np.zeros_like(above)
    for row, column in np.argwhere(above > 0)[::-1]:
        if not owner[row, column]:
            owner[row, column] = owner.max() + 1
        part = np.s_[max(row - 6, 0) : row + 7, max(column - 2, 0) : column + 3]
        owner[part] = np.where((above[part] > 0) & (owner[part] == 0), owner[row, column],
                               owner[part])  # fmt: skip
    back = np.zeros(height * width, int)
    for place, number in zip(source.ravel(), owner.ravel(), strict=True):
        back[place] = number
    made = []
    for number in range(1, back.max() + 1):
        places = np.nonzero(back == number)[0]
        if not len(places):
            break
        votes, kind, lead = kinds.ravel()[places][1:], -1, 0
        for vote in votes:
            kind = vote if lead == 0 else kind
            lead += 1 if vote == kind else -1
        x, y = places % width * 8 + 4, places // width * 8 + 4
        slope, offset = np.polyfit(x, y, 1) if np.ptp(x) else (0.0, 0.0)
        columns = np.arange(x.min(), x.max() + 1)
        made.append((int(kind), columns, offset + slope * columns))
    return made


def roadline_text() -> str:
    fields = {
        "ratio": 8, "ipm_width": 40, "ipm_height": 24, "ipm_left": LEFT, "ipm_right": RIGHT,
        "ipm_top": TOP, "ipm_bottom": BOTTOM, "ipm_interpolation": 0, "ipm_vp_portion": 0,
        "focal_length_x": FOCAL[0], "focal_length_y": FOCAL[1], "optical_center_x": CENTRE[0],
        "optical_center_y": CENTRE[1], "camera_height": UP, "pitch": PITCH, "yaw": YAW,
    }  # fmt: skip
    text = " ".join(f"{name}: {value}" for name, value in fields.items())
    return f'model_type: ROADLINE roadline_param {{ {text} layer_name: "line" }}'


def test_lines_on_roads(program, tmp_path):
    size, heads = (96, 160), {"line": (4, 4)}
    xmodel = ai_library.compiled(heads, tmp_path / "lines.xmodel", size=size)
    picture = ai_library.noise(tmp_path, size)
    path = prepared(xmodel, tmp_path, roadline_text())
    kinds = results(xmodel, picture[1], heads, rgb=False)["line"].argmax(-1)
    expected = lines_of(kinds)
    assert len(expected) > 3
    assert len({kind for kind, _, _ in expected}) > 1
    seen = [
        [int(n) for n in line.split()] for line in told(program, "lines", path, picture[0], size)
    ]
    assert [line[0] for line in seen] == [kind for kind, _, _ in expected]
    for line, (_, columns, heights) in zip(seen, expected, strict=True):
        assert line[1::2] == columns.tolist()
        np.testing.assert_allclose(line[2::2], np.trunc(heights), atol=1)
    run(program, "lines", path, picture[0], tmp_path / "kept/lines")
    rows, columns = np.nonzero(middles(kinds))
    for name, wanted in (("datase", kinds.ravel()), ("seedx", rows), ("seedy", columns)):
        written = (tmp_path / "kept/lines" / f"{name}.txt").read_text().splitlines()
        assert written == [" ".join(map(str, wanted)) + " "] * 3, name


PRIORS = (8.0, 14.0)
PRIOR = (
    f"prior_box_param {{ layer_width: {WIDTH // 8} layer_height: {HEIGHT // 8} offset: 0.5 "
    f"min_sizes: {PRIORS[0]} max_sizes: {PRIORS[1]} step_width: 5 step_height: 5 "
    "variances: 0.1 variances: 0.1 variances: 0.2 variances: 0.2 } "
)


def from_priors(code: np.ndarray) -> np.ndarray:
    """Return corners of boxes within the image; a prior box's step is that of its map."""
    rows, columns, shapes = np.mgrid[: HEIGHT // 8, : WIDTH // 8, :2].reshape(3, -1)
    place = np.stack([(columns + 0.5) / (WIDTH // 8), (rows + 0.5) / (HEIGHT // 8)], 1)
    side = np.array([PRIORS[0], np.sqrt(np.prod(PRIORS))])[shapes][:, None] / (WIDTH, HEIGHT)
    centre, sides = place + 0.1 * code[:, :2] * side, side * np.exp(0.2 * code[:, 2:])
    return np.clip(np.concatenate([centre - sides / 2, centre + sides / 2], 1), 0, 1)


def multi_text(**changed: str) -> str:
    names = {"loc": "place", "conf": "kind", "centerness": "middle", "seg": "seg", "lane": "lane",
             "drivable": "drive", "depth": "depth"} | changed  # fmt: skip
    named = " ".join(f'{field}_name: "{name}"' for field, name in names.items() if name)
    levels = "th_conf: 0.1 " + f"th_conf: {CONF} " * (CLASSES - 1)
    colours = "".join(
        f'color{i}: "{" ".join(map(str, line))}" ' for i, line in enumerate(COLOURS, 1)
    )
    return (
        f"model_type: MULTI_TASK multi_task_param {{ num_of_detection_classes: {CLASSES} {PRIOR}"
        f" {named} nms_threshold: {NMS} top_k: 30 keep_top_k: 20 {levels} }} "
        f"segmentation_param {{ {colours} }}"
    )


COLOURS = np.random.default_rng(14).integers(0, 256, (3, 5))


@pytest.mark.parametrize("kind", ["multitask", "multicolour"])
def test_multitask(program, xmodel, picture, tmp_path, kind):
    """No class is the background; the first one's threshold is at least the others' least."""
    path = prepared(xmodel, tmp_path, multi_text())
    named = results(xmodel, picture[1], HEADS, rgb=True)
    box = from_priors(named["place"].reshape(-1, 4))
    score = sigmoid(named["kind"].reshape(-1, CLASSES)) * sigmoid(named["middle"].reshape(-1, 1))
    expected = []
    for label in range(CLASSES):
        (chosen,) = np.nonzero(score[:, label] > CONF)
        chosen = chosen[np.argsort(-score[chosen, label], kind="stable")][:30]
        for i in remaining(box[chosen], score[chosen, label]):
            low, high = np.split(box[chosen[i]], 2)
            expected.append((label, score[chosen[i], label], *low, *(high - low), 0))
    expected = sorted(expected, key=lambda row: -row[1])[:20]
    assert {row[0] for row in expected} == {0, 1, 2}
    lines = told(program, kind, path, picture[0])
    same(numbers(lines[:-4]).tolist(), expected)
    seen = [np.array(line.split()[1:], int) for line in lines[-4:]]
    for pixels, name in zip(seen, ("seg", "lane", "drive"), strict=False):
        labels = named[name].argmax(-1).ravel()
        wanted = COLOURS.T[labels].ravel() if kind == "multicolour" else labels
        np.testing.assert_array_equal(pixels, wanted)
    depth = named["depth"].ravel()
    if kind == "multicolour":
        depth = 3 * np.clip(80 * sigmoid(depth), 1, 80)
    np.testing.assert_allclose(seen[3], np.trunc(np.maximum(depth, 0)), atol=1)
    assert len(np.unique(seen[3])) > 1


def test_what_is_refused(program, xmodel, picture, tmp_path):
    def refusal(kind: str, text: str) -> str:
        path = prepared(xmodel, tmp_path, text)
        done = run(program, kind, path, picture[0], check=False)
        assert done.returncode == 3
        return done.stderr

    message = refusal("ofayolo", ofa_text(strides="stride: 8"))
    assert "there are 1 strides, but 2 outputs" in message
    message = refusal("ofayolo", ofa_text().replace("biases: 20", "", 1))
    assert "there are 7 biases, but must be 8" in message
    message = refusal("ofayolo", ofa_text().replace("anchorCnt: 2", "anchorCnt: 1"))
    assert "has 16 channels, but anchorCnt is 1 and num_classes 3" in message
    message = refusal("vehicle", 'vehicleclassification_param { layer_name: "nowhere" }')
    assert "no output has 'nowhere' in its name" in message
    message = refusal("multitask", multi_text(centerness=""))
    assert "multi_task_param has no loc_name, no conf_name or no centerness_name" in message
    assert "multi_task_param has no lane_name" in refusal("multitask", multi_text(lane=""))
    message = refusal("multitask", multi_text(centerness="lane"))
    assert "there are 48 prior boxes, but outputs have 192 values of centerness" in message
    message = refusal("lines", roadline_text().replace('"line"', '"seg"'))
    assert "is 8x12x5, but must be 24x40x4, as ipm_height and ipm_width" in message
    message = refusal("lines", roadline_text().replace("ipm_width: 40", "ipm_width: 4e9"))
    assert "roadline_param's ipm_width is 4000000000.000000, but must be 1 to 8192" in message
    message = refusal("lines", "model_type: ROADLINE_DEEPHI")
    assert "is of type ROADLINE_DEEPHI, but only ROADLINE is known" in message
    message = refusal("lines", roadline_text().replace("focal_length_x: 40.0", ""))
    assert "focal_length_x and focal_length_y must be 1 or more" in message
