# SPDX-License-Identifier: Apache-2.0
"""The network that lowering makes: features, layers and aliases so far."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping

import numpy as np

from opendpu.compiler.layers import Feature, Features, Int8Array, Layer, MoveLayer
from opendpu.compiler.lower.alias_table import AliasTable
from opendpu.compiler.network import Alias, Network, root_of
from opendpu.compiler.network.strides import Strides, dense, strides_through
from opendpu.ir import Graph, Node
from opendpu_arch.target import Target

LayerCost = Callable[[Layer, Features, Target], int | None]
"""Returns the cycles of a layer alone, from DDR to DDR; none if it does not fit."""
ELEMENT_BYTES = {"argmax-fix": 4}
"""Bytes of an element where these are not int8."""


class LoweringContext:
    """One run of the pass over the ``nodes`` of a DPU part; ``outputs`` are needed outside it.

    ``target`` and ``cost`` only decide between candidates that give the same.
    """

    def __init__(
        self, graph: Graph, nodes: list[Node], outputs: set[str], target: Target, cost: LayerCost
    ) -> None:
        self.graph = graph
        self.nodes = nodes
        self.outputs = outputs
        self.target = target
        self.cost = cost
        self.inside = {n.name for n in nodes}
        self.features: dict[str, Feature] = {}
        self.layers: list[Layer] = []
        self.aliases = AliasTable()
        self.inputs: dict[str, None] = {}
        self.constants: dict[str, Int8Array] = {}
        self.op = ""
        """Name of the node that is being lowered."""

    @functools.cached_property
    def users(self) -> Mapping[str, list[Node]]:
        """The nodes that read each node; lowering does not change the graph."""
        return self.graph.consumer_map()

    def network(self) -> Network:
        """Return the finished network."""
        return Network(
            features=self.features, layers=tuple(self.layers), inputs=tuple(self.inputs),
            outputs=tuple(n.name for n in self.nodes if n.name in self.outputs),
            aliases=dict(self.aliases), constants=self.constants,
        )  # fmt: skip

    def add(self, layer: Layer) -> None:
        """Add a layer of the node that is being lowered."""
        self.layers.append(dataclasses.replace(layer, op=self.op))

    def feature(self, node: Node) -> Feature:
        """Add the feature map of a node; rows are all axes but the last two.

        Elements of several bytes are as many channels.
        """
        *rows, width, channels = (*(1,) * (4 - len(node.shape)), *node.shape[1:])
        channels *= ELEMENT_BYTES.get(node.kind, 1)
        height = math.prod(rows)
        feature = Feature(name=node.name, height=height, width=width, channels=channels)
        self.features[node.name] = feature
        return feature

    def constant(self, node: Node, arg: str) -> Int8Array:
        """Return the values of a constant argument."""
        value = self.graph[node.inputs[arg][0]].value
        assert value is not None
        return np.asarray(value, dtype=np.int8)

    def copy(self, source: str, name: str) -> str:
        """Add a layer that copies a feature map; return the copy's name."""
        feature = self.features[source]
        self.features[name] = Feature(
            name=name, height=feature.height, width=feature.width, channels=feature.channels
        )
        self.add(MoveLayer(name=name, source=source, output=name))
        return name

    def root(self, name: str) -> str:
        """Return the feature map whose bytes ``name`` is part of."""
        return root_of(self.aliases, name)

    def strides(self, name: str) -> Strides | None:
        """Return where a feature map is in its root, or none if its pixels are at no fixed strides.

        Of the aliases so far.
        """
        if name not in self.aliases:
            return dense(self.features[name])
        alias = self.aliases[name]
        holder = self.strides(alias.holder)
        if holder is None:
            return None
        return strides_through(alias, self.features[name], self.features[alias.holder], holder)

    def alias(self, name: str, alias: Alias) -> bool:
        """Make ``name`` bytes of another feature map, and return true, if all strides are fixed.

        Its own and those of its parts, for those of all others stay what they are.
        """
        old = self.aliases.get(name)
        self.aliases[name] = alias
        if all(self.strides(part) is not None for part in self.aliases.with_parts(name)):
            return True
        del self.aliases[name]
        if old is not None:
            self.aliases[name] = old
        return False

    def is_served(self, source: str, name: str) -> bool:
        """Tell whether a result that is an output cannot be bytes of ``source``.

        Inputs and outputs have segments of their own, and so do two outputs.
        """
        if name not in self.outputs:
            return False
        root = self.root(source)
        return root in self.inputs or any(self.root(o) == root for o in self.outputs - {name})
