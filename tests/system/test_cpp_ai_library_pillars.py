# SPDX-License-Identifier: Apache-2.0
"""PointPillars of the AI Library in C++, against NumPy."""

import pathlib
import sys

import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).parent))

import sensor_models
from ai_library import numbers, run, sigmoid
from sensor_models import compiled, point_of, prepared, results

SOURCE = sensor_models.SOURCE

pytestmark = [pytest.mark.system, pytest.mark.slow]

CELL, SIDE, MOST_PILLARS, MOST_POINTS = 0.5, 32, 60, 6
START, LENGTH = np.array([0, -8, -3.0]), np.array([16, 16, 4.0])
SIZES, ROTATIONS, CLASSES = ([1.6, 3.9, 1.56], [0.6, 1.76, 1.73]), (0, 1.57), 2
SCORE, OVERLAP, MOST = 0.4, 0.4, (80, 30)
CONFIG = f"""
model: {{ second: {{
  voxel_generator {{ point_cloud_range: [0, -8, -3, 16, 8, 1] voxel_size: [{CELL}, {CELL}, 4]
    max_number_of_points_per_voxel: {MOST_POINTS} }}
  num_class: {CLASSES} box_coder: {{ ground_box3d_coder: {{ linear_dim: false }} }}
  rpn: {{ layer_nums: [3, 5] layer_strides: [2, 2] }}
  post_center_limit_range: [2, -7, -5, 16, 8, 5]
  nms_pre_max_size: {MOST[0]} nms_post_max_size: {MOST[1]}
  nms_score_threshold: {SCORE} nms_iou_threshold: {OVERLAP}
  target_assigner: {{
    anchor_generators: {{ anchor_generator_stride: {{ sizes: {SIZES[0]} strides: [1, 1, 0]
      offsets: [0.5, -7.5, -1.78] rotations: [0, 1.57] matched_threshold: 0.6 }} }}
    anchor_generators: {{ anchor_generator_stride: {{ sizes: {SIZES[1]} strides: [1, 1, 0]
      offsets: [0.5, -7.5, -1.465] rotations: [0, 1.57] }} }} }}
}} }}
eval_input_reader: {{ class_names: ["Car", "Cyclist"] max_number_of_voxels: {MOST_PILLARS} }}
"""


@pytest.fixture(scope="module")
def pillar_models(tmp_path_factory) -> tuple[pathlib.Path, pathlib.Path]:
    rng, folder = np.random.default_rng(8), tmp_path_factory.mktemp("pillars")
    pillars = compiled(
        folder / "pillars.xmodel",
        (4, MOST_PILLARS, MOST_POINTS),
        [
            ("Conv", ["x", "w", "b"], "c", {}),
            ("Relu", ["c"], "r", {}),
            ("MaxPool", ["r"], "y", {"kernel_shape": [1, MOST_POINTS]}),
        ],
        {"w": rng.normal(0, 1, (8, 4, 1, 1)), "b": rng.normal(0, 0.3, 8)},
        {"y": (8, MOST_PILLARS, 1)},
        rng.uniform(0, 0.99, (4, 4, MOST_PILLARS, MOST_POINTS)),
    )
    anchors = len(SIZES) * len(ROTATIONS)
    heads = {"conv_box": 7 * anchors, "conv_cls": CLASSES * anchors, "conv_dir_cls": 2 * anchors}
    nodes = [("Conv", ["x", "w", "b"], "c", {"strides": [2, 2]}), ("Relu", ["c"], "r", {})]
    constants = {"w": rng.normal(0, 0.3, (16, 8, 2, 2)), "b": rng.normal(0, 0.3, 16)}
    for name, channels in heads.items():
        nodes.append(("Conv", ["r", f"{name}_w", f"{name}_b"], name, {}))
        constants[f"{name}_w"] = rng.normal(0, 0.15, (channels, 16, 1, 1))
        constants[f"{name}_b"] = rng.normal(-0.2 if name == "conv_cls" else 0, 0.1, channels)
    scene = compiled(
        folder / "scene.xmodel",
        (8, SIDE, SIDE),
        nodes,
        constants,
        {name: (channels, SIDE // 2, SIDE // 2) for name, channels in heads.items()},
        rng.uniform(0, 2, (4, 8, SIDE, SIDE)) * (rng.uniform(size=(4, 1, SIDE, SIDE)) < 0.1),
    )
    (folder / "pillars_officialcfg.prototxt").write_text(CONFIG)
    return prepared(pillars), prepared(scene)


def cloud() -> np.ndarray:
    """Return points of a few things, and some that are too far away or above."""
    rng = np.random.default_rng(9)
    places = rng.uniform(START[:2] + 1, START[:2] + LENGTH[:2] - 1, (12, 2))
    points = np.concatenate([rng.normal(place, 0.6, (30, 2)) for place in places])
    points = np.column_stack(
        [points, rng.uniform(-3.2, 1.2, len(points)), rng.uniform(0, 0.99, len(points))]
    )
    far = rng.uniform(20, 90, (40, 4)) * (1, 0.3, 0.01, 0.01)
    return rng.permutation(np.concatenate([points, far])).astype(np.float32)


def standing(points: np.ndarray, scale: float) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return elements of the first network's input, and where its pillars are."""
    elements = np.zeros((MOST_PILLARS, MOST_POINTS, 4))
    filled: dict[tuple[int, int], list[int]] = {}
    for point in np.float64(points):
        x, y, z = np.floor((point[:3] - START) / (CELL, CELL, 4)).astype(int)
        if not (0 <= x < SIDE and 0 <= y < SIDE and z == 0):
            continue
        if (y, x) not in filled:
            if len(filled) == MOST_PILLARS:
                continue
            filled[y, x] = [len(filled), 0]
        number, count = filled[y, x]
        if count == MOST_POINTS:
            continue
        shares = np.append((point[:3] - START) / LENGTH, point[3]) * scale
        elements[number, count] = np.floor(shares + 0.5)
        filled[y, x][1] += 1
    return np.int64(elements).astype(np.int8), list(filled)


def expected_boxes(pillars, scene, points: np.ndarray) -> list[list[float]]:
    """Return label, score and box of what is found, by falling score."""
    elements, places = standing(points, 2.0 ** point_of(pillars))
    assert len(places) == MOST_PILLARS, "not all points have a pillar"
    (features,) = results(pillars, elements).values()
    image = np.zeros((SIDE, SIDE, 8))
    rows, columns = np.array(places).T
    image[rows, columns] = np.trunc(features[:, 0] * 2.0 ** point_of(scene))
    named = results(scene, image)
    (box,) = (v.reshape(-1, 7) for name, v in named.items() if "box" in name)
    (cls,) = (v.reshape(-1, CLASSES) for name, v in named.items() if "conv_cls" in name)
    (way,) = (v.reshape(-1, 2) for name, v in named.items() if "dir" in name)

    row, column, size, turn = np.mgrid[: SIDE // 2, : SIDE // 2, :2, :2].reshape(4, -1)
    middle = np.array([-1.78, -1.465])[size]
    centre = np.stack([column + 0.5, row - 7.5, middle], 1)
    extent, angle = np.array(SIZES)[size], np.array(ROTATIONS)[turn]
    half = np.where(turn[:, None], extent[:, 1::-1], extent[:, :2]) / 2
    low = np.floor((centre[:, :2] - half - START[:2]) / CELL).clip(0, SIDE - 1).astype(int)
    high = np.floor((centre[:, :2] + half - START[:2]) / CELL).clip(0, SIDE - 1).astype(int)
    there = np.zeros((SIDE, SIDE), int)
    there[rows, columns] = 1
    near = [
        there[y0 + 1 : y1 + 1, x0 + 1 : x1 + 1].sum() > 1
        for (x0, y0), (x1, y1) in zip(low, high, strict=True)
    ]
    assert not all(near)
    diagonal = np.hypot(extent[:, 0], extent[:, 1])[:, None]
    scale = np.concatenate([diagonal, diagonal, extent[:, 2:]], 1)
    place = box[:, :3] * scale + centre + [0, 0, 1] * extent / 2
    sides = np.exp(box[:, 3:6]) * extent
    place[:, 2] -= sides[:, 2] / 2
    turned = box[:, 6] + angle

    best = cls.max(1)
    order = [i for i in np.argsort(-best, kind="stable") if near[i] and sigmoid(best[i]) >= SCORE]
    assert len(order) > MOST[0], "the network finds too little"
    c, s = np.abs(np.cos(turned)), np.abs(np.sin(turned))
    reach = np.stack([sides[:, 0] * c + sides[:, 1] * s, sides[:, 0] * s + sides[:, 1] * c], 1) / 2
    kept: list[int] = []
    for i in order[: MOST[0]]:
        overlaps = [0.0]
        for k in kept:
            common = np.minimum(place[[i, k], :2] + reach[[i, k]], np.inf).min(0)
            common -= (place[[i, k], :2] - reach[[i, k]]).max(0)
            shared = np.prod(np.maximum(common + 1, 0))
            areas = np.prod(2 * reach[[i, k]] + 1, 1)
            overlaps.append(shared / (areas.sum() - shared))
        if max(overlaps) < OVERLAP and len(kept) < MOST[1]:
            kept.append(i)
    flipped = (turned > 0) != (way[:, 0] < way[:, 1])
    turned = turned + np.pi * flipped
    return [[cls[i].argmax(), sigmoid(best[i]), *place[i], *sides[i], turned[i]] for i in kept]


@pytest.fixture(scope="module")
def drawn(program, pillar_models, tmp_path_factory) -> tuple[list[str], pathlib.Path]:
    folder = tmp_path_factory.mktemp("drawn")
    cloud().tofile(folder / "points")
    arguments = (*pillar_models, folder / "points", 80, 120, folder / "drawn")
    return run(program, "pillars", *arguments).stdout.splitlines(), folder / "drawn"


def test_boxes_in_points(pillar_models, drawn):
    expected = expected_boxes(*pillar_models, cloud())
    assert len(expected) >= 4 and {row[0] for row in expected} == {0, 1}
    size, *lines = drawn[0]
    assert size == f"size {SIDE} {SIDE} {len(expected)}"
    found = numbers(lines[: len(expected)])
    assert (np.diff(found[:, 1]) <= 0).all()
    key = lambda row: tuple(np.round(row, 3))  # noqa: E731
    np.testing.assert_allclose(
        sorted(found.tolist(), key=key), sorted(expected, key=key), rtol=1e-4, atol=1e-4
    )


def test_boxes_in_photos_and_from_above(drawn):
    lines, target = drawn
    number = int(lines[0].split()[3])
    found, told = numbers(lines[1 : 1 + number]), lines[1 + number :]
    corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (0, -1) for z in (-0.5, 0.5)])
    expected, shown = [], []
    for label, score, x, y, z, w, length, h, angle in found:
        c, s = np.cos(angle), np.sin(angle)
        whole = corners * (length, h, w) @ np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])
        whole += (-y, -z, x)
        seen = whole[:, :2] / whole[:, 2:] * 100 + (60, 40)
        low, high = seen.min(0), seen.max(0)
        if (low > (120, 80)).any() or (high < 0).any() or x < 2 or y < -7 or z < -5:
            continue
        box = [*np.maximum(low, 0).astype(int), *np.minimum(high, (120, 80)).astype(int)]
        alpha = -np.arctan2(-y, x) + angle
        expected.append([("Car", "Cyclist")[int(label)], label, *box, alpha, score, -y, -z, x])
        shown.append((label, x, y))
    assert len(expected) == len(told) >= 2
    for line, (name, *rest) in zip(told, expected, strict=True):
        first, *words = line.split()
        assert first == name
        np.testing.assert_allclose(np.float64(words), rest, rtol=1e-3, atol=1.001e-3)
    colours = {0: [0, 255, 255], 1: [255, 0, 255]}
    view = np.fromfile(f"{target}.view", np.uint8).reshape(512, 1024, 3)[::-1, ::-1]
    for label, x, y in shown:  # a line from the middle of each box forward
        row, column = int(x / (40 / 512)), int(np.floor(y / (40 / 512))) + 512
        assert view[row, column].tolist() in list(colours.values()), (label, row, column)
    photo = np.fromfile(f"{target}.photo", np.uint8).reshape(-1, 3)
    used = {tuple(colour) for colour in photo.tolist()} - {(0, 0, 0)}
    assert used and used <= {tuple(colour) for colour in colours.values()}


def test_points_from_above(drawn):
    view = np.fromfile(f"{drawn[1]}.points", np.uint8).reshape(512, 1024, 3)
    points = cloud()
    inside = (points[:, 0] >= 0) & (points[:, 0] <= 80)
    points = points[inside & (np.abs(points[:, 1]) <= 40) & (np.abs(points[:, 2]) <= 3)]
    cells: dict[tuple[int, int], list[np.ndarray]] = {}
    for point in points:
        row, column = np.int64(np.floor(point[:2] / np.float32(40 / 512))) + np.array([0, 512])
        if row < 512 and column < 1024:
            cells.setdefault((row, column), []).append(point)
    assert np.count_nonzero(view.any(-1)) == len(cells) > 100
    for (row, column), group in cells.items():
        top = max(group, key=lambda point: point[2])
        dense = min(255, 255 / np.log(64) * np.log(len(group)))
        expected = [top[3] * 255, top[2] / 42.5 + 127.5, dense]
        np.testing.assert_allclose(view[row, column], expected, atol=1.001)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("voxel_size: [0.5, 0.5, 4]", "voxel_size: [0.5]", "must have a voxel_generator with a"),
        ("voxel_size: [0.5, 0.5, 4]", "voxel_size: [0, 0.5, 4]", "up to 100000 cells"),
        (
            "voxel_size: [0.5, 0.5, 4]",
            "voxel_size: [1, 1, 4]",
            " values, but there are 256 anchors",
        ),
        (
            "range: [0, -8, -3, 16, 8, 1]",
            "range: [0, 0, -3, 32, 8, 1]",
            " has 32x32 cells, but the",
        ),
        ("num_class: 2", "num_class: 3", " values, but there are 1024 anchors, each with 3"),
        ("layer_strides: [2, 2]", "", "must have an rpn with layer_strides"),
        ('"Car", "Cyclist"', '"Car"', "must have class_names for num_class classes"),
    ],
)
def test_what_does_not_fit_pillars(program, pillar_models, tmp_path, old, new, message):
    pillars, scene = pillar_models
    copied = tmp_path / pillars.name
    for path in (pillars, pillars.with_suffix(".prototxt")):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert old in CONFIG
    (tmp_path / "pillars_officialcfg.prototxt").write_text(CONFIG.replace(old, new))
    (tmp_path / "points").write_bytes(b"")
    done = run(
        program, "pillars", copied, scene, tmp_path / "points", 80, 120, tmp_path / "x", check=False
    )
    assert done.returncode == 3
    assert message in done.stderr
