# SPDX-License-Identifier: Apache-2.0
"""Segmentation3D of the AI Library in C++: points of a laser scanner."""

import pathlib
import sys

import numpy as np
import onnx
import pytest
import torch

import xir
from opendpu.api import compile_graph
from opendpu.frontend import load_onnx
from opendpu.quantize import quantize
from opendpu.runtime import Runner
from opendpu.runtime.program import dpu_subgraphs

sys.path.append(str(pathlib.Path(__file__).parent))

from ai_library import prepared, run

SOURCE = pathlib.Path(__file__).with_name("cpp") / "scanner.cpp"
HEIGHT, WIDTH, CLASSES = 8, 32, 20
MEANS = np.float32([12.12, 10.88, 0.23, -1.04, 0.21])
DEVIATIONS = np.float32([12.32, 11.47, 6.91, 0.86, 0.16])
LABELS = np.array(
    [0, 10, 11, 15, 18, 20, 30, 31, 32, 40, 44, 48, 49, 50, 51, 70, 71, 72, 80, 81]
)  # fmt: skip
"""Of SemanticKITTI."""

pytestmark = [pytest.mark.system, pytest.mark.slow]


def compiled(path: pathlib.Path, channels: int = 5) -> pathlib.Path:
    helper, rng, real = onnx.helper, np.random.default_rng(61), onnx.TensorProto.FLOAT
    shape, weight = (1, channels, HEIGHT, WIDTH), rng.normal(0, 0.5, (CLASSES, channels, 1, 1))
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="y")], "scanner",
        [helper.make_tensor_value_info("x", real, shape)],
        [helper.make_tensor_value_info("y", real, (1, CLASSES, HEIGHT, WIDTH))],
        [onnx.numpy_helper.from_array(np.float32(weight), "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    samples = {"x": rng.normal(0, 1.5, (8, *shape[1:])).astype(np.float32)}
    compile_graph(quantize(load_onnx(model), samples), target="B512").graph.serialize(path)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> pathlib.Path:
    return compiled(tmp_path_factory.mktemp("scanner") / "scanner.xmodel")


def scan(number: int) -> np.ndarray:
    """Return points as rows x, y, z, reflection; some lie above and below the image."""
    rng = np.random.default_rng(62)
    place = np.floor(rng.uniform(0, (HEIGHT, WIDTH), (number, 2))) + rng.uniform(
        0.1, 0.9, (number, 2)
    )
    up = np.radians(3 - 28 * place[:, 0] / HEIGHT)
    up[:3], up[3:6] = np.radians(20), np.radians(-60)
    around = np.pi * (1 - 2 * place[:, 1] / WIDTH)
    far = 2 + 3 * rng.integers(0, 6, number) + rng.uniform(0, 1, number)
    flat = far * np.cos(up)
    made = [
        flat * np.cos(around),
        flat * np.sin(around),
        far * np.sin(up),
        rng.uniform(0, 1, number),
    ]
    return np.float32(made)


def projected(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ranges and pixels of points, and of each pixel the last point or -1."""
    x, y, z = np.float64(points[:3])
    ranges = np.sqrt(x * x + y * y + z * z)
    rows = (1 - (np.degrees(np.arcsin(z / ranges)) + 25) / 28) * HEIGHT
    columns = (1 - np.arctan2(y, x) / np.pi) / 2 * WIDTH
    pixels = (
        np.clip(rows, 0, HEIGHT - 1).astype(int) * WIDTH
        + np.clip(columns, 0, WIDTH - 1).astype(int)
    )  # fmt: skip
    there = np.full(HEIGHT * WIDTH, -1)
    for point, pixel in enumerate(pixels):
        there[pixel] = point
    return ranges, pixels, there


def classes(path: pathlib.Path, points: np.ndarray) -> np.ndarray:
    """Return the likeliest class of each pixel."""
    ranges, _, there = projected(points)
    image = ((np.stack([ranges, *points])[:, there].T - MEANS) / DEVIATIONS).astype(np.float32)
    image[there <= 0] = 0
    (dpu,) = dpu_subgraphs(xir.Graph.deserialize(path))
    with Runner(dpu, device="iss") as runner:
        point = runner.get_input_tensors()[0].get_attr("fix_point")
        whole = np.clip(np.round(np.ldexp(image, point)), -128, 127).astype(np.int8)
        (output,) = runner.run([whole.reshape(1, HEIGHT, WIDTH, 5)]).values()
    return output.reshape(-1, CLASSES).argmax(-1)


def by_neighbours(points: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Return classes of points as RangeNet++'s post-processing does it, in PyTorch."""
    ranges, pixels, there = projected(points)
    image = torch.from_numpy(np.where(there < 0, -1, ranges[there]).reshape(1, 1, HEIGHT, WIDTH))
    around = torch.nn.functional.unfold(image, 5, padding=2)[0][:, pixels]
    own = torch.from_numpy(ranges)
    around[around < 0] = torch.inf
    around[12] = own
    axis = torch.arange(5) - 2.0
    bell = torch.exp(-(axis[:, None] ** 2 + axis**2) / 2).flatten()
    distances = (around - own).abs() * (1 - bell / bell.sum())[:, None]
    near, places = distances.topk(5, dim=0, largest=False)
    kinds = torch.from_numpy(found.astype(float).reshape(1, 1, HEIGHT, WIDTH))
    kinds = torch.nn.functional.unfold(kinds, 5, padding=2)[0][:, pixels].gather(0, places)
    kinds[near > 1] = CLASSES
    votes = torch.nn.functional.one_hot(kinds.long(), CLASSES + 1).sum(0)
    return votes[:, 1:-1].argmax(-1).numpy() + 1


@pytest.mark.parametrize("knn", [False, True])
def test_labels_of_points(program, model, tmp_path, knn):
    text = "segmentation_3d_param { enable_knn: true }" if knn else ""
    path, points = prepared(model, tmp_path, text), scan(300)
    points.tofile(tmp_path / "points")
    size, labels, refused = run(program, path, tmp_path / "points").stdout.splitlines()
    assert size == f"{WIDTH} {HEIGHT}"
    found = classes(path, points)
    own = found[projected(points)[1]]
    wanted = by_neighbours(points, found) if knn else own
    assert len(set(wanted)) > 4
    assert not knn or 30 < (wanted != own).sum() < 290
    np.testing.assert_array_equal([int(label) for label in labels.split()], LABELS[wanted])
    assert refused == "points must be four rows of as many values: x, y, z, reflection"


def test_a_point_where_the_scanner_is(program, model, tmp_path):
    """It has no direction, and gets a label all the same."""
    points = scan(20)
    points[:3, 7] = 0
    points.tofile(tmp_path / "points")
    path = prepared(model, tmp_path, "")
    labels = run(program, path, tmp_path / "points").stdout.splitlines()[1].split()
    assert len(labels) == 20
    assert {int(label) for label in labels} <= set(LABELS)


def test_another_network(program, tmp_path):
    path = prepared(compiled(tmp_path / "four.xmodel", 4), tmp_path, "")
    done = run(program, path, "points", check=False)
    assert done.returncode == 3
    assert "Segmentation3D needs a network with an input of five channels" in done.stderr
