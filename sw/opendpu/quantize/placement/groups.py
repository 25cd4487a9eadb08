# SPDX-License-Identifier: Apache-2.0
"""Which tensors are quantized, and which of them must have the same scale."""

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence

from opendpu.ir import Graph, Node
from opendpu.ir.types import FLOAT32
from opendpu.ops import operator_of
from opendpu.ops.functions import Function
from opendpu.quantize.layers import is_layer
from opendpu.quantize.transforms.approximate import LEAKY_SLOPE

RELU6_FIX_POINT = 4
"""Least fix point of a result of ReLU6: the engines stop at 96, which is 6 there."""

GATE_INPUT_FIX_POINT = 0
"""Least fix point of the input of a hard-sigmoid: the engine adds a 3 in units of it."""

GATE_FIX_POINT = 7
"""Least fix point of its result: the engine only stops at one where int8 does."""


@dataclasses.dataclass
class Demands:
    """What ops need of their scales, beyond what their kinds tell.

    Parameters
    ----------
    least
        Least fix points, by op.
    same
        Ops that need the scale of another one.
    saturating
        Ops that are meant to saturate: what they are has no part in the scale of others.
    floating
        Ops that stay in float, with the reason.
    """

    least: dict[str, int] = dataclasses.field(default_factory=dict)
    same: dict[str, str] = dataclasses.field(default_factory=dict)
    saturating: set[str] = dataclasses.field(default_factory=set)
    floating: dict[str, str] = dataclasses.field(default_factory=dict)

    def add(self, others: "Demands") -> None:
        """Add what other ops need."""
        self.least |= others.least
        self.same |= others.same
        self.saturating |= others.saturating
        self.floating |= others.floating


@dataclasses.dataclass(frozen=True)
class ScaleGroups:
    """The quantized tensors of a graph, by the ops that make them.

    Parameters
    ----------
    names
        Those that a ``fix`` follows, in topological order.
    group
        By name, the member that stands for all tensors of the same scale.
    lower_bounds
        Least fix points, by group.
    results
        By layer, the tensor that it is rounded to: its own, or its activation's.
    saturating
        Tensors that have no part in the scale of their group.
    meant
        Those that saturate because they are made to: these, and those that need a fine scale.
    """

    names: list[str]
    group: dict[str, str]
    lower_bounds: dict[str, int]
    results: dict[str, str]
    saturating: frozenset[str] = frozenset()
    meant: frozenset[str] = frozenset()

    @functools.cached_property
    def members(self) -> dict[str, list[str]]:
        """Names by group, in topological order."""
        found: dict[str, list[str]] = {}
        for name in self.names:
            found.setdefault(self.group[name], []).append(name)
        return found

    @functools.cached_property
    def deciding(self) -> dict[str, list[str]]:
        """Names whose values decide about the scale, by group."""
        return {
            group: [name for name in members if name not in self.saturating] or members
            for group, members in self.members.items()
        }


def find_groups(
    graph: Graph,
    floating: Collection[str],
    tables: Sequence[Function] = (),
    demands: Demands | None = None,
) -> ScaleGroups:
    """Decide which tensors of a folded graph are quantized.

    ``floating`` are the ops that stay in float (:mod:`opendpu.quantize.placement.scope`); within
    functions that become ``tables`` nothing is rounded. Some ops have further ``demands``.
    """
    demands = demands or Demands()
    users = graph.consumer_map()
    apart = {*floating, *(name for function in tables for name in function.nodes)}
    fused = {n.name for n in graph if _is_fused(graph, n, users[n.name], apart)}
    inner = {name for function in tables for name in function.nodes[:-1]}
    names = []
    for node in graph:
        if node.value is not None or node.name in fused | inner or not _has_scale(node):
            continue
        if node.name not in floating or any(u.name not in floating for u in users[node.name]):
            names.append(node.name)
    names += [name for name in _constant_operands(graph, apart) if name not in names]
    group = _groups(graph, names, floating, demands.same)
    results = {
        node.name: users[node.name][0].name if node.name in fused else node.name
        for node in graph
        if is_layer(node) and node.name not in floating
    }
    bounds = _lower_bounds(graph, group, apart, demands.least)
    meant = frozenset(demands.saturating | demands.least.keys())
    return ScaleGroups(names, group, bounds, results, frozenset(demands.saturating), meant)


def _has_scale(node: Node) -> bool:
    """Return whether a result is real numbers, which int8 can stand for."""
    return node.type.dtype == FLOAT32 and not gives_integers(node)


def gives_integers(node: Node) -> bool:
    """Return whether the DPU's result is no int8: the index of a maximum."""
    operator = operator_of(node)
    return operator.on_dpu and operator_of(operator.fixed).element_bytes > 1


def _is_fused(graph: Graph, node: Node, users: list[Node], floating: Collection[str]) -> bool:
    """Return whether the only reader is an activation that the same engine applies."""
    return (
        len(users) == 1
        and node.name not in graph.outputs
        and node.name not in floating
        and users[0].name not in floating
        and users[0].kind in operator_of(node).fuses
        and users[0].attrs.get("alpha", LEAKY_SLOPE) == LEAKY_SLOPE
    )


def _constant_operands(graph: Graph, floating: Collection[str]) -> list[str]:
    """Return the constants that the DPU's ops take as operands; weights have their own scale."""
    found: dict[str, None] = {}
    for node in graph:
        if node.name in floating or is_layer(node):
            continue
        for source in node.sources():
            if graph[source].value is not None:
                found[source] = None
    return list(found)


def _groups(
    graph: Graph, names: list[str], floating: Collection[str], same: Mapping[str, str]
) -> dict[str, str]:
    parent = {name: name for name in names}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for name in names:
        node = graph[name]
        if node.kind != "data" and name not in floating and operator_of(node).shares_scale(node):
            for source in node.inputs["input"]:
                if source in parent:
                    parent[root(source)] = root(name)
    for name, other in same.items():
        if name in parent and other in parent:
            parent[root(other)] = root(name)
    return {name: root(name) for name in names}


def _lower_bounds(
    graph: Graph, group: dict[str, str], floating: Collection[str], given: Mapping[str, int]
) -> dict[str, int]:
    bounds: dict[str, int] = {}

    def raise_to(name: str, least: int) -> None:
        bounds[group[name]] = max(least, bounds.get(group[name], least))

    for name in group.keys() & given.keys():
        raise_to(name, given[name])
    for name in group:
        if graph[name].kind == "relu6" and name not in floating:
            raise_to(name, RELU6_FIX_POINT)
    for node in graph:
        if node.kind != "hard-sigmoid" or node.name in floating:
            continue
        source = node.inputs["input"][0]
        if source in group:
            raise_to(source, GATE_INPUT_FIX_POINT)
        if node.name in group and list(group.values()).count(group[node.name]) == 1:
            raise_to(node.name, GATE_FIX_POINT)
    return bounds
