# SPDX-License-Identifier: Apache-2.0
"""Normalization of rows (LayerNorm, RMSNorm) as ops that a DPU with tables has.

``c = x - mean(x)`` (RMSNorm: ``c = x``), ``y = scale * c / sqrt(mean(c**2) + epsilon) + bias``.
Products with constants make the means, and repeat what belongs to a row for each element of it; the
reciprocal root is a table. Scale and bias go into the layers behind, where these are all that reads
the result.

Where the variances of rows lie further apart than a byte tells, the rows are brought nearer to each
other before: ``c / sqrt(max(mean(c**2), floor))`` has the same direction. How exact that factor is
does not count, because the normalization behind takes it off again.
"""

import numpy as np
from onnx import helper, numpy_helper

from opendpu.ir import Array, Graph, Node
from opendpu.ops.foreign import LAYER_NORM, is_normalization, parsed
from opendpu.quantize.transforms import variance as variances
from opendpu.quantize.transforms.parts import Parts, pixels
from opendpu.quantize.transforms.rewrite import MAX_TERMS
from opendpu.quantize.transforms.variance import ALIKE, NEGLIGIBLE, Rows, Spread, divided

EPSILON = 1e-5
"""Where the operator has no attribute for it."""


def is_layer_norm(graph: Graph, node: Node) -> bool:
    """Return whether an op is such a normalization of one sample."""
    return (
        len(node.shape) > 1
        and node.shape[0] == 1
        and is_normalization(node, len(node.shape))
        and graph[node.sources()[0]].shape == node.shape
    )


def spread_of(node: Node, rows: Array) -> Spread | None:
    """Return how far apart the variances of rows of an input are, nothing where that is too far."""
    epsilon, has_mean = _parameters(node)[0], _has_mean(node)

    def variance(rows: Array) -> Array:
        squares = np.square(rows - (rows.mean(axis=-1, keepdims=True) if has_mean else 0))
        return np.asarray(squares.mean(axis=-1, dtype=np.float64) + epsilon)

    return variances.spread_of(rows, variance, epsilon / NEGLIGIBLE)


def layer_norm(parts: Parts, spread: Spread = ALIKE) -> None:
    """Add the parts of a normalization, ``spread`` as :func:`spread_of` has it."""
    epsilon, scale, bias = _parameters(parts.node)
    *front, rows, count = parts.node.shape
    shape = (1, *pixels(front, rows), count)
    x = parts.reshaped("rows", parts.node.inputs["input"][0], shape)
    centred = _centred(parts, x) if _has_mean(parts.node) else x
    if spread.floor:
        nodes = [helper.make_node("Max", ["x", "floor"], ["variance"])]
        centred = divided(parts, "nearer", centred, nodes, {"floor": spread.floor}, Rows())
        epsilon /= spread.floor
    nodes, numbers = [helper.make_node("Add", ["x", "epsilon"], ["variance"])], {"epsilon": epsilon}
    if spread.least:
        nodes = [
            helper.make_node("Add", ["x", "epsilon"], ["sum"]),
            helper.make_node("Max", ["sum", "least"], ["variance"]),
        ]
        numbers["least"] = spread.lower(epsilon)
    normalized = divided(parts, "normalized", centred, nodes, numbers, Rows())
    scaled = parts.add("scaled", "scale", shape, [normalized], {"axis": 3})
    parts.graph[scaled].inputs |= {
        "scale": [parts.constant("scale", np.broadcast_to(scale, (count,)))],
        "bias": [parts.constant("bias", np.broadcast_to(bias, (count,)))],
    }
    parts.end(scaled)


def _centred(parts: Parts, x: str) -> str:
    """Add the difference from the mean."""
    shape = parts.graph[x].shape
    mean = parts.product("mean", x, np.full((shape[-1], 1), 1 / shape[-1]))
    terms = [
        parts.reshaped(f"term{number}", name, shape)
        for number, name in enumerate(_terms(parts.graph, parts.node.inputs["input"][0]))
    ]
    terms.append(parts.repeated("less_mean", mean, -1.0, shape[-1]))
    return parts.add("centred", "add", shape, terms)


def _has_mean(node: Node) -> bool:
    """Return whether the mean is taken away first."""
    return bool(parsed(node.attrs["model"]).graph.node[0].op_type == LAYER_NORM)


def _terms(graph: Graph, name: str) -> list[str]:
    """Return what a tensor is the sum of, if one more term has room: so it is rounded once less."""
    node = graph[name]
    terms = node.inputs.get("input", [])
    alike = all(graph[term].value is None and graph[term].shape == node.shape for term in terms)
    return list(terms) if node.kind == "add" and alike and len(terms) < MAX_TERMS else [name]


def _parameters(node: Node) -> tuple[float, Array, Array]:
    """Return epsilon, scale and bias."""
    graph = parsed(node.attrs["model"]).graph
    (operator,) = graph.node
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    epsilon = next((float(a.f) for a in operator.attribute if a.name == "epsilon"), EPSILON)
    bias = constants[operator.input[2]] if len(operator.input) > 2 else np.zeros(1)
    return epsilon, constants[operator.input[1]], bias
