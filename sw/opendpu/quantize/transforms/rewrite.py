# SPDX-License-Identifier: Apache-2.0
"""Ops that the DPU has only in parts, as those parts, so that each gets a scale of its own."""

from opendpu.ir import Graph, Node
from opendpu_arch.isa import ElewInit

(_ID,) = (field for field in ElewInit.bit_fields() if field.name == "id")
MAX_TERMS = _ID.maximum + 1
"""Terms of an addition of the DPU: inputs that ELEWINIT can describe."""


def rewrite(graph: Graph) -> None:
    """Split hard-swish and long sums, in place; the last part has the name of the op."""
    for node in graph:
        if node.kind == "hard-swish":
            _hard_swish(graph, node)
        elif node.kind == "add":
            _long_sum(graph, node)
    graph.sort()


def _hard_swish(graph: Graph, node: Node) -> None:
    """Make ``x * hard-sigmoid(x)``."""
    name = graph.unique(f"{node.name}_gate")
    gate = graph.add(
        name, "hard-sigmoid", node.type, {"input": node.inputs["input"]}, origin=node.origin
    )
    node.kind = "mul"
    node.inputs = {"input": [*node.inputs["input"], gate.name]}


def _long_sum(graph: Graph, node: Node) -> None:
    """Add at most four terms at a time; the shapes of all have to be that of the result."""
    terms = list(node.inputs["input"])
    if any(graph[term].shape != node.shape for term in terms):
        return
    while len(terms) > MAX_TERMS:
        some, terms = terms[:MAX_TERMS], terms[MAX_TERMS:]
        name = graph.unique(f"{node.name}_part")
        part = graph.add(name, "add", node.type, {"input": some}, origin=node.origin)
        terms.append(part.name)
    node.inputs["input"] = terms
