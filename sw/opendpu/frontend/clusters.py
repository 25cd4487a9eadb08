# SPDX-License-Identifier: Apache-2.0
"""Nodes that only work together: between them go values that are no tensors of a known shape."""

import graphlib
import heapq
from collections.abc import Callable, Sequence

import onnx

from opendpu.frontend.model_file import reads


def clustered(
    nodes: Sequence[onnx.NodeProto], crosses: Callable[[str], bool]
) -> list[list[onnx.NodeProto]]:
    """Return the nodes in groups, most of one node, in topological order.

    Values for which ``crosses`` does not hold stay inside a group. No group waits for another
    that waits for it: what lies between two nodes of a group is in the group too.
    """
    producer = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    sources = [[producer[n] for n in reads(node) if n in producer] for node in nodes]
    leader = list(range(len(nodes)))

    def find(node: int) -> int:
        while leader[node] != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for i, node in enumerate(nodes):
        for name in reads(node):
            if name in producer and not crosses(name):
                leader[find(i)] = find(producer[name])
    if all(find(i) == i for i in range(len(nodes))):
        return [[node] for node in nodes]
    while True:
        waits: dict[int, set[int]] = {find(i): set() for i in range(len(nodes))}
        for i, before in enumerate(sources):
            waits[find(i)] |= {find(source) for source in before} - {find(i)}
        sorter = graphlib.TopologicalSorter(waits)
        try:
            sorter.prepare()
        except graphlib.CycleError as error:
            first, *others = error.args[1]
            for other in others:
                leader[find(other)] = find(first)
        else:
            break
    members: dict[int, list[int]] = {}
    for i in range(len(nodes)):
        members.setdefault(find(i), []).append(i)
    return [[nodes[i] for i in members[group]] for group in _in_order(sorter, members)]


def _in_order(
    sorter: "graphlib.TopologicalSorter[int]", members: dict[int, list[int]]
) -> list[int]:
    """Return the groups, inputs first, otherwise in the order of the model."""
    order: list[int] = []
    waiting: list[tuple[int, int]] = []
    while sorter.is_active():
        for group in sorter.get_ready():
            heapq.heappush(waiting, (members[group][0], group))
        _, group = heapq.heappop(waiting)
        order.append(group)
        sorter.done(group)
    return order
