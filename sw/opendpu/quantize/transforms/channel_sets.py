# SPDX-License-Identifier: Apache-2.0
"""Which channels of which layers can be scaled together without changing what a network computes.

Every feature map has a factor a channel. Convolutions choose the factors of their results freely,
and undo those of their inputs; ReLU, pooling and the like pass them on; the terms of a sum have the
same; a concatenation has those of its inputs one after the other. Whatever else reads or makes a
feature map fixes its factors at one.
"""

import dataclasses
import math

from opendpu.ir import Graph, Node
from opendpu.ops import operator_of
from opendpu.quantize.layers import has_constant_weights, is_layer


@dataclasses.dataclass
class ChannelSet:
    """Channels with the same factors.

    Parameters
    ----------
    size
        How many channels.
    producers
        Layers that make them.
    consumers
        Layers that read them, with the number of the first one among their input's channels.
    bounded
        ``relu6`` ops that they pass, with the number of the first one among the op's channels.
    reason
        Why the factors have to be one; empty where they are free.
    """

    size: int
    producers: list[str] = dataclasses.field(default_factory=list)
    consumers: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    bounded: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    reason: str = ""

    def fix(self, reason: str) -> None:
        """Say that the factors have to be one; the first reason stays."""
        self.reason = self.reason or reason


class _Sets:
    """The sets of a graph while they are found: sets that turn out to be one are joined."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.all: list[ChannelSet] = []
        self._joined: dict[int, ChannelSet] = {}
        self.of: dict[str, list[ChannelSet]] = {}
        """By tensor, the sets of its channels one after the other."""
        for node in graph:
            self.of[node.name] = self._made(node)
        for name in graph.outputs:
            self._fix(name, f"{name!r} is an output of the network")

    def root(self, found: ChannelSet) -> ChannelSet:
        """Return the set that another one has become."""
        while id(found) in self._joined:
            found = self._joined[id(found)]
        return found

    def _made(self, node: Node) -> list[ChannelSet]:
        """Return the sets of a result, after the op has had its say about those of its inputs."""
        if is_layer(node):
            return [self._of_layer(node)]
        names = node.inputs.get("input", [])
        if node.value is None and names:
            if _passes(self.graph, node):
                found = self.of[names[0]]
                if node.kind == "relu6":
                    for one, start in self._places(found):
                        one.bounded.append((node.name, start))
                return found
            if node.kind == "concat" and int(node.attrs["axis"]) % len(node.shape) == (
                len(node.shape) - 1
            ):
                return [one for name in names for one in self.of[name]]
            if node.kind == "add" and all(self.graph[n].shape == node.shape for n in names):
                return self._sum(node, names)
            if node.kind == "mul" and len(names) == 2:
                return self._product(node, names)
        for source in node.sources():
            self._fix(source, f"{node.name!r} ({node.kind}) reads it and keeps no factors")
        return [self._new(node, f"{node.name!r} ({node.kind}) makes it")]

    def _of_layer(self, node: Node) -> ChannelSet:
        free = has_constant_weights(self.graph, node)
        grouped = int(node.attrs.get("group") or 1) > 1  # its weights have a group's inputs only
        source = node.inputs["input"][0]
        for name in node.sources():
            if name != source:
                self._fix(name, f"{node.name!r} has it as weights")
        if not free or grouped:
            what = "groups" if grouped else "weights that are computed"
            self._fix(source, f"{node.name!r} has {what}")
        else:
            for found, start in self._places(self.of[source]):
                found.consumers.append((node.name, start))
        made = self._new(node, "" if free else f"{node.name!r} has weights that are computed")
        made.producers.append(node.name)
        return made

    def _sum(self, node: Node, names: list[str]) -> list[ChannelSet]:
        """Join the sets of a sum's terms, if all of them are cut into the same pieces."""
        terms = [[self.root(one) for one in self.of[name]] for name in names]
        sizes = [[one.size for one in term] for term in terms]
        if any(size != sizes[0] for size in sizes):
            for name in names:
                self._fix(name, f"{node.name!r} adds what is joined in different ways")
            return [self._new(node, f"{node.name!r} adds what is joined in different ways")]
        for term in terms[1:]:
            for one, other in zip(terms[0], term, strict=True):
                self._join(self.root(one), self.root(other))
        return terms[0]

    def _product(self, node: Node, names: list[str]) -> list[ChannelSet]:
        """Return the sets of what is multiplied; the factors of what it is multiplied with are one.

        Gates (of squeeze-and-excitation, say) are smaller than what they open; otherwise it is the
        first one.
        """
        whole = [name for name in names if self.graph[name].shape == node.shape]
        if not whole or names[0] == names[1]:
            for name in names:
                self._fix(name, f"{node.name!r} (mul) reads it and keeps no factors")
            return [self._new(node, f"{node.name!r} (mul) makes it")]
        (gate,) = (name for name in names if name != whole[0])
        self._fix(gate, f"{node.name!r} multiplies with it")
        return self.of[whole[0]]

    def _join(self, one: ChannelSet, other: ChannelSet) -> None:
        if one is other:
            return
        one.producers += other.producers
        one.consumers += other.consumers
        one.bounded += other.bounded
        one.reason = one.reason or other.reason
        self._joined[id(other)] = one

    def _places(self, sets: list[ChannelSet]) -> list[tuple[ChannelSet, int]]:
        found, start = [], 0
        for one in sets:
            found.append((self.root(one), start))
            start += one.size
        return found

    def _fix(self, name: str, reason: str) -> None:
        for one in self.of[name]:
            self.root(one).fix(reason)

    def _new(self, node: Node, reason: str) -> ChannelSet:
        self.all.append(ChannelSet(node.shape[-1] if node.shape else 1, reason=reason))
        return self.all[-1]


def find_sets(graph: Graph) -> list[ChannelSet]:
    """Return the sets that layers make, in order of the graph, with what others do to them.

    Those that nobody reads, or that a layer reads twice, are fixed too.
    """
    sets = _Sets(graph)
    found = []
    for one in sets.all:
        if sets.root(one) is not one or not one.producers:
            continue
        if not one.consumers:
            one.fix("no layer reads it")
        if len(set(one.consumers)) < len(one.consumers) or any(
            name in one.producers for name, _ in one.consumers
        ):
            one.fix("a layer reads it twice")
        found.append(one)
    return found


def _passes(graph: Graph, node: Node) -> bool:
    """Return whether a result has the factors of the input, which is one."""
    if operator_of(node).homogeneous or node.kind in ("relu6", "identity"):
        return True
    if node.kind not in ("reshape", "flatten", "squeeze"):
        return False
    before = graph[node.inputs["input"][0]].shape  # only axes of one element come and go
    channels = node.shape[-1] if node.shape else 0
    return bool(before) and before[-1] == channels == math.prod(before) == math.prod(node.shape)
