# SPDX-License-Identifier: Apache-2.0
"""What one DPU part computes."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from opendpu.compiler.layers import Feature, Int8Array, Layer
from opendpu.compiler.network.alias import Alias


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """What one DPU subgraph computes: layers in order, feature maps by name.

    ``aliases`` says which feature maps are bytes of another one: reshapes and concatenations that
    cost nothing.
    """

    features: Mapping[str, Feature]
    layers: tuple[Layer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    aliases: Mapping[str, Alias] = dataclasses.field(default_factory=dict)
    constants: Mapping[str, Int8Array] = dataclasses.field(default_factory=dict)
    """Feature maps that are known when compiling; layers read them from DDR."""

    @functools.cached_property
    def in_pieces(self) -> frozenset[str]:
        """The feature maps that may be written as others, which are bytes of them."""
        return frozenset(a.holder for a in self.aliases.values() if not a.repeats)

    @functools.cached_property
    def parts(self) -> Mapping[str, Mapping[str, Alias]]:
        """The feature maps that are bytes of another one, by that."""
        found: dict[str, dict[str, Alias]] = {}
        for name, alias in self.aliases.items():
            found.setdefault(alias.holder, {})[name] = alias
        return found

    @functools.cached_property
    def in_ddr(self) -> frozenset[str]:
        """The feature maps that are in DDR in any case: those that others know, or share bytes."""
        ends = (self.inputs, self.outputs, self.constants, self.aliases, self.parts)
        return frozenset(name for names in ends for name in names)

    @functools.cached_property
    def writers(self) -> Mapping[str, Layer]:
        """The layer that makes each feature map, of those that a layer makes."""
        return {layer.output: layer for layer in self.layers}

    @functools.cached_property
    def consumers(self) -> Mapping[str, Sequence[int]]:
        """The numbers of the layers that read each feature map."""
        found: dict[str, list[int]] = {name: [] for name in self.features}
        for number, layer in enumerate(self.layers):
            for name in dict.fromkeys(layer.operands):
                found[name].append(number)
        return found

    def layer_constants(self) -> dict[str, Int8Array]:
        """Return the constants of all layers, by ``layer/part``; parts of one op share theirs."""
        layers = (one for layer in self.layers for one in (layer, *layer.inner))
        return {
            f"{layer.name}/{part}": values
            for layer in layers
            for part, values in layer.constants.items()
        }

    def read_with(self, name: str) -> tuple[str, ...]:
        """Return the feature maps whose bytes are read with ``name``: itself, or its planes."""
        return self.features[name].planes or (name,)


@dataclasses.dataclass(frozen=True)
class LayerRange:
    """From one layer to another, by number, both included."""

    first: int
    last: int

    @property
    def numbers(self) -> range:
        """The numbers of the layers."""
        return range(self.first, self.last + 1)

    def overlaps(self, other: "LayerRange") -> bool:
        """Tell whether both cover some layer."""
        return self.first <= other.last and other.first <= self.last

    def contains(self, other: "LayerRange") -> bool:
        """Tell whether all layers of the other are layers of this."""
        return self.first <= other.first and other.last <= self.last
