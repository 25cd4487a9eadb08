# SPDX-License-Identifier: Apache-2.0
"""Cross-layer equalization: channels get similar ranges, so that one position suits them all."""

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph, Node
from opendpu.quantize.fold import LAYERS, bias_of, set_parameters

Array = npt.NDArray[np.float64]

LEAST = 1 / 256
"""Channels whose weights are smaller than this, against the largest, are left alone."""

ROUNDS = 2
"""How often all pairs of layers are visited."""


def equalize(graph: Graph, rounds: int = ROUNDS) -> int:
    """Scale channels between layers that are joined by nothing but a ReLU, in place.

    For such a pair, ``relu(s * v) = s * relu(v)`` with ``s > 0``: what leaves the first layer
    scaled by ``1 / s`` is undone in the second layer's weights. ``s`` makes the ranges of the
    weights of a channel equal in both layers (Nagel et al., arXiv 1906.04721). The network
    computes the same function. Return the number of pairs.
    """
    pairs = [pair for node in graph if (pair := _pair(graph, node)) is not None]
    for _ in range(rounds):
        for first, second in pairs:
            _balance(graph, first, second)
    return len(pairs)


def _pair(graph: Graph, first: Node) -> tuple[Node, Node] | None:
    """Return the layers around a sole connection, or nothing."""
    if first.kind not in LAYERS:
        return None
    node = first
    while True:
        users = graph.consumers(node.name)
        if len(users) != 1 or node.name in graph.outputs:
            return None
        (node,) = users
        if node.kind in LAYERS:
            break
        if node.kind != "relu":
            return None
    if int(node.attrs.get("group") or 1) > 1:
        return None  # its weights have the inputs of a group only
    if node.inputs["input"] and graph[node.inputs["weights"][0]].kind == "const":
        return first, node
    return None


def _balance(graph: Graph, first: Node, second: Node) -> None:
    before, after = _weights(graph, first), _weights(graph, second)
    ranges = np.abs(_outputs_first(first, before)).max(axis=1)
    others = np.abs(_inputs_first(second, after, ranges.size)).max(axis=1)
    usable = (ranges > LEAST * ranges.max()) & (others > LEAST * others.max())
    factor = np.where(usable, np.sqrt(ranges * others) / np.where(usable, ranges, 1), 1.0)
    bias = bias_of(graph, first) * factor
    set_parameters(graph, first, _scaled_outputs(first, before, factor), bias)
    set_parameters(graph, second, _scaled_inputs(second, after, 1 / factor), bias_of(graph, second))


def _weights(graph: Graph, layer: Node) -> Array:
    value = graph[layer.inputs["weights"][0]].value
    assert value is not None
    return value.astype(np.float64)


def _outputs_first(layer: Node, weights: Array) -> Array:
    last = "depthwise" in layer.kind
    return (np.moveaxis(weights, -1, 0) if last else weights).reshape(layer.shape[-1], -1)


def _inputs_first(layer: Node, weights: Array, channels: int) -> Array:
    if layer.kind == "inner-product":
        weights = weights.reshape(weights.shape[0], -1, channels)
    return np.moveaxis(weights, -1, 0).reshape(channels, -1)


def _scaled_outputs(layer: Node, weights: Array, factor: Array) -> Array:
    if "depthwise" in layer.kind:
        return weights * factor
    return weights * factor.reshape((-1,) + (1,) * (weights.ndim - 1))


def _scaled_inputs(layer: Node, weights: Array, factor: Array) -> Array:
    if layer.kind == "inner-product":
        return (weights.reshape(weights.shape[0], -1, factor.size) * factor).reshape(weights.shape)
    return weights * factor
