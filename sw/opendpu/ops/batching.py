# SPDX-License-Identifier: Apache-2.0
"""Which graphs can have several samples along the first axis at once."""

from collections.abc import Iterable

from opendpu.ir import Graph, Node
from opendpu.ops.boundary import CONSTANTS, SOURCES
from opendpu.ops.foreign import KIND, is_normalization
from opendpu.ops.operator import operator_of


def ancestors(graph: Graph, names: Iterable[str]) -> list[str]:
    """Return some ops and all that they need, in order."""
    alive = set(names)
    for node in reversed(graph.nodes.values()):
        if node.name in alive:
            alive.update(node.sources())
    return [name for name in graph.nodes if name in alive]


def mixes_samples(graph: Graph, names: Iterable[str]) -> bool:
    """Return whether an op that some ops need would join samples that are stacked."""
    constant = constant_ops(graph)
    for name in ancestors(graph, names):
        node = graph[name]
        if name in constant:
            continue
        if node.shape[:1] != (1,) or (node.kind == KIND and not _is_apart(node)):
            return True
        if node.kind in SOURCES:
            continue
        axis = node.attrs.get("axis", ())
        axes = axis if isinstance(axis, list | tuple) else [axis]
        joined = not {0, -len(graph[node.sources()[0]].shape)}.isdisjoint(axes)
        if node.kind == "matmul":
            joined = len(node.shape) < 3
        ranks = {len(graph[name].shape) for name in node.sources() if name not in constant}
        joined |= len(ranks) > 1  # the first axes of operands are not in line
        if node.kind == "transpose":
            joined = node.attrs["order"][0] != 0
        if joined:
            return True
    return False


def constant_ops(graph: Graph) -> set[str]:
    """Return the ops that no input changes: constants, and what is made of them alone."""
    found: set[str] = set()
    for node in graph:
        sources = node.sources()
        if node.kind in CONSTANTS or (sources and found.issuperset(sources)):
            found.add(node.name)
    return found


def _is_apart(node: Node) -> bool:
    """Return whether a call computes every sample, or row of one, on its own."""
    rank = len(node.shape)
    return operator_of(node).is_elementwise(node) or (rank > 1 and is_normalization(node, rank))
