# SPDX-License-Identifier: Apache-2.0
"""Hard-sigmoid and hard-swish where exporters write them as sums, ReLU6 and products."""

import numpy as np

from opendpu.ir import Graph, Node

SIXTH = 1 / 6
TOLERANCE = 1e-4


def recognize(graph: Graph) -> None:
    """Replace ``relu6(x + 3) / 6`` and ``x * relu6(x + 3) / 6``, in place."""
    for node in graph:
        if not _is_affine(graph, node, SIXTH, 0):
            continue
        inner = graph[node.inputs["input"][0]]
        source = _shifted(graph, inner, node)
        if source is not None:
            node.kind, node.inputs, node.attrs = "hard-sigmoid", {"input": [source]}, {}
        elif inner.kind == "mul" and _only(graph, inner, node) and len(inner.sources()) == 2:
            one, other = inner.inputs["input"]
            for factor, gate in ((one, other), (other, one)):
                if _shifted(graph, graph[gate], inner) == factor:
                    node.kind, node.inputs, node.attrs = "hard-swish", {"input": [factor]}, {}
                    break


def _shifted(graph: Graph, node: Node, user: Node) -> str | None:
    """Return ``x`` if a node is ``relu6(x + 3)`` and nothing but ``user`` sees it."""
    if node.kind != "relu6" or not _only(graph, node, user):
        return None
    added = graph[node.inputs["input"][0]]
    if not _is_affine(graph, added, 1, 3) or not _only(graph, added, node):
        return None
    return added.inputs["input"][0]


def _only(graph: Graph, node: Node, user: Node) -> bool:
    users = [found.name for found in graph.consumers(node.name)]
    return users == [user.name] and node.name not in graph.outputs


def _is_affine(graph: Graph, node: Node, factor: float, offset: float) -> bool:
    """Return whether a node multiplies all channels by ``factor`` and adds ``offset``."""
    if node.kind != "scale":
        return False
    for arg, wanted in (("scale", factor), ("bias", offset)):
        value = graph[node.inputs[arg][0]].value
        if value is None or not np.allclose(value, wanted, rtol=0, atol=TOLERANCE):
            return False
    return True
