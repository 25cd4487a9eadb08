# SPDX-License-Identifier: Apache-2.0
"""The network that lowering makes: features, layers and aliases so far."""

import numpy as np

from opendpu.compiler.plan import Alias, EltwiseLayer, Feature, Int8Array, Layer, Network
from opendpu.ir import Draft, Node


class Context:
    """One run of the pass over the ``nodes`` of a DPU part; ``outputs`` are needed outside it."""

    def __init__(self, draft: Draft, nodes: list[Node], outputs: set[str]) -> None:
        self.draft = draft
        self.nodes = nodes
        self.outputs = outputs
        self.inside = {n.name for n in nodes}
        self.features: dict[str, Feature] = {}
        self.layers: list[Layer] = []
        self.aliases: dict[str, Alias] = {}
        self.inputs: dict[str, None] = {}

    def network(self) -> Network:
        """Return the finished network."""
        return Network(
            features=self.features, layers=tuple(self.layers), inputs=tuple(self.inputs),
            outputs=tuple(n.name for n in self.nodes if n.name in self.outputs),
            aliases=self.aliases,
        )  # fmt: skip

    def feature(self, node: Node) -> Feature:
        """Add the feature map of a node."""
        height, width, channels = (*(1,) * (4 - len(node.shape)), *node.shape[1:])
        feature = Feature(name=node.name, height=height, width=width, channels=channels)
        self.features[node.name] = feature
        return feature

    def constant(self, node: Node, arg: str) -> Int8Array:
        """Return the values of a constant argument."""
        value = self.draft[node.inputs[arg][0]].value
        assert value is not None
        return np.asarray(value, dtype=np.int8)

    def copy(self, source: str, name: str) -> str:
        """Add a layer that copies a feature map; return the copy's name."""
        feature = self.features[source]
        self.features[name] = Feature(
            name=name, height=feature.height, width=feature.width, channels=feature.channels
        )
        self.layers.append(
            EltwiseLayer(name=name, sources=(source,), output=name, shift_read=(0,), shift_write=0)
        )
        return name

    def root(self, name: str) -> str:
        """Return the feature map whose bytes ``name`` is part of."""
        while name in self.aliases:
            name = self.aliases[name].holder
        return name

    def is_dense(self, name: str) -> bool:
        """Tell whether the bytes of a feature map follow each other without gaps."""
        while name in self.aliases:
            alias = self.aliases[name]
            if alias.pixel_bytes != self.features[name].channels:
                return False
            name = alias.holder
        return True

    def is_served(self, source: str, name: str) -> bool:
        """Tell whether a result that is an output cannot be bytes of ``source``.

        Inputs and outputs have segments of their own, and so do two outputs.
        """
        if name not in self.outputs:
            return False
        root = self.root(source)
        return root in self.inputs or any(self.root(o) == root for o in self.outputs - {name})
