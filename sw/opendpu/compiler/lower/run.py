# SPDX-License-Identifier: Apache-2.0
"""Pass: the ops of one DPU part to layers with instruction fields, and to aliases."""

from collections.abc import Collection, Iterable

import numpy as np

from opendpu.compiler.lower.context import LayerCost, LoweringContext
from opendpu.compiler.lower.registry import RULES
from opendpu.compiler.network import Network
from opendpu.ir import Graph, Node
from opendpu_arch.errors import GraphError
from opendpu_arch.target import Target


def lower(
    graph: Graph, nodes: Iterable[str], outputs: Collection[str], target: Target, cost: LayerCost
) -> Network:
    """Return what the DPU part with ``nodes`` computes.

    ``outputs`` are the nodes whose results are needed outside; ``cost`` decides between layers
    that compute the same.
    """
    context = LoweringContext(graph, [graph[n] for n in nodes], set(outputs), target, cost)
    for node in context.nodes:
        for name in node.inputs.get("input", ()):
            if name not in context.inside and name not in context.features:
                _take(context, graph[name])
        context.feature(node)
        if node.kind not in RULES:
            raise GraphError(f"op {node.name!r} ({node.kind}) cannot be lowered for the DPU")
        context.op = node.name
        RULES[node.kind](context, node)
    return context.network()


def _take(context: LoweringContext, node: Node) -> None:
    """Add a feature map that is not made here: an input, or a constant."""
    if node.value is None:
        context.inputs[node.name] = None
    else:
        context.constants[node.name] = np.asarray(node.value, np.int8)
    context.feature(node)
