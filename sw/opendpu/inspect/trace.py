# SPDX-License-Identifier: Apache-2.0
"""From the ops of a partition back to the operators of the user's model."""

from collections.abc import Callable, Iterable, Mapping

from opendpu.compiler.partition import Partitioned
from opendpu.ir import Graph, Node
from opendpu.ir.types import UNKNOWN
from opendpu.ops import CONSTANTS

CONVERSIONS = ("fix", "fix2float", "float2fix")
"""Ops that stand for no operator: they say where scales are."""


def operators(graph: Graph) -> dict[str, list[Node]]:
    """Return the ops of a graph by the operator of the model that they come from."""
    found: dict[str, list[Node]] = {}
    for node in graph:
        if node.kind not in (*CONSTANTS, *CONVERSIONS):
            found.setdefault(operator_name(node), []).append(node)
    return found


def operator_name(node: Node) -> str:
    """Return the name of the operator that an op comes from."""
    return node.origin.name or node.name


class Trace:
    """Which ops of a partition compute what an op of the model did.

    Parameters
    ----------
    graph
        The model.
    quantized
        What the quantizer made of it; the results of its ``fix`` ops name tensors later on.
    value
        The partition.
    """

    def __init__(self, graph: Graph, quantized: Graph, value: Partitioned) -> None:
        self._graph = graph
        made = [n for n in value.graph if n.kind not in (*CONSTANTS, *CONVERSIONS)]
        self._names = {node.name: node for node in made}
        self._tensors = {node.tensor_name: node for node in made}
        self._origins: dict[object, list[Node]] = {}
        for node in made:
            if node.origin != UNKNOWN:
                self._origins.setdefault(node.origin, []).append(node)
        self._fixes: dict[str, list[str]] = {}
        for node in quantized:
            if node.kind == "fix":
                self._fixes.setdefault(node.inputs["input"][0], []).append(node.name)
        self._hosts = self._followed()

    def own(self, node: Node) -> list[Node]:
        """Return the ops that are there for this op of the model."""
        found = [self._names[node.name]] if node.name in self._names else []
        tensors = [node.name, *self._fixes.get(node.name, ())]
        found += [self._tensors[name] for name in tensors if name in self._tensors]
        found += self._origins.get(node.origin, [])
        return list({made.name: made for made in found}.values())

    def host(self, node: Node) -> Node | None:
        """Return the op of the model that one without ops of its own has become a part of."""
        return self._graph[self._hosts[node.name]] if node.name in self._hosts else None

    def _followed(self) -> Mapping[str, str]:
        """Return hosts: what a result is made from or, behind an input, what reads it."""
        owns = {node.name for node in self._graph if self.own(node)}
        inputs = {node.name for node in self._graph if node.kind == "data"}
        hosts: dict[str, str] = {}
        users = self._graph.consumer_map()
        _inherit(self._graph, hosts, owns - inputs, lambda node: node.sources())
        backwards = [self._graph[name] for name in reversed(self._graph.nodes)]
        _inherit(backwards, hosts, owns - inputs, lambda n: [u.name for u in users[n.name]])
        return {name: host for name, host in hosts.items() if name not in owns}


def _inherit(
    nodes: Iterable[Node],
    hosts: dict[str, str],
    owns: set[str],
    near: Callable[[Node], Iterable[str]],
) -> None:
    """Let ops without ops of their own take the host of the first neighbour that has one."""
    for node in nodes:
        if node.name in owns or node.name in hosts:
            continue
        for name in near(node):
            host = name if name in owns else hosts.get(name)
            if host is not None:
                hosts[node.name] = host
                break
