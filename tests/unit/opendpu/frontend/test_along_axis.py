# SPDX-License-Identifier: Apache-2.0
"""Rows and columns of feature maps times constant matrices: resizes that XIR has not, products."""

import numpy as np
import pytest
from onnx import helper

from opendpu.compile_model import compile_graph
from opendpu.quantize import quantize

SIZE = (1, 5, 9, 7)

SIZES = np.int64([1, 5, 13, 7])
SCALES = np.float32([1, 1, 1.6, 0.5])


def kinds(graph) -> list[str]:
    return [node.kind for node in graph if node.kind in ("resize", "onnx", "matmul", "transpose")]


@pytest.mark.parametrize("by", ["sizes", "scales"])
@pytest.mark.parametrize(
    "attrs",
    [
        {"mode": "cubic"},
        {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
        {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
        {"mode": "cubic", "antialias": 1},
        {"mode": "linear", "antialias": 1},
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"},
        {"mode": "nearest", "nearest_mode": "ceil"},
        {"mode": "nearest", "coordinate_transformation_mode": "half_pixel"},
    ],
    ids=str,
)
def test_resizes(save, agrees, attrs, by):
    inputs = ["x", "", "", "sizes"] if by == "sizes" else ["x", "", "scales"]
    last = helper.make_node("Resize", inputs, ["y"], **attrs)
    given = {by: SIZES if by == "sizes" else SCALES}
    graph = agrees(save([last], {"x": SIZE}, {"y": None}, given, opset=19))
    assert set(kinds(graph)) == {"matmul"}
    assert len(kinds(graph)) == (1 if by == "sizes" else 2)


@pytest.mark.parametrize(
    ("attrs", "size"),
    [
        ({"mode": "cubic", "antialias": 1}, (1, 5, 90, 7)),  # of 40 rows each
        ({"mode": "linear", "antialias": 1, "keep_aspect_ratio_policy": "not_larger"}, SIZE),
    ],
)
def test_what_stays_onnx(save, agrees, attrs, size):
    last = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], **attrs)
    graph = agrees(
        save([last], {"x": size}, {"y": None}, {"sizes": np.int64([1, 5, 9, 7])}, opset=19)
    )
    assert "matmul" not in kinds(graph)


def band(made: int, given: int, width: int = 3) -> np.ndarray:
    """Return a matrix that makes each result of a few neighbours."""
    matrix = np.zeros((made, given), np.float32)
    for row in range(made):
        first = row * (given - width) // max(1, made - 1)
        matrix[row, first : first + width] = np.float32([0.25, 0.5, 0.25])[:width]
    return matrix


@pytest.mark.parametrize("target", ["B512", "B4096"])
def test_products_with_matrices_of_few_neighbours_do_not_turn_a_map(save, agrees, target):
    weights = {
        "w": np.random.default_rng(2).standard_normal((6, 5, 1, 1)).astype(np.float32),
        "rows": band(6, 9), "columns": band(4, 7).T,
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["rows", "b"], ["c"]),
        helper.make_node("MatMul", ["c", "columns"], ["y"]),
    ]  # fmt: skip
    graph = agrees(save(nodes, {"x": SIZE}, {"y": None}, weights))
    assert kinds(graph) == ["matmul", "matmul"]
    x = np.random.default_rng(3).standard_normal((4, *SIZE[1:])).astype(np.float32)
    assert not compile_graph(quantize(graph, {"x": x}), target=target).report.on_cpu


def test_products_with_full_matrices_are_as_before(save, agrees):
    dense = np.random.default_rng(2).standard_normal((40, 3)).astype(np.float32)
    nodes = [helper.make_node("Relu", ["x"], ["b"]), helper.make_node("MatMul", ["b", "m"], ["y"])]
    assert "matmul" not in kinds(
        agrees(save(nodes, {"x": (1, 4, 5, 40)}, {"y": None}, {"m": dense}))
    )
