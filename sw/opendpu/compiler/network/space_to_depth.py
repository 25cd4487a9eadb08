# SPDX-License-Identifier: Apache-2.0
"""Pass: neighbouring pixels of a row become channels of one, where blocks of lanes are then full.

A convolution to 24 channels has two blocks of output channels on an array with 16 lanes, and half
of the second one is idle. Two neighbouring pixels are 48 channels: three full blocks, of which one
belongs to both pixels and has a kernel that is wider by one column. In DDR both are the same bytes,
so that only layers which meet on chip have to agree. Those that read such a map, what these read
and make, and so on, are a group: it is changed as a whole or not at all.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

from opendpu.compiler.layers import (
    AluLayer,
    ComputeLayer,
    ConvLayer,
    EltwiseLayer,
    Feature,
    Features,
    Layer,
    ScaleLayer,
    channel_groups,
)
from opendpu.compiler.limits import MAX_CHANNEL_GROUPS
from opendpu.compiler.network import Alias, Network
from opendpu.compiler.network.deepened import POINT, deepened, is_pixel
from opendpu_arch.isa import AluMode, Engine
from opendpu_arch.target import Target

MOST_PIXELS = 8
"""Pixels that become one at most."""
LEAST_SHARE = 0.05
"""Part of the array's cycles that a group has to save: what is planned around it may be dearer."""


CyclesAlone = Callable[[Layer, Features, Target], int | None]
"""Cycles that a layer takes alone; none where it has no room."""


def space_to_depth(network: Network, target: Target, cycles_alone: CyclesAlone) -> Network:
    """Return ``network`` with pixels as channels where the array is then faster."""
    unchanged = {id(layer) for layer in network.layers}
    for layer in network.layers:
        if (
            id(layer) in unchanged
            and isinstance(layer, ConvLayer)
            and may_gain(network, layer, target)
        ):
            tried = range(2, MOST_PIXELS + 1)
            groups = (Group(network, layer, pixels, target) for pixels in tried)
            best = max(groups, key=lambda group: group.saved)
            if best.saved > 0:
                network = best.changed(cycles_alone)
                unchanged = {id(one) for one in network.layers}
    return network


def may_gain(network: Network, layer: ConvLayer, target: Target) -> bool:
    """Tell whether lanes of a convolution's last block of output channels are idle."""
    if type(layer) is not ConvLayer or layer.depthwise or layer.epilogue is not None:
        return False
    out = network.features[layer.output]
    return out.width > 1 and out.channels % target.output_channel_parallel != 0


class Group:
    """The layers that change together when one convolution makes ``pixels`` pixels in one."""

    def __init__(self, network: Network, first: ConvLayer, pixels: int, target: Target) -> None:
        self.network, self.pixels, self.target = network, pixels, target
        self.in_ddr = network.in_ddr
        self.deep: dict[str, None] = {}
        self.layers: dict[str, ComputeLayer] = {}
        """Those that change, by result."""
        self.possible = self._spread(first)
        self.saved = self._saved() if self.possible else 0

    def _spread(self, first: ConvLayer) -> bool:
        """Find all layers and feature maps of the group; tell whether they can be changed."""
        made, readers = self.network.writers, self.network.consumers
        touched: dict[str, Layer] = {}
        waiting = [first.output]
        while waiting:
            name = waiting.pop()
            if name in self.deep:
                continue
            if not self._can_deepen(name) or (name not in self.in_ddr and name not in made):
                return False
            self.deep[name] = None
            near: list[Layer] = [first] if name == first.output else []
            if name not in self.in_ddr:
                near = [made[name], *(self.network.layers[n] for n in readers[name])]
            for one in near:
                if one.output not in touched:
                    touched[one.output] = one
                    waiting += self._with(one)
        for name, layer in touched.items():
            found = deepened(
                layer, self.network.features, self._deep_for(layer), self.pixels, self.target
            )
            if found is None:
                return False
            self.layers[name] = found
        return True

    def _with(self, layer: Layer) -> Iterator[str]:
        """Yield the feature maps of a layer of the group that have to be deeper too."""
        if isinstance(layer, EltwiseLayer | ScaleLayer):
            yield from (*layer.operands, layer.output)
        elif isinstance(layer, ConvLayer):
            yield layer.output
        elif isinstance(layer, AluLayer) and layer.mode != AluMode.AVEPOOL:
            yield from (layer.source, layer.output)

    def _deep_for(self, layer: Layer) -> set[str]:
        """Return the feature maps that are deeper for a layer; in DDR a window has the choice."""
        deep = set(self.deep)
        if isinstance(layer, ConvLayer) and layer.source in self.in_ddr and layer.window != POINT:
            deep.discard(layer.source)
        return deep

    def _can_deepen(self, name: str) -> bool:
        """Tell whether the bytes of a feature map are those of one with fewer, deeper pixels."""
        feature, alias = self.network.features[name], self.network.aliases.get(name)
        groups = channel_groups(self._deeper(feature), self.target)
        if feature.planes or groups > MAX_CHANNEL_GROUPS:
            return False
        if is_pixel(feature):
            return name not in self.in_ddr
        if alias is not None:
            if alias.overlapping or alias.repeats or alias.holder in self.network.aliases:
                return False
            if alias.pixel_bytes != feature.channels:
                return False
        return feature.width % self.pixels == 0

    def _deeper(self, feature: Feature) -> Feature:
        """Return a feature map with pixels as channels."""
        width = 1 if is_pixel(feature) else feature.width // self.pixels
        return dataclasses.replace(feature, width=width, channels=feature.channels * self.pixels)

    def _saved(self) -> int:
        """Return the cycles that the group saves on the array, if that is enough of them."""
        features, writers = self.network.features, self.network.writers
        before = _work((writers[name] for name in self.layers), features, self.target)
        names = (n for layer in self.layers.values() for n in (*layer.operands, layer.output))
        own = {n: self._deeper(features[n]) if n in self.deep else features[n] for n in names}
        after = _work(self.layers.values(), own, self.target)
        saved = before[Engine.CONV] - after[Engine.CONV]
        for engine in (Engine.MISC, Engine.LOAD):
            saved -= max(0, after[engine] - before[engine])
        return saved if saved > LEAST_SHARE * before[Engine.CONV] else 0

    def changed(self, cycles_alone: CyclesAlone) -> Network:
        """Return the network with the group changed, if each of its layers has room alone."""
        features, aliases = dict(self.network.features), dict(self.network.aliases)
        renamed = {}
        for name in self.deep:
            renamed[name] = f"{name}/depth{self.pixels}"  # another group may read it otherwise
            features[renamed[name]] = dataclasses.replace(
                self._deeper(features[name]), name=renamed[name]
            )
            if name in self.in_ddr:
                aliases[renamed[name]] = self._same_bytes(name)
            else:
                del features[name]
        layers: list[Layer] = []
        for layer in self.network.layers:
            if layer.output in self.layers:
                deeper = self.layers[layer.output]
                layer = _renamed(deeper, renamed, self._deep_for(layer))
                if cycles_alone(layer, features, self.target) is None:
                    return self.network
            layers.append(layer)
        return dataclasses.replace(
            self.network, features=features, aliases=aliases, layers=tuple(layers)
        )

    def _same_bytes(self, name: str) -> Alias:
        """Return where the bytes of a feature map in DDR are."""
        feature, alias = self.network.features[name], self.network.aliases.get(name)
        if alias is None:
            size = feature.channels
            alias = Alias(holder=name, offset=0, pixel_bytes=size, row_bytes=size * feature.width)
        return dataclasses.replace(alias, pixel_bytes=alias.pixel_bytes * self.pixels)


def _work(layers: Iterable[Layer], features: Features, target: Target) -> Mapping[Engine, int]:
    """Return the cycles of the engines; those of LOAD for weights."""
    found = {Engine.CONV: 0, Engine.MISC: 0, Engine.LOAD: 0}
    for layer in layers:
        assert isinstance(layer, ComputeLayer)
        found[Engine.LOAD] += layer.weight_cycles(target)
        for engine, cycles in layer.engine_cycles(features, target).items():
            found[engine] += cycles
    return found


def _renamed(layer: ComputeLayer, renamed: Mapping[str, str], deep: set[str]) -> ComputeLayer:
    """Return a layer with other names of the feature maps that are deeper for it."""
    names = {old: new for old, new in renamed.items() if old in deep}
    output = names.get(layer.output, layer.output)
    if isinstance(layer, EltwiseLayer):
        sources = tuple(names.get(name, name) for name in layer.sources)
        return dataclasses.replace(layer, sources=sources, output=output)
    if isinstance(layer, ScaleLayer):
        layer = dataclasses.replace(layer, factors=names.get(layer.factors, layer.factors))
    assert isinstance(layer, ConvLayer | AluLayer)
    return dataclasses.replace(layer, source=names.get(layer.source, layer.source), output=output)
