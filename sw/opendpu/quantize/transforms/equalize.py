# SPDX-License-Identifier: Apache-2.0
"""Cross-layer equalization: channels get similar ranges, so that one scale suits them all."""

import numpy as np

from opendpu.ir import Graph, Node
from opendpu.ops import operator_of
from opendpu.quantize.layers import (
    bias_of,
    by_input,
    by_output,
    has_constant_weights,
    is_layer,
    scaled_inputs,
    scaled_outputs,
    set_parameters,
    weights_of,
)

LEAST = 1 / 256
"""Channels whose weights are smaller than this, against the largest, are left alone."""

ROUNDS = 2
"""How often all pairs of layers are visited."""


def equalize(graph: Graph, rounds: int = ROUNDS) -> int:
    """Scale channels between layers that only homogeneous ops such as ReLU join, in place.

    For such a pair, ``f(s * v) = s * f(v)`` with ``s > 0``: what leaves the first layer
    scaled by ``1 / s`` is undone in the second layer's weights. ``s`` makes the ranges of the
    weights of a channel equal in both layers (Nagel et al., arXiv 1906.04721). The network
    computes the same function. Return the number of pairs.
    """
    users = graph.consumer_map()
    pairs = [pair for node in graph if (pair := _pair(graph, users, node)) is not None]
    for _ in range(rounds):
        for first, second in pairs:
            _balance(graph, first, second)
    return len(pairs)


def _pair(graph: Graph, users: dict[str, list[Node]], first: Node) -> tuple[Node, Node] | None:
    """Return the layers around a sole connection, or nothing."""
    if not is_layer(first) or not has_constant_weights(graph, first):
        return None
    node = first
    while True:
        readers = users[node.name]
        if len(readers) != 1 or node.name in graph.outputs:
            return None
        (node,) = readers
        if is_layer(node):
            break
        if not operator_of(node).homogeneous:
            return None
    grouped = int(node.attrs.get("group") or 1) > 1  # its weights have the inputs of a group only
    return None if grouped or not has_constant_weights(graph, node) else (first, node)


def _balance(graph: Graph, first: Node, second: Node) -> None:
    before, after = weights_of(graph, first), weights_of(graph, second)
    ranges = np.abs(by_output(first, before)).max(axis=1).astype(np.float64)
    others = np.abs(by_input(second, after, ranges.size)).max(axis=1).astype(np.float64)
    usable = (ranges > LEAST * ranges.max()) & (others > LEAST * others.max())
    factor = np.where(usable, np.sqrt(ranges * others) / np.where(usable, ranges, 1), 1.0)
    bias = bias_of(graph, first) * factor
    set_parameters(graph, first, scaled_outputs(first, before, factor), bias)
    set_parameters(graph, second, scaled_inputs(second, after, 1 / factor), bias_of(graph, second))
