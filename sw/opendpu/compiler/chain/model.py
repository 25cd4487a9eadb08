# SPDX-License-Identifier: Apache-2.0
"""Consecutive layers as stages and buffers, if they can run as a chain at all."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from opendpu.compiler.chain.columns import Columns, tile_columns
from opendpu.compiler.chain.stage import Buffer, Stage
from opendpu.compiler.chain.units import Units, has_epilogue
from opendpu.compiler.chain.weights import weight_cycles, weights_fit
from opendpu.compiler.cost import transfer_cycles
from opendpu.compiler.layout import wish
from opendpu.compiler.plan import (
    ComputeLayer,
    ConvLayer,
    DilatedConvLayer,
    EltwiseLayer,
    MoveLayer,
    Network,
    Region,
    root_of,
    sources_of,
)
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A chain: ``sources`` holds the buffer of every operand, by stage."""

    first: int
    stages: tuple[Stage, ...]
    buffers: tuple[Buffer, ...]
    least: tuple[int, ...]
    """Address groups that a buffer has at least."""
    sources: tuple[tuple[int, ...], ...]
    tiles: tuple[Mapping[str, Columns], ...]
    blocks: tuple[int, ...]
    """Output channel blocks between convolution and epilogue, by stage."""
    weight_cycles: int

    @property
    def last(self) -> int:
        """Number of the last layer."""
        return self.first + len(self.stages) - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a chain must know of the rest of the network."""

    network: Network
    target: Target
    homes: Mapping[str, Region]
    """Feature maps that are on chip whole."""
    streamed: Collection[tuple[int, str]]
    """(layer, feature map) where a layer reads from DDR all the same."""
    readers: Mapping[str, Sequence[int]]


def model_chain(around: Surroundings, first: int, last: int, parts: int) -> Model | None:
    """Return layers ``first`` to ``last``, cut into ``parts`` tiles of columns, as a chain.

    None if these layers cannot run so: weights that do not fit all at once, readers of one feature
    map that want different rows in a bank, results that come back through DDR.
    """
    layers = [
        layer for layer in around.network.layers[first : last + 1]
        if not isinstance(layer, MoveLayer | DilatedConvLayer)
    ]  # fmt: skip
    if len(layers) <= last - first:
        return None
    return _Builder(around, first, layers).model(parts)


class _Builder:
    """One attempt."""

    def __init__(self, around: Surroundings, first: int, layers: list[ComputeLayer]) -> None:
        self.around = around
        self.network, self.target = around.network, around.target
        self.numbers = range(first, first + len(layers))
        self.layers = layers
        self.made = {layer.output for layer in self.layers}
        self.held = {a.holder for a in self.network.aliases.values()}
        self.strides: dict[str, int] = {}

    def model(self, parts: int) -> Model | None:
        """Return the chain, or none."""
        if not self._possible() or not self._agree():
            return None
        leaving = {n for n in self.made if self._leaves(n) or n in self.around.homes}
        tiles = tile_columns(self.network, self.layers, leaving, parts)
        if tiles is None:
            return None
        widest = {n: max(t[n][1] for t in tiles) for n in tiles[0]}
        cuts = Units(self.network, self.target)
        buffers: dict[tuple[str, int], Buffer] = {}
        stages, sources, blocks = [], [], []
        for number, layer in zip(self.numbers, self.layers, strict=True):
            columns = widest[layer.output]
            keys = []
            for name in sources_of(layer):
                stride = self._stride(number, layer, name)
                if stride != wish(layer, name):
                    return None
                keys.append((name, stride))
                buffers.setdefault((name, stride), self._buffer(number, name, stride, widest[name]))
            stride = self.strides[layer.output]
            if stride > 1 and (isinstance(layer, EltwiseLayer) or has_epilogue(layer)):
                return None
            out = (layer.output, stride)
            buffers[out] = self._buffer(number, layer.output, stride, columns)
            places = list(buffers)
            read = tuple(places.index(key) for key in keys)
            pass_blocks = cuts.pass_blocks(layer, columns)
            units = cuts.of_layer(layer, [buffers[k] for k in keys], read, buffers[out], columns,
                                pass_blocks)  # fmt: skip
            if units is None:
                return None
            shared = [
                r for r, (name, _) in zip(read[1:], keys[1:], strict=True)
                if self._shares(layer, name)
            ]  # fmt: skip
            if shared and parts > 1:
                return None
            stages.append(
                Stage(
                    number=number, units=units, output=places.index(out),
                    engine=Engine.CONV if isinstance(layer, ConvLayer) else Engine.MISC,
                    in_place=shared[0] if shared else None,
                    tile_words=2 * columns * pass_blocks if has_epilogue(layer) else 0,
                )
            )  # fmt: skip
            sources.append(read)
            blocks.append(pass_blocks)
        every = tuple(buffers.values())
        least = [1] * len(every)
        for stage in stages:
            for unit in stage.units:
                for need in unit.needs:
                    rows = every[need.buffer].group_rows
                    touched = (need.high - 1) // rows - need.low // rows + 1
                    least[need.buffer] = max(least[need.buffer], touched)
                rows = every[stage.output].group_rows
                if unit.row // rows != (unit.row + unit.rows - 1) // rows:
                    least[stage.output] = every[stage.output].groups
        return Model(
            first=self.numbers[0], stages=tuple(stages), buffers=every, least=tuple(least),
            sources=tuple(sources), tiles=tuple(tiles), blocks=tuple(blocks),
            weight_cycles=weight_cycles(self.target, self.layers),
        )  # fmt: skip

    def _possible(self) -> bool:
        """Tell whether weights fit, and nothing made here comes back through DDR."""
        if not weights_fit(self.network, self.target, self.layers):
            return False
        aliases = self.network.aliases
        roots = {root_of(aliases, name) for name in self.made}
        for name in (n for layer in self.layers for n in sources_of(layer)):
            if root_of(aliases, name) in roots and name not in self.made:
                return False
            if name in self.made and (name in aliases or name in self.held):
                return False
        return True

    def _agree(self) -> bool:
        """Find the rows a bank of every result; tell whether all readers agree."""
        for name in self.made:
            wishes = {
                wish(layer, name) for layer in self.layers if name in sources_of(layer)
            }  # fmt: skip
            if name in self.around.homes:
                stride = self.around.homes[name].stride
                inside = {n for n in self.numbers if name in sources_of(self.network.layers[n])}
                if any((n, name) in self.around.streamed for n in inside):
                    return False
                if wishes - {stride}:
                    return False
            elif len(wishes) > 1:
                return False
            else:
                stride = wishes.pop() if wishes else 1
            self.strides[name] = stride
        return True

    def _stride(self, number: int, layer: ComputeLayer, name: str) -> int:
        """Return the rows a bank of an operand."""
        if name in self.made:
            return self.strides[name]
        if name in self.around.homes and (number, name) not in self.around.streamed:
            return self.around.homes[name].stride
        return wish(layer, name)

    def _leaves(self, name: str) -> bool:
        """Tell whether somebody outside the chain needs a result."""
        outside = any(n not in self.numbers for n in self.around.readers[name])
        aliased = name in self.network.aliases or name in self.held
        return outside or aliased or name in self.network.outputs

    def _shares(self, layer: ComputeLayer, name: str) -> bool:
        homes = self.around.homes
        return name in homes and layer.output in homes and homes[name] == homes[layer.output]

    def _buffer(self, number: int, name: str, stride: int, columns: int) -> Buffer:
        feature, target = self.network.features[name], self.target
        groups = -(-feature.channels // target.channel_parallel)
        row = transfer_cycles(columns, feature.channels, feature.channels, target.channel_parallel)
        made = name in self.made
        resident = name in self.around.homes and (
            made or (number, name) not in self.around.streamed
        )
        saved = made and self._leaves(name)
        if resident:
            saved = made and (
                name in self.network.outputs or any(n == name for _, n in self.around.streamed)
            )
        return Buffer(
            name=name, height=feature.height, stride=stride, row_words=columns * groups,
            resident=resident, load=0 if made or resident else row, save=row if saved else 0,
            group_rows=stride * target.pixel_parallel,
        )  # fmt: skip
