# SPDX-License-Identifier: Apache-2.0
"""Rows over their Euclidean lengths (``l2_normalize``) as ops that a DPU with tables has.

``y = x / sqrt(max(count * mean(x**2), epsilon))``: RMSNorm but for a factor, which is in the table.
Rows whose lengths are far apart are brought nearer to each other first (:mod:`.layer_norm`).
"""

import numpy as np
from onnx import helper

from opendpu.ir import Array, Graph, Node
from opendpu.quantize.transforms.parts import Parts, pixels
from opendpu.quantize.transforms.variance import Rows, divided, floor_for


def is_unit_vectors(graph: Graph, node: Node) -> bool:
    """Return whether an op divides the rows of one sample by their lengths."""
    rank = len(node.shape)
    return (
        node.kind == "l2_normalize"
        and rank > 1
        and node.shape[0] == 1
        and len(node.attrs["axis"]) == 1
        and _count(node) > 1
    )


def floor_of(node: Node, rows: Array) -> float | None:
    """Return the mean square up to which rows are brought nearer to the largest one.

    See :func:`opendpu.quantize.transforms.variance.floor_for`.
    """
    epsilon = _epsilon(node)
    axis = int(node.attrs["axis"][0]) % len(node.shape) - len(node.shape)
    means = np.square(rows, dtype=np.float64).mean(axis=axis)
    floor = floor_for(np.maximum(means, epsilon), 0.0)
    return max(floor, epsilon) if floor else floor


def unit_vectors(parts: Parts, floor: float = 0.0) -> None:
    """Add the parts, ``floor`` as :func:`floor_of` has it."""
    epsilon = _epsilon(parts.node)
    source, order = parts.rows(int(parts.node.attrs["axis"][0]))
    *front, rows, count = (parts.node.shape[n] for n in order)
    x = parts.reshaped("rows", source, (1, *pixels(front, rows), count))
    if floor:
        nodes = [helper.make_node("Max", ["x", "floor"], ["variance"])]
        x = divided(parts, "nearer", x, nodes, {"floor": floor}, Rows())
        epsilon /= floor
    nodes = [
        helper.make_node("Max", ["x", "epsilon"], ["mean"]),
        helper.make_node("Mul", ["mean", "count"], ["variance"]),
    ]
    numbers = {"epsilon": epsilon, "count": float(count)}
    parts.end_rows(divided(parts, "normalized", x, nodes, numbers, Rows()), order)


def _epsilon(node: Node) -> float:
    """Return the least mean square that counts."""
    return float(node.attrs["epsilon"]) / _count(node)


def _count(node: Node) -> int:
    """Return the elements of a row."""
    return node.shape[int(node.attrs["axis"][0])]
