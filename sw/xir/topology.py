# SPDX-License-Identifier: Apache-2.0
"""Topological order that keeps the given order where it can."""

import heapq
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from opendpu_arch.errors import GraphError

Node = TypeVar("Node", bound=Hashable)


def toposort(nodes: Sequence[Node], successors: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """Return ``nodes`` with every node before its successors, otherwise as given.

    Successors outside ``nodes`` are ignored.

    Raises
    ------
    GraphError
        The nodes form a cycle.
    """
    index = {node: i for i, node in enumerate(nodes)}
    waiting = dict.fromkeys(nodes, 0)
    following = {node: [s for s in successors(node) if s in index] for node in nodes}
    for targets in following.values():
        for target in targets:
            waiting[target] += 1
    ready = [index[node] for node in nodes if not waiting[node]]
    order: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        order.append(node)
        for target in following[node]:
            waiting[target] -= 1
            if not waiting[target]:
                heapq.heappush(ready, index[target])
    if len(order) != len(nodes):
        stuck = [node for node in nodes if waiting[node]]
        raise GraphError(f"these form a cycle: {', '.join(map(repr, stuck[:5]))}")
    return order
