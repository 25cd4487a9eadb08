# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions, poolings and activations: ALU instructions."""

import dataclasses
import functools
from collections.abc import Iterator

from opendpu.compiler.banks import BankAccess
from opendpu.compiler.banks.layout import Layout
from opendpu.compiler.banks.reach import (
    Footprint,
    can_read,
    can_write,
    chunks,
    columns_needed,
    footprint,
    rows_needed,
)
from opendpu.compiler.emitter.cascade_tile import CascadeTile
from opendpu.compiler.emitter.channels import ChannelConstants, channel_constants
from opendpu.compiler.emitter.kind import LayerEmitter
from opendpu.compiler.emitter.layouts import tile_layout, whole_tile
from opendpu.compiler.emitter.recorder import Operand, Recorder
from opendpu.compiler.emitter.records import Records
from opendpu.compiler.emitter.slots import table_of
from opendpu.compiler.emitter.transfer import (
    Source,
    Tile,
    load_alu_weights,
    parts_of,
    save_rows,
    tiles_of,
)
from opendpu.compiler.layers import AluLayer, ScaleLayer
from opendpu.compiler.plan import WEIGHTS_REG, LayerPlan
from opendpu_arch.isa import Alu, AluInit, AluMode
from opendpu_arch.legal import POINTWISE_MODES


def emit_alu(recorder: Recorder, plan: LayerPlan, layer: AluLayer) -> None:
    """Append the commands of a depthwise convolution or pooling.

    Loops, outermost first: channel groups, columns, rows.
    """
    source, *_ = recorder.operands(plan)
    output = recorder.operand(layer.output, plan.output)
    constants = AluConstants(recorder, layer)
    constants.load_own()
    for tile in tiles_of(whole_tile(recorder, output), plan.nest):
        constants.load(tile.group, tile.groups)
        first, many = columns_needed(layer.window, source.feature, tile.column, tile.columns)
        layout_in = tile_layout(
            recorder, source, dataclasses.replace(tile, column=first, columns=many)
        )
        rows_in = Source(recorder, source, layout_in)
        layout_out = tile_layout(recorder, output, tile)
        work = AluTile(recorder, layer, rows_in, tile, output, layout_out, constants)
        for row, rows in chunks(0, output.feature.height, plan.nest.rows, work.fits):
            work.emit(row, rows)


class AluConstants:
    """What channels of a layer have, and the weights of some channel groups at a time."""

    def __init__(self, recorder: Recorder, layer: AluLayer) -> None:
        self.recorder, self.layer = recorder, layer
        self._weights = 0
        self._channels = recorder.plan.network.features[layer.output].channels
        self._loaded = (0, 0)
        self._own: ChannelConstants | Records | None = None

    def load(self, group: int, groups: int) -> None:
        """Load the weights of some channel groups, unless they are there."""
        if not self._has_weights or self._loaded == (group, groups):
            return
        self._loaded = (group, groups)
        self._weights = load_alu_weights(
            self.recorder, self._place(), self._taps, self._channels, group, groups
        )

    def _place(self) -> tuple[int, int]:
        """Return register and address of the weights: constants, or the pixel of a feature map."""
        plan = self.recorder.plan
        if isinstance(self.layer, ScaleLayer):
            memory = plan.memory[self.layer.factors]
            return memory.reg_id, memory.address
        return WEIGHTS_REG, plan.constants[f"{self.layer.name}/weights"]

    @property
    def _has_weights(self) -> bool:
        return self.layer.weights is not None or isinstance(self.layer, ScaleLayer)

    @property
    def _taps(self) -> int:
        return self.layer.window.kernel_h * self.layer.window.kernel_w

    @property
    def tap_words(self) -> int:
        """Words from a tap to the next."""
        return self._loaded[1]

    def word(self, group: int) -> int:
        """Return the word of the first tap of a channel group whose weights are loaded."""
        return (self._weights + group - self._loaded[0]) % self.recorder.target.bank_depth

    def accesses(self) -> Iterator[BankAccess]:
        """Yield the words of the weights."""
        if self._has_weights:
            words = self._taps * self.tap_words
            yield BankAccess(False, self.recorder.target.dwconvw_bank, 1, self._weights, words)

    def load_own(self) -> None:
        """Load what channels have, unless it is there."""
        if self._own is None:
            self._own = channel_constants(self.recorder, self.layer, self._channels)

    @property
    def own(self) -> ChannelConstants | Records:
        """What channels have, which is loaded."""
        assert self._own is not None, self.layer.name
        return self._own


@dataclasses.dataclass(frozen=True)
class AluTile:
    """Some columns and channel groups of a layer of the misc engine, made rows by rows."""

    recorder: Recorder
    layer: AluLayer
    rows_in: Source
    tile: Tile
    output: Operand
    layout_out: Layout
    constants: AluConstants

    def fits(self, row: int, rows: int) -> bool:
        """Tell whether one instruction can make these rows."""
        source = self.rows_in
        return can_read(
            source.layout, source.operand.feature, self.layer.window, row, rows
        ) and can_write(self.layout_out, row, rows, max_jump=self.layer.REACH.row_jump)

    def emit(self, row: int, rows: int) -> None:
        """Append what makes ``rows`` rows: loads, the instruction, saves."""
        self.rows_in.need(rows_needed(self.layer.window, row, rows))
        self.compute(row, rows)
        made = range(row, row + rows)
        save_rows(self.recorder, self.output, self.layout_out, self.tile, made)

    def _rows_per_bank(self, rows: int) -> int:
        """Return the rows that share a bank in what one instruction writes."""
        return self.layout_out.region.stride if rows > 1 else 1

    def _is_row_alone(self) -> bool:
        """Tell whether the instruction takes its row wherever it is, as those without window do."""
        return self.layer.mode in POINTWISE_MODES and self.rows_in.layout.region.stride > 1

    def _set_up(self, row: int, rows: int, read: Footprint) -> None:
        """Append what all instructions of a tile have in common, unless it is in force."""
        layer, window, tile = self.layer, self.layer.window, self.tile
        layout_in, layout_out = self.rows_in.layout, self.layout_out
        alone, stride_out = self._is_row_alone(), self._rows_per_bank(rows)
        lanes = (tile.group + tile.groups) * self.recorder.target.channel_parallel
        factor = layer.multi_factor
        if layer.requantization is not None and layer.mode == AluMode.DWCV:
            factor = layer.requantization.padding
        self.recorder.set_up(
            AluInit(
                exec_mode=layer.mode, kernel_h=window.kernel_h, kernel_w=window.kernel_w,
                stride_h=1 if alone else layout_in.region.stride, stride_w=window.stride_w,
                stride_offset_in=0 if alone else layout_in.place(read.row).offset,
                stride_out=stride_out,
                stride_offset_out=layout_out.place(row).offset if stride_out > 1 else 0,
                channel_group=tile.groups,
                channel_offset=max(0, lanes - self.rows_in.operand.feature.channels),
                length=tile.columns, act_type=layer.act_type, shift_bias=layer.shift_bias,
                shift_cut=layer.shift_cut, multi_factor=factor & 0xFF,
                shift_prelu_p=layer.shift_prelu_p, shift_prelu_n=layer.shift_prelu_n,
                jump_read=layout_in.groups, jump_read_endl=layout_in.row_words,
                jump_read_weights=self.constants.tap_words,
                jump_write=layout_out.groups, jump_write_endl=layout_out.row_words,
            )
        )  # fmt: skip

    def _bases(self, read: Footprint) -> tuple[int, int, int, int]:
        """Return the words of the four address groups of the input."""
        layout, group = self.rows_in.layout, self.tile.group
        if not self._is_row_alone():
            return layout.bases(read.row, read.column, group)
        place = layout.place(read.row)
        at = layout.word(place.address_group, place.offset, read.column, group)
        return (at, at, at, at)

    def compute(self, row: int, rows: int) -> None:
        """Append one ALU: ``rows`` rows of the tile."""
        layer, tile = self.layer, self.tile
        layout_in, layout_out = self.rows_in.layout, self.layout_out
        feature = self.rows_in.operand.feature
        read = footprint(layer.window, feature, row, rows, tile.column, tile.columns)
        bases, place_out = self._bases(read), layout_out.place(row)
        offset = 0 if rows > 1 else place_out.offset
        word = layout_out.word(place_out.address_group, offset, tile.column, tile.group)
        own = self.constants.own
        self._set_up(row, rows, read)
        table, entries = table_of(self.recorder, layer)
        first, last = max(0, read.row), min(feature.height, read.row + read.rows) - 1
        self.recorder.add(
            Alu(
                bank_id_in=layout_in.first_bank + layout_in.place(read.row).bank,
                bank_addr_in=bases[0], bank_addr_in_1=bases[1], bank_addr_in_2=bases[2],
                bank_addr_in_3=bases[3], pad_left=read.pad_left, pad_right=read.pad_right,
                pad_top=read.pad_top, pad_bottom=read.pad_bottom, valid_pixel_parallel=rows,
                bank_id_out=layout_out.first_bank + place_out.bank, bank_addr_out=word,
                bank_addr_weights=self.constants.word(tile.group),
                bank_addr_bias=own.word(tile.group, tile.groups), table=table,
                channel_shift=int(layer.shifts is not None),
                scaled=int(layer.requantization is not None),
            ),
            (
                *entries,
                *layout_in.accesses_of_groups(
                    first, last - first + 1, tile.group, tile.groups, write=False
                ),
                *self.constants.accesses(),
                *own.accesses(tile.group, tile.groups),
                *layout_out.accesses_of_groups(row, rows, tile.group, tile.groups, write=True),
            ),
            layer.instruction_cycles(tile.columns, tile.groups, self._rows_per_bank(rows)),
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class AluStripes:
    """A layer of the misc engine in one tile of columns, some channel groups after the other.

    The first ones are made while the array still makes the last ones of the input.
    """

    parts: tuple[AluTile, ...]
    whole: Tile
    """All channel groups."""

    def emit(self, row: int, rows: int) -> None:
        """Append what makes ``rows`` rows: loads, the instructions, saves."""
        first = self.parts[0]
        first.rows_in.need(rows_needed(first.layer.window, row, rows))
        for part in self.parts:
            part.compute(row, rows)
        made = range(row, row + rows)
        save_rows(first.recorder, first.output, first.layout_out, self.whole, made)


class AluCascade:
    """A layer of the misc engine with a window, in a cascade."""

    def __init__(self, recorder: Recorder, plan: LayerPlan, layer: AluLayer) -> None:
        self.recorder, self.plan, self.layer = recorder, plan, layer

    @functools.cached_property
    def constants(self) -> AluConstants:
        """Weights and biases, on chip all at once; they are loaded at the first stripe."""
        made = AluConstants(self.recorder, self.layer)
        groups = whole_tile(
            self.recorder, self.recorder.operand(self.layer.output, self.plan.output)
        ).groups
        made.load(0, groups)
        made.load_own()
        return made

    def stripes(self, tile: CascadeTile) -> AluStripes:
        """Return the layer in one tile of columns."""
        output, layout = tile.output(self.plan)
        whole = tile.part(self.layer.output, 0, whole_tile(self.recorder, output).groups)
        source, *_ = tile.sources(self.plan)
        parts = (
            AluTile(self.recorder, self.layer, source, part, output, layout, self.constants)
            for part in parts_of(whole, self.plan.nest.groups)
        )
        return AluStripes(tuple(parts), whole)


ALU = LayerEmitter(alone=emit_alu, in_cascade=AluCascade)
