# SPDX-License-Identifier: Apache-2.0
"""Consecutive layers as stages and buffers, if they can run as a chain at all."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from opendpu.compiler.chain.columns import Columns, tile_columns
from opendpu.compiler.chain.stage import Buffer, Need, Stage, Unit
from opendpu.compiler.cost import alu_cycles, conv_cycles, misc_cycles, transfer_cycles
from opendpu.compiler.emission.geometry import can_read, can_write, chunks
from opendpu.compiler.layout import Layout
from opendpu.compiler.plan import (
    AluLayer,
    ComputeLayer,
    ConvLayer,
    EltwiseLayer,
    MoveLayer,
    Network,
    Region,
    Window,
    sources_of,
)
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target

MAX_COLUMNS = 1024
"""Output columns of one instruction."""
MAX_GROUPS = 256
"""Channel groups of one instruction of the misc engine."""
MAX_CONV_JUMP = 1024
"""Words between rows of a bank for CONV."""
MAX_MISC_JUMP = 8192
"""Words between rows of a bank for the misc engine."""
TILE_SHARE = 4
"""A convolution's results wait for their epilogue in at most this part of a bank."""


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
        if not isinstance(layer, MoveLayer)
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
        buffers: dict[tuple[str, int], Buffer] = {}
        stages, sources, blocks = [], [], []
        for number, layer in zip(self.numbers, self.layers, strict=True):
            columns = widest[layer.output]
            keys = []
            for name in sources_of(layer):
                stride = self._stride(number, layer, name)
                if stride != _wish(layer, name):
                    return None
                keys.append((name, stride))
                buffers.setdefault((name, stride), self._buffer(number, name, stride, widest[name]))
            stride = self.strides[layer.output]
            if stride > 1 and (isinstance(layer, EltwiseLayer) or _epilogue(layer)):
                return None
            out = (layer.output, stride)
            buffers[out] = self._buffer(number, layer.output, stride, columns)
            places = list(buffers)
            read = tuple(places.index(key) for key in keys)
            pass_blocks = self._pass_blocks(layer, columns)
            units = self._units(layer, [buffers[k] for k in keys], read, buffers[out], columns,
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
                    tile_words=2 * columns * pass_blocks if _epilogue(layer) else 0,
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
            weight_cycles=self._weight_cycles(),
        )  # fmt: skip

    def _possible(self) -> bool:
        """Tell whether weights fit, and nothing made here comes back through DDR."""
        target = self.target
        conv = alu = biases = 0
        for layer in self.layers:
            out = self.network.features[layer.output]
            for name in sources_of(layer):
                if self._root(name) in {self._root(m) for m in self.made} and name not in self.made:
                    return False
                if name in self.made and (name in self.network.aliases or name in self.held):
                    return False
            if isinstance(layer, EltwiseLayer):
                continue
            biases += -(-out.channels // target.channel_parallel)
            if layer.weights is None:
                continue
            taps = layer.window.kernel_h * layer.window.kernel_w
            if isinstance(layer, ConvLayer):
                inputs = self.network.features[layer.source].channels
                blocks = -(-out.channels // target.output_channel_parallel)
                conv += taps * -(-inputs // target.input_channel_parallel) * blocks
            else:
                alu += taps * -(-out.channels // target.channel_parallel)
        return max(conv, alu, biases) <= target.bank_depth

    def _root(self, name: str) -> str:
        while name in self.network.aliases:
            name = self.network.aliases[name].holder
        return name

    def _agree(self) -> bool:
        """Find the rows a bank of every result; tell whether all readers agree."""
        for name in self.made:
            wishes = {
                _wish(layer, name) for layer in self.layers if name in sources_of(layer)
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
        return _wish(layer, name)

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

    def _pass_blocks(self, layer: ComputeLayer, columns: int) -> int:
        """Return how many blocks of output channels are made before the epilogue takes them."""
        if not isinstance(layer, ConvLayer):
            return 0
        out = self.network.features[layer.output]
        blocks = -(-out.channels // self.target.output_channel_parallel)
        if layer.epilogue is None:
            return blocks
        most = max(1, self.target.bank_depth // TILE_SHARE // (2 * columns))
        return -(-blocks // -(-blocks // most))

    def _units(
        self,
        layer: ComputeLayer,
        operands: Sequence[Buffer],
        read: tuple[int, ...],
        output: Buffer,
        columns: int,
        pass_blocks: int,
    ) -> tuple[Unit, ...] | None:
        """Return the rows that are made at a time, or none if an instruction cannot do it."""
        target = self.target
        out = self.network.features[layer.output]
        window = Window() if isinstance(layer, EltwiseLayer) else layer.window
        conv = isinstance(layer, ConvLayer)
        groups = -(-out.channels // target.channel_parallel)
        if columns > MAX_COLUMNS or (not conv and groups > MAX_GROUPS):
            return None
        source = self.network.features[operands[0].name]
        walked = (columns - 1) * window.stride_w + window.kernel_w
        groups_in = -(-source.channels // target.channel_parallel)
        if walked * groups_in > target.bank_depth:
            return None
        if conv and operands[0].stride > 1 and operands[0].row_words > MAX_CONV_JUMP:
            return None
        most = target.pixel_parallel if conv else target.alu_pixel_parallel
        layout_in, layout_out = self._layout(operands[0]), self._layout(output)
        jump = MAX_CONV_JUMP if conv else MAX_MISC_JUMP
        tile = dataclasses.replace(output, stride=1, resident=False, group_rows=most)
        if _epilogue(layer):
            layout_out = self._layout(dataclasses.replace(tile, row_words=columns * pass_blocks))

        def fits(row: int, rows: int) -> bool:
            return can_read(layout_in, source, window, row, rows) and can_write(
                layout_out, row, rows, max_jump=jump
            )

        units = []
        for row, rows in chunks(0, out.height, most, fits):
            if not can_read(layout_in, source, window, row, rows):
                return None
            top = row * window.stride_h - window.pad_top
            low = min(max(0, top), source.height - 1)
            high = max(low + 1, min(source.height, top + (rows - 1) * window.stride_h
                                    + window.kernel_h))  # fmt: skip
            needs = [Need(read[0], low, high)]
            needs += [Need(b, row, row + rows) for b in read[1:]]
            units.append(self._unit(layer, row, rows, tuple(needs), columns, pass_blocks))
        return tuple(units) if len(units) <= 2 * -(-out.height // most) else None

    def _unit(
        self,
        layer: ComputeLayer,
        row: int,
        rows: int,
        needs: tuple[Need, ...],
        columns: int,
        pass_blocks: int,
    ) -> Unit:
        target, out = self.target, self.network.features[layer.output]
        stride_out = self.strides[layer.output]
        groups = -(-out.channels // target.channel_parallel)
        if not isinstance(layer, ConvLayer):
            cycles = misc_cycles(columns, groups, len(needs))
            if isinstance(layer, AluLayer):
                cycles = alu_cycles(columns, groups, layer.window, stride_out)
            return Unit(row=row, rows=rows, needs=needs, cycles=cycles)
        blocks = -(-out.channels // target.output_channel_parallel)
        inputs = self.network.features[layer.source].channels
        taps = layer.window.kernel_h * layer.window.kernel_w
        taps *= -(-inputs // target.input_channel_parallel)
        after, passes = 0, -(-blocks // pass_blocks)
        if layer.epilogue is not None:
            operands = len(layer.epilogue.layer.sources)
            times = -(-rows // target.alu_pixel_parallel)
            after = passes * times * misc_cycles(columns, pass_blocks, operands)
        return Unit(
            row=row, rows=rows, needs=needs, cycles=blocks * conv_cycles(columns, taps, stride_out),
            after=after, parts=passes,
        )  # fmt: skip

    def _layout(self, buffer: Buffer) -> Layout:
        region = Region(
            bank_group=0, base=0, words=0, stride=buffer.stride, ring=max(buffer.groups, 1)
        )
        return Layout(target=self.target, region=region, columns=buffer.row_words, groups=1)

    def _weight_cycles(self) -> int:
        total = 0
        for layer in self.layers:
            if isinstance(layer, ConvLayer):
                outputs, height, width, inputs = layer.weights.shape
                total += outputs * transfer_cycles(
                    height * width, inputs, inputs, self.target.channel_parallel
                )
            elif isinstance(layer, AluLayer) and layer.weights is not None:
                rows, columns, channels = layer.weights.shape
                total += transfer_cycles(
                    rows * columns, channels, channels, self.target.channel_parallel
                )
        return total


def _epilogue(layer: ComputeLayer) -> bool:
    return isinstance(layer, ConvLayer) and layer.epilogue is not None


def _wish(layer: ComputeLayer, name: str) -> int:
    """Return the rows a bank with which ``layer`` reads a feature map at full speed."""
    if isinstance(layer, EltwiseLayer) or name != layer.source:
        return 1
    return layer.window.stride_h
