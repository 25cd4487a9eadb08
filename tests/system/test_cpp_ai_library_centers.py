# SPDX-License-Identifier: Apache-2.0
"""CenterPoint of the AI Library in C++, against NumPy."""

import pathlib
import sys

import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).parent))

import sensor_models
from ai_library import numbers, run, sigmoid
from sensor_models import compiled, point_of, prepared, results

SOURCE = sensor_models.SOURCE
SIDE, STRIDE, MOST_PILLARS, MOST_POINTS, CLASSES = 40, 2, 50, 6, 2
START, END = np.array([0, -40, -6.0]), np.array([80, 40, 8.0])
MEAN = np.float32([40, 0, 1, 73.5])
SCALE = np.float32([0.025, 0.025, 0.1429, 0.0351])
HEADS = {"reg": 2, "height": 1, "dim": 3, "rot": 2, "heatmap": CLASSES}

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> tuple[pathlib.Path, pathlib.Path]:
    rng, folder = np.random.default_rng(61), tmp_path_factory.mktemp("centers")
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
        rng.uniform(-1, 1, (4, 4, MOST_PILLARS, MOST_POINTS)),
    )
    nodes = [
        ("Conv", ["x", "w", "b"], "c", {"strides": [STRIDE, STRIDE]}),
        ("Relu", ["c"], "r", {}),
    ]
    constants = {"w": rng.normal(0, 0.4, (16, 8, STRIDE, STRIDE)), "b": rng.normal(0, 0.3, 16)}
    for name, channels in HEADS.items():
        nodes.append(("Conv", ["r", f"{name}_w", f"{name}_b"], name, {}))
        constants[f"{name}_w"] = rng.normal(0, 0.3, (channels, 16, 1, 1))
        bias = {"dim": 1.5, "heatmap": -2.0}.get(name, 0)
        constants[f"{name}_b"] = rng.normal(bias, 0.1, channels)
    side = SIDE // STRIDE
    scene = compiled(
        folder / "scene.xmodel",
        (8, SIDE, SIDE),
        nodes,
        constants,
        {name: (channels, side, side) for name, channels in HEADS.items()},
        rng.uniform(0, 2, (4, 8, SIDE, SIDE)) * (rng.uniform(size=(4, 1, SIDE, SIDE)) < 0.1),
    )
    return prepared(pillars), prepared(scene)


def cloud() -> np.ndarray:
    rng = np.random.default_rng(62)
    places = rng.uniform((4, -36), (76, 36), (20, 2))
    points = np.concatenate([rng.normal(place, 1.5, (20, 2)) for place in places])
    points = np.column_stack(
        [points, rng.uniform(-7, 9, len(points)), rng.uniform(45, 100, len(points))]
    )
    return rng.permutation(points).astype(np.float32)


def standing(points: np.ndarray, scale: float) -> tuple[np.ndarray, list[tuple[int, int]]]:
    elements = np.zeros((MOST_PILLARS, MOST_POINTS, 4))
    filled: dict[tuple[int, int], list[int]] = {}
    for point in points:
        cell = np.floor((np.float64(point[:3]) - START) / (2, 2, 14))
        if (cell < 0).any() or (cell >= (SIDE, SIDE, 1)).any():
            continue
        x, y, _ = cell.astype(int)
        if (y, x) not in filled:
            if len(filled) == MOST_PILLARS:
                continue
            filled[y, x] = [len(filled), 0]
        number, count = filled[y, x]
        if count < MOST_POINTS:
            shares = np.float64((point - MEAN) * (SCALE * np.float32(scale)))
            elements[number, count] = np.trunc(shares + np.copysign(0.5, shares))
            filled[y, x][1] += 1
    return elements, list(filled)


def corners(box: np.ndarray) -> np.ndarray:
    signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) / 2
    c, s = np.cos(box[6]), np.sin(box[6])
    return signs * box[3:5] @ np.array([[c, -s], [s, c]]) + box[:2]


def cross(a: np.ndarray, b: np.ndarray) -> float:
    return float(a[0] * b[1] - a[1] * b[0])


def area(polygon: list[np.ndarray]) -> float:
    return (
        abs(sum(cross(a, b) for a, b in zip(polygon, polygon[1:] + polygon[:1], strict=True))) / 2
    )


def common(a: np.ndarray, b: np.ndarray) -> float:
    """Return the area of what two boxes share: one cut by the other's sides."""
    polygon, cutter = list(corners(a)), corners(b)
    if cross(cutter[1] - cutter[0], cutter[2] - cutter[0]) < 0:
        cutter = cutter[::-1]
    for first, second in zip(cutter, np.roll(cutter, -1, 0), strict=True):
        kept = []
        for p, q in zip(polygon, polygon[1:] + polygon[:1], strict=True):
            side_p, side_q = (cross(second - first, v - first) for v in (p, q))
            if side_p >= 0:
                kept.append(p)
            if side_p * side_q < 0:
                kept.append(p + (q - p) * side_p / (side_p - side_q))
        polygon = kept
        if not polygon:
            return 0
    return area(polygon)


def expected(pillars: pathlib.Path, scene: pathlib.Path, points: np.ndarray) -> list[list[float]]:
    elements, places = standing(points, 2.0 ** point_of(pillars))
    assert len(places) == MOST_PILLARS, "not all points have a pillar"
    (features,) = results(pillars, elements).values()
    image = np.zeros((SIDE, SIDE, 8))
    rows, columns = np.array(places).T
    image[rows, columns] = np.trunc(features[:, 0] * 2.0 ** point_of(scene))
    named = results(scene, image)
    heads = {head: next(v for n, v in named.items() if head in n) for head in HEADS}
    scores = sigmoid(heads["heatmap"]).ravel()
    order = [i for i in np.argsort(-scores, kind="stable") if scores[i] > 0.1][:500]
    found: list[tuple[float, int, np.ndarray]] = []
    for i in order:
        cell, label = divmod(int(i), CLASSES)
        row, column = divmod(cell, SIDE // STRIDE)
        at = {head: values[row, column] for head, values in heads.items()}
        x, y = (np.array([column, row]) + at["reg"]) * 2 * STRIDE + START[:2]
        place = np.array([x, y, at["height"][0]])
        if (place < START).any() or (place > END).any():
            continue
        box = np.concatenate([place, np.exp(at["dim"]), [np.arctan2(*at["rot"])]])
        overlaps = []
        for _, _, other in found:
            shared = common(box, other)
            overlaps.append(shared / (np.prod(box[3:5]) + np.prod(other[3:5]) - shared))
        if all(overlap < 0.2 for overlap in overlaps) and len(found) < 83:
            found.append((float(scores[i]), label, box))
    for _, _, box in found:
        box[2] -= box[5] / 2
    return [[score, label, *box] for score, label, box in found]


def test_objects_in_points(program, models, tmp_path):
    cloud().tofile(tmp_path / "points")
    size, *lines = run(program, "centers", *models, tmp_path / "points").stdout.splitlines()
    assert size == f"size {MOST_POINTS} {MOST_PILLARS} 1"
    wanted = expected(*models, cloud())
    assert len(wanted) >= 10 and {row[1] for row in wanted} == {0, 1}
    found = numbers(lines)
    assert (np.diff(found[:, 0]) <= 0).all()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_points_of_three_values(program, models, tmp_path):
    np.zeros(7, np.float32).tofile(tmp_path / "points")
    done = run(program, "centers", *models, tmp_path / "points", check=False)
    assert done.returncode == 3
    assert "points have four values each, but there are 7" in done.stderr


def test_networks_that_do_not_fit(program, models, tmp_path):
    (tmp_path / "points").write_bytes(b"")
    done = run(program, "centers", models[1], models[0], tmp_path / "points", check=False)
    assert done.returncode == 3
    assert " has 8 channels, but points have four" in done.stderr
