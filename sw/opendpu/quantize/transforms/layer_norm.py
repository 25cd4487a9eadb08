# SPDX-License-Identifier: Apache-2.0
"""Normalization of rows (LayerNorm, RMSNorm) as ops that a DPU with tables has.

``c = x - mean(x)`` (RMSNorm: ``c = x``), ``y = scale * c / sqrt(mean(c**2) + epsilon) + bias``.
Products with constants make the means, and repeat what belongs to a row for each element of it; the
reciprocal root is a table. Scale and bias go into the layers behind, where these are all that reads
the result.
"""

import math

import numpy as np
from onnx import helper, numpy_helper

from opendpu.ir import Array, Graph, Node
from opendpu.ops.foreign import DEFAULT_DOMAINS, KIND, parsed
from opendpu.quantize.transforms.parts import Parts
from opendpu.quantize.transforms.rewrite import MAX_TERMS

OPERATOR = "LayerNormalization"
WITHOUT_MEAN = "SimplifiedLayerNormalization"
"""RMSNorm, as onnxruntime calls it."""
EPSILON = 1e-5
"""Where the operator has no attribute for it."""
SPREAD = 16.0
"""The largest variance over the smallest one: eight bits hold both, and their roots."""


def is_layer_norm(graph: Graph, node: Node) -> bool:
    """Return whether an op is such a normalization of one sample."""
    return (
        len(node.shape) > 1
        and node.shape[0] == 1
        and is_normalization(node, len(node.shape))
        and graph[node.sources()[0]].shape == node.shape
    )


def is_normalization(node: Node, rank: int) -> bool:
    """Return whether an op normalizes the last of ``rank`` axes, by constants."""
    if node.kind != KIND:
        return False
    model = parsed(node.attrs["model"])
    if len(model.graph.node) != 1 or len(model.graph.output) != 1 or len(node.sources()) != 1:
        return False
    (operator,) = model.graph.node
    axis = next((int(a.i) for a in operator.attribute if a.name == "axis"), -1)
    return (
        operator.op_type in (OPERATOR, WITHOUT_MEAN)
        and operator.domain in DEFAULT_DOMAINS
        and axis % rank == rank - 1
    )


def is_narrow(node: Node, rows: Array) -> bool:
    """Return whether the rows of an input differ so little in their variance that bytes hold it."""
    squares = np.square(rows - (rows.mean(axis=-1, keepdims=True) if _has_mean(node) else 0))
    variance = squares.mean(axis=-1, dtype=np.float64) + _parameters(node)[0]
    return bool(variance.max() <= SPREAD * variance.min())


def layer_norm(parts: Parts) -> None:
    """Add the parts of a normalization."""
    epsilon, scale, bias = _parameters(parts.node)
    *front, rows, count = parts.node.shape
    shape = (1, math.prod(front), rows, count)
    x = parts.reshaped("rows", parts.node.inputs["input"][0], shape)
    centred = _centred(parts, x) if _has_mean(parts.node) else x
    squares = parts.add("squares", "mul", shape, [centred, centred])
    variance = parts.product("variance", squares, np.full((count, 1), 1 / count))
    nodes = [
        helper.make_node("Add", ["x", "epsilon"], ["sum"]),
        helper.make_node("Sqrt", ["sum"], ["deviation"]),
        helper.make_node("Reciprocal", ["deviation"], ["y"]),
    ]
    reciprocal = parts.function("reciprocal", variance, nodes, {"epsilon": epsilon})
    factor = parts.repeated("factor", reciprocal, 1.0, count)
    normalized = parts.add("normalized", "mul", shape, [centred, factor])
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
    return bool(parsed(node.attrs["model"]).graph.node[0].op_type == OPERATOR)


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
