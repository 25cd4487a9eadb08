# SPDX-License-Identifier: Apache-2.0
"""Rows over their Euclidean lengths (``l2_normalize``) as ops that a DPU with tables has.

``y = x / sqrt(max(count * mean(x**2), epsilon))``: RMSNorm but for a factor, which is in the table.
Rows whose lengths are far apart are brought nearer to each other first (:mod:`.layer_norm`).
"""

import dataclasses

import numpy as np
from onnx import helper

from opendpu.ir import Array, Graph, Node
from opendpu.quantize.transforms import variance as variances
from opendpu.quantize.transforms.parts import Parts, pixels
from opendpu.quantize.transforms.variance import ALIKE, Rows, Spread, divided


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


def spread_of(node: Node, rows: Array) -> Spread | None:
    """Return how far apart the mean squares of rows are, nothing where that is too far."""
    epsilon = _epsilon(node)
    axis = int(node.attrs["axis"][0]) % len(node.shape) - len(node.shape)

    def mean(rows: Array) -> Array:
        squares = np.square(rows, dtype=np.float64).mean(axis=-1)
        return np.asarray(np.maximum(squares, epsilon))

    found = variances.spread_of(np.moveaxis(rows, axis, -1), mean, 0.0)
    if found is None or not found.floor:
        return found
    return dataclasses.replace(found, floor=max(found.floor, epsilon))


def unit_vectors(parts: Parts, spread: Spread = ALIKE) -> None:
    """Add the parts, ``spread`` as :func:`spread_of` has it."""
    epsilon = _epsilon(parts.node)
    source, order = parts.rows(int(parts.node.attrs["axis"][0]))
    *front, rows, count = (parts.node.shape[n] for n in order)
    x = parts.reshaped("rows", source, (1, *pixels(front, rows), count))
    if spread.floor:
        nodes = [helper.make_node("Max", ["x", "floor"], ["variance"])]
        x = divided(parts, "nearer", x, nodes, {"floor": spread.floor}, Rows())
        epsilon /= spread.floor
    nodes = [
        helper.make_node("Max", ["x", "epsilon"], ["mean"]),
        helper.make_node("Mul", ["mean", "count"], ["variance"]),
    ]
    numbers = {"epsilon": spread.lower(epsilon), "count": float(count)}
    parts.end_rows(divided(parts, "normalized", x, nodes, numbers, Rows()), order)


def _epsilon(node: Node) -> float:
    """Return the least mean square that counts."""
    return float(node.attrs["epsilon"]) / _count(node)


def _count(node: Node) -> int:
    """Return the elements of a row."""
    return node.shape[int(node.attrs["axis"][0])]
