# SPDX-License-Identifier: Apache-2.0
"""Pass: what has no effect, or what no output needs, disappears; scales are propagated."""

from opendpu.compiler.propagate import propagate_scales
from opendpu.ir import Graph, Node, QuantizedGraph
from opendpu.ops import kinds_where

SAME_SHAPE = (*kinds_where(lambda o: o.fixed == "reshape-fix"), "resize")
"""Kinds that do nothing where the result has the shape of the input."""


def fold(quantized: QuantizedGraph) -> QuantizedGraph:
    """Return the graph without ops that pass their input on; outputs keep their names.

    Ops that move quantized data get a ``fix`` on either side: :mod:`opendpu.compiler.propagate`.
    """
    graph = quantized.copy()
    for node in graph:
        if _has_no_effect(node, graph) and node.name not in graph.outputs:
            graph.replace(node.name, node.inputs["input"][0])
            del graph.nodes[node.name]
    rounded = {node.inputs["input"][0]: node for node in graph if node.kind == "fix"}
    graph.prune()
    read = {name for node in graph for name in node.sources()}
    for node in graph:  # inputs that nothing reads stay what they are for callers: integers
        if node.kind == "data" and node.name in rounded and node.name not in read:
            graph.nodes[rounded[node.name].name] = rounded[node.name]
    propagate_scales(graph)
    return graph


def _has_no_effect(node: Node, graph: Graph) -> bool:
    sources = node.inputs.get("input", [])
    if len(sources) != 1 or len(node.sources()) != 1:
        return False
    source = graph[sources[0]]
    if node.kind in ("identity", "concat"):
        return True
    if node.kind == "fix":
        return source.kind == "fix" and source.quantization == node.quantization
    return node.kind in SAME_SHAPE and node.shape == source.shape
