# SPDX-License-Identifier: Apache-2.0
"""What rewriting operations on feature maps of the DPU has in common: differences, extrema."""

from collections.abc import Callable, Collection

import numpy as np

from opendpu.ir import Graph, Node
from opendpu.quantize.placement.scope import floating_ops


def rewritten(
    graph: Graph,
    kinds: Collection[str],
    applies: Callable[[Graph, Node, set[str]], bool],
    rewrite: Callable[[Graph, Node], None],
) -> bool:
    """Rewrite the ops of some kinds to which that applies, in place; tell whether there were any.

    ``applies`` is told which ops stay in float; rewritten ones are taken out of these.
    """
    found = [node for node in graph if node.kind in kinds]
    if not found:
        return False
    floating, changed = set(floating_ops(graph)), False
    for node in found:
        if applies(graph, node, floating):
            rewrite(graph, node)
            floating.discard(node.name)
            changed = True
    if changed:
        graph.sort()
        graph.prune()
    return changed


def made_by(graph: Graph, node: Node, moves: Collection[str]) -> str:
    """Return the op behind ``moves``, which are float where all that reads them is."""
    while node.kind in moves:
        node = graph[node.inputs["input"][0]]
    return node.name


def minus_one(graph: Graph, node: Node, channels: int) -> str:
    """Add a constant of -1 for each channel."""
    minus = np.full(channels, -1, np.float32)
    return graph.add_const(graph.unique(f"{node.name}_minus"), minus).name


def negated(graph: Graph, node: Node, name: str) -> str:
    """Add what multiplies an operand of a node, or what stands for it, by -1."""
    source = graph[name]
    inputs = {"input": [name], "scale": [minus_one(graph, node, source.shape[-1])]}
    return graph.add(
        graph.unique(f"{node.name}_negated"), "scale", source.type, inputs, {"axis": -1},
        origin=node.origin,
    ).name  # fmt: skip
