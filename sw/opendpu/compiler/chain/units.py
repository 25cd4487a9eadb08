# SPDX-License-Identifier: Apache-2.0
"""The rows of a layer that are made at a time in a chain, and what they cost."""

import dataclasses
from collections.abc import Sequence

from opendpu.compiler.chain.stage import Buffer, Need, Unit
from opendpu.compiler.cost import alu_cycles, conv_cycles, misc_cycles
from opendpu.compiler.emission.conv import MAX_JUMP as MAX_CONV_JUMP
from opendpu.compiler.emission.geometry import can_read, can_write, chunks
from opendpu.compiler.emission.misc import MAX_JUMP as MAX_MISC_JUMP
from opendpu.compiler.layout import Layout
from opendpu.compiler.plan import (
    AluLayer,
    ComputeLayer,
    ConvLayer,
    EltwiseLayer,
    Network,
    Region,
    Window,
)
from opendpu.compiler.tiling.cut import MAX_COLUMNS, walks_round
from opendpu.compiler.tiling.misc import MAX_GROUPS
from opendpu_arch.target import Target

TILE_SHARE = 4
"""A convolution's results wait for their epilogue in at most this part of a bank."""


def has_epilogue(layer: ComputeLayer) -> bool:
    """Tell whether the misc engine takes up the results of a convolution."""
    return isinstance(layer, ConvLayer) and layer.epilogue is not None


@dataclasses.dataclass(frozen=True)
class Units:
    """Cuts the layers of a chain into units."""

    network: Network
    target: Target

    def pass_blocks(self, layer: ComputeLayer, columns: int) -> int:
        """Return how many blocks of output channels are made before the epilogue takes them."""
        if not isinstance(layer, ConvLayer):
            return 0
        out = self.network.features[layer.output]
        blocks = -(-out.channels // self.target.output_channel_parallel)
        if layer.epilogue is None:
            return blocks
        most = max(1, self.target.bank_depth // TILE_SHARE // (2 * columns))
        return -(-blocks // -(-blocks // most))

    def of_layer(
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
        groups_in = -(-source.channels // target.channel_parallel)
        if walks_round(window, target, columns, groups_in):
            return None
        if conv and operands[0].stride > 1 and operands[0].row_words > MAX_CONV_JUMP:
            return None
        most = target.pixel_parallel if conv else target.alu_pixel_parallel
        layout_in, layout_out = self._layout(operands[0]), self._layout(output)
        jump = MAX_CONV_JUMP if conv else MAX_MISC_JUMP
        if has_epilogue(layer):
            tile = dataclasses.replace(
                output, stride=1, group_rows=most, row_words=columns * pass_blocks
            )
            layout_out = self._layout(tile)

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
            units.append(
                self._unit(layer, row, rows, tuple(needs), columns, pass_blocks, output.stride)
            )
        return tuple(units) if len(units) <= 2 * -(-out.height // most) else None

    def _unit(
        self,
        layer: ComputeLayer,
        row: int,
        rows: int,
        needs: tuple[Need, ...],
        columns: int,
        pass_blocks: int,
        stride_out: int,
    ) -> Unit:
        target, out = self.target, self.network.features[layer.output]
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
