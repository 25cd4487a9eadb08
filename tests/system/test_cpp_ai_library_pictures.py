# SPDX-License-Identifier: Apache-2.0
"""Tasks of the AI Library in C++ for persons, faces, roads and pictures, against NumPy's."""

import itertools
import pathlib
import sys

import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).parent))

import ai_library
from ai_library import (
    HEIGHT,
    NMS,
    WIDTH,
    numbers,
    prepared,
    results,
    run,
    sigmoid,
    softmax,
    told,
)

SOURCE = pathlib.Path(__file__).with_name("cpp") / "pictures.cpp"
FACES = {
    f"{what}{stride}": (channels, stride)
    for stride in (8, 16)
    for what, channels in {
        "box_at": 8, "mark_at": 20, "none0_at": 1, "face0_at": 1, "none1_at": 3, "face1_at": 1,
    }.items()
}  # fmt: skip
"""Two anchors at two strides; the second's background is the largest of three values."""
HEADS = {
    "limb": (26, 8),
    "joint": (15, 8),
    "heat": (17, 4),
    "centre": (1, 4),
    "toward": (34, 4),
    "within": (34, 4),
    **FACES,
}

pytestmark = [pytest.mark.system, pytest.mark.slow]


def cubic(number: int, times: int) -> np.ndarray:
    """Return what each of ``number * times`` values is made of: Keys' kernel with a = -0.75."""
    place = (np.arange(number * times) + 0.5) / times - 0.5
    rows = np.zeros((number * times, number))
    for tap in range(-1, 3):
        source = np.floor(place).astype(int) + tap
        d = np.abs(place - source)
        near, far = 1.25 * d**3 - 2.25 * d**2 + 1, -0.75 * (d**3 - 5 * d**2 + 8 * d - 4)
        np.add.at(
            rows, (np.arange(len(place)), source.clip(0, number - 1)), np.where(d <= 1, near, far)
        )
    return rows


def enlarged(maps: np.ndarray, times: int) -> np.ndarray:
    """Return maps, the channels first."""
    height, width, _ = maps.shape
    return np.einsum("yh,hwc,xw->cyx", cubic(height, times), maps, cubic(width, times))


def blurred(plane: np.ndarray) -> np.ndarray:
    kernel = np.exp(-(np.arange(-1, 2) ** 2) / 18)
    kernel /= kernel.sum()
    wide = np.pad(plane, 1, mode="reflect")
    height, width = plane.shape
    return sum(
        kernel[dy] * kernel[dx] * wide[dy : dy + height, dx : dx + width]
        for dy, dx in itertools.product(range(3), range(3))
    )


def peaks(plane: np.ndarray) -> np.ndarray:
    """Return x, y and the likelihood of every peak, row by row."""
    soft = blurred(plane)
    inner = soft[1:-1, 1:-1]
    beside = [soft[:-2, 1:-1], soft[2:, 1:-1], soft[1:-1, :-2], soft[1:-1, 2:]]
    y, x = np.nonzero((inner > 0.1) & np.all([inner >= one for one in beside], 0))
    return np.stack([x + 1, y + 1, plane[y + 1, x + 1]], 1)


def limb_score(a: np.ndarray, b: np.ndarray, field: np.ndarray) -> float:
    way = a[:2] - b[:2]
    length = np.linalg.norm(way)
    if length == 0:
        return 0.0
    points = a[:2] - np.arange(10)[:, None] / 9 * way
    x, y = np.trunc(points + np.copysign(0.5, points)).astype(int).T
    agreement = np.abs(field[:, y, x].T @ (way / length))
    if not (agreement > 0.05).sum() > 8:
        return 0.0
    return agreement.mean() + min(WIDTH / 2 / length - 1, 0)


CHAINS = [(0, 1, 2, 3, 4), (1, 5, 6, 7), (1, 8, 9, 10), (1, 11, 12, 13)]


def persons(joints: np.ndarray, fields: np.ndarray) -> list[dict[int, tuple[float, float]]]:
    """Return the places of the joints that each person has."""
    found = [peaks(plane) for plane in joints[:14]]
    everybody: list[dict[int, int]] = []
    total: list[float] = []
    limbs = [pair for chain in CHAINS for pair in itertools.pairwise(chain)]
    for number, (first, second) in enumerate(limbs):
        field = fields[2 * number : 2 * number + 2]
        scores = np.array(
            [[limb_score(a, b, field) for b in found[second]] for a in found[first]]
        ).reshape(len(found[first]), len(found[second]))
        while scores.size and scores.max() > 0:
            i, j = np.unravel_index(scores.argmax(), scores.shape)
            score = scores[i, j]
            scores[i, :] = scores[:, j] = 0
            owners = [k for k, person in enumerate(everybody) if person.get(first) == i]
            if not owners:
                owners = [len(everybody)]
                everybody.append({first: i})
                total.append(found[first][i, 2])
            everybody[owners[0]][second] = j
            total[owners[0]] += found[second][j, 2] + score
    return [
        {joint: tuple(found[joint][peak, :2]) for joint, peak in person.items()}
        for person, score in zip(everybody, total, strict=True)
        if len(person) >= 4 and score / len(person) >= 0.4
    ]


def test_persons(program, picture, tmp_path):
    """Maps here are twice as fine as OpenPose's, so that there is room for several persons."""
    heads = {"limb": (26, 4), "joint": (15, 4)}
    xmodel = ai_library.compiled(heads, tmp_path / "persons.xmodel")
    text = 'model_type: OPENPOSE open_pose_param { layer_name: "limb" layer_name: "joint" }'
    path = prepared(xmodel, tmp_path, text)
    named = results(xmodel, picture[1], heads, rgb=False)
    expected = persons(enlarged(named["joint"], 8), enlarged(named["limb"], 8))
    assert len(expected) >= 2, "the network finds too little for a test"
    seen = numbers(told(program, "openpose", path, picture[0])).reshape(-1, 14, 3)
    assert not seen[0].any()
    found = [
        {i: tuple(point[1:]) for i, point in enumerate(person) if point[0] == 1}
        for person in seen[:0:-1]
    ]
    assert set(seen[1:, :, 0].ravel()) <= {1, 3}
    assert found == expected


def test_joints_of_one_person(program, picture, tmp_path):
    heads = {"hour": (16, 4)}
    xmodel = ai_library.compiled(heads, tmp_path / "hourglass.xmodel")
    path = prepared(xmodel, tmp_path, "model_type: HOURGLASS")
    maps = enlarged(results(xmodel, picture[1], heads, rgb=True)["hour"], 4)[:, 1:-1, 1:-1]
    seen = numbers(told(program, "hourglass", path, picture[0]))
    best = maps.reshape(16, -1).argmax(1)
    places = np.stack(np.unravel_index(best, maps.shape[1:])[::-1], 1) + 1
    has = maps.max((1, 2)) > 0.001
    assert has.sum() > 8
    np.testing.assert_array_equal(seen[:, 0], has)
    np.testing.assert_array_equal(seen[:, 1:], np.where(has[:, None], places, 0))


def test_joints_near_the_middle(program, xmodel, picture, tmp_path):
    height, width = HEIGHT // 4, WIDTH // 4
    weight = np.random.default_rng(16).uniform(0.1, 1, height * width).astype(np.float32)
    text = "".join(f'layer_name: "{name}" ' for name in ("heat", "centre", "toward", "within"))
    text += "".join(f"center_weight: {value} " for value in weight)
    text = f"model_type: MOVENET movenet_param {{ conf_threshold: 0.95 {text} }}"
    path = prepared(xmodel, tmp_path, text)
    named = results(xmodel, picture[1], HEADS, rgb=True)
    heat = sigmoid(named["heat"]).reshape(-1, 17)
    middle = (sigmoid(named["centre"]).ravel() * weight).argmax()
    cells = np.stack(np.divmod(np.arange(height * width), width)[::-1], 1)
    toward = named["toward"].reshape(-1, 17, 2)[middle] + 0.5 + cells[middle]
    apart = np.sqrt(np.trunc((cells[:, None] - toward) ** 2).sum(-1))
    nearest = (heat / (apart + 1.8)).argmax(0)
    joints = np.arange(17)
    place = cells[nearest] + named["within"].reshape(-1, 17, 2)[nearest, joints]
    sure = heat[nearest, joints] >= 0.95
    assert 3 < sure.sum() < 17
    expected = np.where(sure[:, None], place / width, -1) * (WIDTH, HEIGHT)
    seen = numbers(told(program, "movenet", path, picture[0]))
    np.testing.assert_allclose(seen, expected, rtol=1e-5, atol=1e-4)


SCALES = {8: (2, 1), 16: (8, 3)}
BASE = 4


def faces_text() -> str:
    """Return what a .prototxt says of RetinaFace's outputs and anchors."""
    kinds = {"box_at": "BBOX", "mark_at": "LANDMARK"}
    parts = []
    for name, (_, stride) in FACES.items():
        what = name.removesuffix(str(stride))
        anchor = ""
        if what not in kinds:
            of = "FG" if what.startswith("face") else "BG"
            anchor = f"output_anchor_info {{ type: {of} index: {what[4]} }}"
        kind = kinds.get(what, "CONF")
        parts.append(f'output_info {{ type: {kind} stride: {stride} name: "{name}" {anchor} }}')
    for stride, scales in SCALES.items():
        sizes = " ".join(f"scales: {scale}" for scale in scales)
        parts.append(f"anchor_param {{ stride: {stride} base_size: {BASE} ratios: 1 {sizes} }}")
    limits = f"det_threshold: 0.6 nms_threshold: {NMS}"
    return f"model_type: RETINAFACE retinaface_param {{ {' '.join(parts)} {limits} }}"


def test_faces_with_points(program, xmodel, picture, tmp_path):
    path = prepared(xmodel, tmp_path, faces_text())
    named = results(xmodel, picture[1], HEADS, rgb=True)
    found = []
    for stride in (16, 8):
        at = {
            name[: -len(str(stride))]: named[name] for name in FACES if name.endswith(str(stride))
        }
        rows, columns, anchor = np.mgrid[: HEIGHT // stride, : WIDTH // stride, :2].reshape(3, -1)
        pairs = np.stack(
            [at[f"{what}{i}_at"].max(-1).ravel() for i in range(2) for what in ("none", "face")], 1
        )
        score = softmax(pairs.reshape(-1, 2))[:, 1]
        side = BASE * np.array(SCALES[stride])[anchor][:, None]
        middle = (BASE - 1) / 2 + stride * np.stack([columns, rows], 1)
        code = at["box_at"].reshape(-1, 4)
        size = side * np.exp(code[:, 2:]) - 1
        corner = middle + code[:, :2] * side - size / 2
        points = middle[:, None] + at["mark_at"].reshape(-1, 5, 2) * side[:, None]
        found.append(
            np.concatenate([score[:, None], corner, size, points.reshape(-1, 10)], 1)
            / [1, *(WIDTH, HEIGHT) * 7]
        )
    rows = np.concatenate(found)
    rows = rows[rows[:, 0] >= 0.6]
    # Boxes are compared as if their corners were their centres.
    low, high = rows[:, 1:3] - rows[:, 3:5] / 2, rows[:, 1:3] + rows[:, 3:5] / 2
    kept = rows[ai_library.remaining(np.concatenate([low, high], 1), rows[:, 0])]
    assert len(kept) < len(rows)
    seen = numbers(told(program, "retinaface", path, picture[0]))
    assert seen.shape == kept.shape
    np.testing.assert_allclose(
        seen[np.lexsort(seen.round(3).T)], kept[np.lexsort(kept.round(3).T)], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("kind", ["day", "night", "raw"])
def test_the_quality_of_faces(program, picture, tmp_path, kind):
    heads = {"corners": (10, 0), "good": (1, 0)}
    xmodel = ai_library.compiled(heads, tmp_path / "quality.xmodel")
    text = 'point_layer_name: "corners" quality_layer_name: "good" '
    text += "original_quality: true" if kind == "raw" else ""
    path = prepared(
        xmodel, tmp_path, f"model_type: FACEQUALITY5PT face_quality5pt_param {{ {text} }}"
    )
    named = results(xmodel, picture[1], heads, rgb=False)
    value = named["good"].item()
    limit = {"day": 600, "night": 400}
    score = value if kind == "raw" else sigmoid((3 * value - limit[kind]) / 150)
    points = named["corners"].reshape(2, 5).T / (WIDTH, HEIGHT)
    seen = numbers(told(program, "day" if kind == "raw" else kind, path, picture[0]))
    np.testing.assert_allclose(seen, [(score, 0), *points], rtol=1e-5, atol=1e-6)


ROWS = [121, 131, 141, 150, 160, 170, 180, 189, 199, 209, 219, 228, 238, 248, 258, 267, 277, 287]


def test_lanes(program, tmp_path):
    size = (32, 72)
    heads = {"lane": (4, 4)}
    xmodel = ai_library.compiled(heads, tmp_path / "lanes.xmodel", size=size)
    picture = ai_library.noise(tmp_path, size)
    path = prepared(xmodel, tmp_path, "")
    values = results(xmodel, picture[1], heads, rgb=True)["lane"]
    cells = len(values) - 1
    share = softmax(values[:-1].transpose(1, 2, 0))
    x = share @ np.arange(1, cells + 1) * (size[1] - 1) / (cells - 1)
    x[values.argmax(0) == cells] = 0
    assert 0 < (x > 0).sum() < x.size
    x = np.where((x > 0) & (x.sum(0) > 2), x - 1, -2)
    y = np.broadcast_to(np.array(ROWS)[:, None], x.shape)
    seen = numbers(told(program, "ultrafast", path, picture[0], size))
    np.testing.assert_allclose(
        seen, np.stack([x, y], -1).transpose(1, 0, 2).reshape(-1, 2), rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("order", ["RGB", "BGR"])
def test_larger_pictures(program, picture, tmp_path, order):
    heads = {"larger": (3, 4)}
    xmodel = ai_library.compiled(heads, tmp_path / "larger.xmodel")
    path = prepared(xmodel, tmp_path, f"order_type: {order} rcan_param {{ scale: 100 }}")
    step = ai_library.steps(xmodel, heads)["larger"]
    whole = results(xmodel, picture[1], heads, rgb=order == "RGB")["larger"] / step
    pixels = np.maximum(whole, 0) * int(step * 100) % 256
    if order == "RGB":
        pixels = pixels[..., ::-1]
    seen = numbers(told(program, "rcan", path, picture[0]))
    assert len(np.unique(seen)) > 9
    np.testing.assert_array_equal(seen.reshape(pixels.shape), pixels)


def test_classes_in_several_pictures(program, picture, tmp_path):
    heads = {"one": (3, 4), "two": (5, 8)}
    xmodel = ai_library.compiled(heads, tmp_path / "medical.xmodel")
    path = prepared(xmodel, tmp_path, "model_type: MEDICALSEGMENTATION")
    named = results(xmodel, picture[1], heads, rgb=False)
    lines = told(program, "medical", path, picture[0])
    shapes = [line.split()[1:] for line in lines if line.startswith("picture")]
    assert shapes == [[str(n) for n in named[name].shape[:2]] for name in heads]
    seen = [int(n) for line in lines if not line.startswith("picture") for n in line.split()]
    assert seen == [int(n) for name in heads for n in named[name].argmax(-1).ravel()]


def test_what_is_refused(program, xmodel, picture, tmp_path):
    def refusal(kind: str, text: str) -> str:
        path = prepared(xmodel, tmp_path, text)
        done = run(program, kind, path, picture[0], check=False)
        assert done.returncode == 3
        return done.stderr

    assert "open_pose_param has 0 layer_name, but must have two" in refusal("openpose", "")
    text = 'open_pose_param { layer_name: "joint" layer_name: "limb" }'
    assert "has 15 channels, but limbs have 26" in refusal("openpose", text)
    assert "movenet_param has 0 layer_name, but must have four" in refusal("movenet", "")
    names = "".join(f'layer_name: "{name}" ' for name in ("heat", "centre", "toward", "within"))
    message = refusal("movenet", f"movenet_param {{ {names} }}")
    assert "movenet_param has 0 center_weight, but there are 96 cells" in message
    message = refusal("movenet", f"movenet_param {{ {names.replace('within', 'limb')} }}")
    assert "is 4x6x26, but must be 8x12x34" in message
    assert "retinaface_param has no anchor_param" in refusal("retinaface", "")
    few = "retinaface_param { anchor_param { stride: 8 base_size: 8 ratios: 1 scales: 1 } }"
    assert "does not name all outputs of stride 8" in refusal("retinaface", few)
    text = faces_text().replace("index: 1", "index: 2")
    assert "is for anchor 2, but stride 16 has 2" in refusal("retinaface", text)
    text = faces_text().replace('"mark_at8"', '"box_at8"')
    assert "is 4x6x8, but stride 8 has 2 anchors in 4x6 cells" in refusal("retinaface", text)
    text = 'face_quality5pt_param { point_layer_name: "nowhere" }'
    assert "no output has 'nowhere' in its name" in refusal("day", text)
    assert "but must be a column for each of 18 rows" in refusal("ultrafast", "")
    assert "channels, but an image has three, of 8 bits" in refusal("rcan", "")
