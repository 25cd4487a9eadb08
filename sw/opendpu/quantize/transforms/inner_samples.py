# SPDX-License-Identifier: Apache-2.0
"""Layers over feature maps that a network makes a batch of itself: frames, views, crops, persons.

The batch of the DPU is 1. What slides a window over each of several maps becomes a layer for each
map, with the same weights, and so does what only reads these; in
front and behind is one tall map of them all, which is the batch in other words.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from opendpu.ir import Graph, Node
from opendpu.ops import CONSTANTS, SOURCES, operator_of

MOST_MAPS = 16
"""Maps of the largest batch that is taken apart."""
MOST_LAYERS = 1 << 10
"""Nodes that are made at most."""
MAP_RANK = 4
WINDOWS = frozenset({
    "avgpool2d", "conv2d", "depthwise-conv2d", "maxpool2d", "pixel-shuffle", "reorg", "resize",
    "transposed-conv2d", "transposed-depthwise-conv2d",
})  # fmt: skip
"""Ops over feature maps that a DPU has for one map only."""


def take_apart(graph: Graph) -> bool:
    """Write layers of several maps as one for each, in place; return whether there were any.

    A network whose inputs all have another batch stays as it is: these are samples.
    """
    inputs = [node for node in graph if node.kind in SOURCES]
    if inputs and all(node.shape[:1] != (1,) for node in inputs):
        return False
    maps = _Maps(graph)
    for node in list(graph):
        if node.kind not in (*CONSTANTS, *SOURCES) and 1 < node.shape[0] <= MOST_MAPS:
            maps.take(node)
    if maps.made:
        graph.sort()
        graph.prune()
    return maps.made > 0


@dataclasses.dataclass
class _Maps:
    """A graph, and what its batches are made of."""

    graph: Graph
    made: int = 0
    parts: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    """The nodes of single maps, by that of the batch."""

    def take(self, node: Node) -> None:
        """Write a node as one for each map, if it is of those."""
        count = node.shape[0]
        sources = [name for name in node.sources() if self.graph[name].value is None]
        batches = [name for name in sources if self.graph[name].shape[0] == count]
        attrs = self._attributes(node, sources)
        if attrs is None or not batches or self.made + count > MOST_LAYERS:
            return
        if node.kind not in WINDOWS and self.parts.keys().isdisjoint(batches):
            return
        split = {name: self._maps_of(name) for name in batches}
        own = [
            self._add(
                node, f"{node.name}_{i}", node.kind, attrs,
                {arg: [split[n][i] if n in split else n for n in names]
                 for arg, names in node.inputs.items()},
            )
            for i in range(count)
        ]  # fmt: skip
        self.parts[node.name] = own
        rows, *others = node.shape[1:]
        tall = self._add(
            node, f"{node.name}_tall", "concat", {"axis": 1}, {"input": own},
            (1, count * rows, *others),
        )  # fmt: skip
        node.kind, node.inputs = "reshape", {"input": [tall]}
        node.attrs = {"shape": list(node.shape)}

    def _attributes(self, node: Node, sources: list[str]) -> Mapping[str, Any] | None:
        """Return the attributes with which a node computes one map; None where there are none."""
        every = [self.graph[name].shape for name in sources]
        if len(node.shape) != MAP_RANK or any(len(shape) != MAP_RANK for shape in every):
            return None
        if any(shape[0] not in (1, node.shape[0]) for shape in every):
            return None
        if node.kind in WINDOWS:
            return node.attrs
        if operator_of(node).is_elementwise(node):
            constants = [self.graph[n] for n in node.sources() if self.graph[n].value is not None]
            each = any(len(c.shape) >= MAP_RANK and c.shape[0] != 1 for c in constants)
            return None if each else node.attrs
        rule = RULES.get(node.kind)
        return rule(node.attrs) if rule is not None else None

    def _maps_of(self, name: str) -> list[str]:
        """Return the nodes of a batch's maps: slices, where it is not made of them."""
        if name not in self.parts:
            node = self.graph[name]
            count, rows, *others = node.shape
            tall = self._add(
                node, f"{name}_tall", "reshape", {"shape": [1, count * rows, *others]},
                {"input": [name]}, (1, count * rows, *others),
            )  # fmt: skip
            self.parts[name] = [
                self._add(
                    node, f"{name}_map_{i}", "strided_slice",
                    {"begin": [0, i * rows, 0, 0], "end": [1, (i + 1) * rows, *others],
                     "strides": [1] * MAP_RANK},
                    {"input": [tall]},
                )
                for i in range(count)
            ]  # fmt: skip
        return self.parts[name]

    def _add(
        self, node: Node, name: str, kind: str, attrs: Mapping[str, Any],
        inputs: Mapping[str, list[str]], shape: tuple[int, ...] = (),
    ) -> str:  # fmt: skip
        """Append a node, of one map if its shape is not given."""
        self.made += 1
        type_ = node.type.with_shape(shape or (1, *node.shape[1:]))
        unique = self.graph.unique(name)
        return self.graph.add(unique, kind, type_, inputs, dict(attrs), origin=node.origin).name


def _same(attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    return attrs


def _inside(attrs: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Attributes of what works along axes, if the batch is none of them."""
    axis = attrs.get("axis", -1)
    axes = [axis] if isinstance(axis, int) else axis
    return None if any(int(a) % MAP_RANK == 0 for a in axes) else attrs


def _reduced(attrs: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return _inside(attrs) if attrs["keep_dims"] else None


def _padded(attrs: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return None if any(attrs["paddings"][:2]) else attrs


RULES: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any] | None]] = {
    "batchnorm": _inside, "concat": _inside, "groupnorm": _same, "instancenorm": _same,
    "l2_normalize": _inside, "pad": _padded, "reduction_max": _reduced,
    "reduction_mean": _reduced, "reduction_sum": _reduced, "scale": _inside, "softmax": _inside,
}  # fmt: skip
"""What is taken apart behind others, by kind: attributes for one map."""
