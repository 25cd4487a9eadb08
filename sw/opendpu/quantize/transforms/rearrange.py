# SPDX-License-Identifier: Apache-2.0
"""Chains of reshapes and transposes, written as one transpose between two reshapes.

Exporters write what moves patches, windows and heads in many steps, some of which leave channels
elsewhere than in the last axis, or join axes that lie apart. Together they often move pixels only.
A layer of one pixel that makes fewer channels goes ahead of a transpose of pixels, which then moves
less, and may meet another one.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from opendpu.ir import Graph, Node
from opendpu.ops.window import pixel_window

Attributes = Mapping[str, Any]
KINDS = ("reshape", "flatten", "squeeze", "transpose")


@dataclasses.dataclass(eq=False)
class _Factor:
    """Part of an axis; identity tells it from others of the same size."""

    size: int


@dataclasses.dataclass
class _Chain:
    """The factors of a tensor's axes, in the order of the first tensor and of the one so far."""

    first: list[_Factor]
    axes: list[list[_Factor]]

    @classmethod
    def of(cls, shape: Sequence[int]) -> "_Chain":
        """Return the chain of no steps."""
        first = [_Factor(size) for size in shape]
        return cls(first, [[factor] for factor in first])

    def reshape(self, shape: Sequence[int]) -> bool:
        """Add a step; return whether its axes are made of whole factors, some cut in two."""
        left = [factor for axis in self.axes for factor in axis if factor.size > 1]
        axes: list[list[_Factor]] = []
        for size in shape:
            axes.append([])
            while size > 1:
                factor = left.pop(0)
                if factor.size > size:
                    if factor.size % size:
                        return False
                    left.insert(0, self._cut(factor, size))
                elif size % factor.size:
                    return False
                axes[-1].append(factor)
                size //= factor.size
        self.axes = axes
        return True

    def transpose(self, order: Sequence[int]) -> None:
        """Add a step."""
        self.axes = [self.axes[axis] for axis in order]

    def _cut(self, factor: _Factor, size: int) -> _Factor:
        """Make a factor one of ``size``, and return the one behind it."""
        rest = _Factor(factor.size // size)
        factor.size = size
        self.first.insert(self.first.index(factor) + 1, rest)
        return rest

    def simplest(self) -> tuple[list[int], list[int]]:
        """Return sizes of the first tensor and the order that they get, as few as possible."""
        last = [factor for axis in self.axes for factor in axis if factor.size > 1]
        first = [factor for factor in self.first if factor.size > 1]
        places = [first.index(factor) for factor in last]
        groups: list[list[int]] = []
        for place in places:
            if groups and groups[-1][-1] == place - 1:
                groups[-1].append(place)
            else:
                groups.append([place])
        ranked = sorted(groups)
        sizes = [math.prod(first[place].size for place in group) for group in ranked]
        return sizes, [ranked.index(group) for group in groups]


def rearrange(graph: Graph) -> None:
    """Replace chains that hold more than one transpose by one with at most one, in place."""
    for node in list(graph):
        if node.kind == "conv2d":
            _ahead(graph, node)
    users = graph.consumer_map()
    for node in list(graph):
        if node.kind not in KINDS:
            continue
        inside = node.name not in graph.outputs and bool(users[node.name])
        if not (inside and all(user.kind in KINDS for user in users[node.name])):
            _replace(graph, node)
    graph.sort()
    graph.prune()


def _ahead(graph: Graph, node: Node) -> None:
    """Let a layer of one pixel read what a transpose of pixels moves, and move its result."""
    moved = graph[node.inputs["input"][0]]
    if moved.kind != "transpose" or not graph.is_read_once(moved.name):
        return
    order = [int(axis) for axis in moved.attrs["order"]]
    (source,) = moved.inputs["input"]
    rank, shape = len(order), graph[source].shape
    if (
        (order[0], order[-1]) != (0, rank - 1) or node.shape[-1] > shape[-1]
        or any(node.attrs[name] != pixel_window()[name] for name in ("kernel", "stride", "pad"))
    ):  # fmt: skip
        return
    made = graph.unique(f"{node.name}_ahead")
    inputs = {**node.inputs, "input": [source]}
    kept = node.type.with_shape((*shape[:-1], node.shape[-1]))
    graph.add(made, node.kind, kept, inputs, node.attrs, origin=node.origin)
    node.kind, node.inputs, node.attrs = "transpose", {"input": [made]}, {"order": order}


def _replace(graph: Graph, node: Node) -> None:
    """Make a node the end of the shortest chain."""
    steps = [node]
    while graph[steps[-1].sources()[0]].kind in KINDS:
        steps.append(graph[steps[-1].sources()[0]])
    (source,) = steps[-1].sources()
    if sum(step.kind == "transpose" for step in steps) < 2 or graph[source].value is not None:
        return
    chain = _Chain.of(graph[source].shape)
    for step in reversed(steps):
        if step.kind == "transpose":
            chain.transpose([int(axis) for axis in step.attrs["order"]])
        elif not chain.reshape(step.shape):
            return
    sizes, order = chain.simplest()
    if order != sorted(order):
        shape = (1, *sizes)
        moved = (0, *(axis + 1 for axis in order))
        source = _add(graph, node, "reshape", shape, source, {"shape": list(shape)})
        source = _add(
            graph, node, "transpose", tuple(shape[axis] for axis in moved), source,
            {"order": list(moved)},
        )  # fmt: skip
    node.kind, node.inputs = "reshape", {"input": [source]}
    node.attrs = {"shape": list(node.shape)}


def _add(
    graph: Graph, node: Node, kind: str, shape: tuple[int, ...], source: str, attrs: Attributes
) -> str:
    """Add a step of the chain that ends in a node."""
    name = graph.unique(f"{node.name}_{kind}")
    made = node.type.with_shape(shape)
    return graph.add(name, kind, made, {"input": [source]}, attrs, origin=node.origin).name
