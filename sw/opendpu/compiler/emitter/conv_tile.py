# SPDX-License-Identifier: Apache-2.0
"""CONV instructions of one tile of a convolution."""

import dataclasses
import math

from opendpu.compiler.banks import BankAccess
from opendpu.compiler.banks.layout import Layout, Place
from opendpu.compiler.banks.reach import Footprint, footprint, rows_needed
from opendpu.compiler.emitter.channels import channel_constants
from opendpu.compiler.emitter.epilogue import EpilogueRows
from opendpu.compiler.emitter.recorder import Operand, Recorder
from opendpu.compiler.emitter.slots import table_of
from opendpu.compiler.emitter.transfer import (
    Source,
    Tile,
    WeightsPlace,
    blocks_a_load,
    load_conv_weights,
    load_kernel_part,
    save_rows,
)
from opendpu.compiler.layers import ArrayLayer, ConvLayer, ProductLayer, Window
from opendpu.compiler.layers.array import KernelPart
from opendpu.compiler.layers.cost import conv_cycles
from opendpu.compiler.plan import WEIGHTS_REG
from opendpu_arch.isa import Conv, ConvInit


class ConvWeights:
    """Weights of a layer, and what its channels have, in their banks.

    Blocks of weights are loaded when first needed.
    """

    def __init__(self, recorder: Recorder, layer: ArrayLayer) -> None:
        self.recorder = recorder
        self._layer = layer
        self.shape = layer.weights_shape
        channels = recorder.plan.network.features[layer.output].channels
        self.blocks = -(-channels // recorder.target.output_channel_parallel)
        self._place = _place(recorder, layer)
        self.channels = channel_constants(recorder, layer, channels)
        self._words: dict[int, int] = {}
        self._parts: dict[tuple[int, range, range], int] = {}

    def forget(self) -> None:
        """Expect no weights on chip, because others will take their place."""
        self._words, self._parts = {}, {}

    def need(self, block: int, last: int) -> int:
        """Return the word of a block's weights; blocks up to ``last`` may come with it."""
        own = self._layer.block_weights(block)
        if block not in self._words and own is not None:
            place = dataclasses.replace(
                self._place, address=self._place.address + own.offset,
                output_bytes=math.prod(own.shape[1:]),
            )  # fmt: skip
            (self._words[block],) = load_conv_weights(self.recorder, place, own.shape, 0, 1)
        elif block not in self._words:
            count = blocks_a_load(self.recorder, self._place, self.shape, last - block)
            words = load_conv_weights(self.recorder, self._place, self.shape, block, count)
            self._words.update(zip(range(block, block + count), words, strict=True))
        return self._words[block]

    def need_part(self, block: int, last: int, rows: range, columns: range) -> int:
        """Return the word of some kernel rows and columns of a block, see :meth:`need`."""
        if (len(rows), len(columns)) == self.shape[1:3]:
            return self.need(block, last)
        part = block, rows, columns
        if part not in self._parts:
            self._parts[part] = load_kernel_part(
                self.recorder, self._place, self.shape, block, rows, columns
            )
        return self._parts[part]


def _place(recorder: Recorder, layer: ArrayLayer) -> WeightsPlace:
    """Return where weights are in DDR: constants, or the pixels of a feature map."""
    if isinstance(layer, ProductLayer):
        memory = recorder.plan.memory[layer.other]
        return WeightsPlace(
            reg_id=memory.reg_id, address=memory.address, output_bytes=memory.pixel_bytes
        )
    _, height, width, inputs = layer.weights_shape
    return WeightsPlace(
        reg_id=WEIGHTS_REG, address=recorder.plan.constants[f"{layer.name}/weights"],
        output_bytes=height * width * inputs,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Rows:
    """What the instructions of all blocks share that meet as much of a kernel as of ``part``."""

    part: KernelPart
    read: Footprint
    place_in: Place
    place_out: Place
    bases: tuple[int, int, int, int]
    """Words of the first channel group in the four address groups of the input."""
    word: int
    """Word of the result's first channel group."""
    init: ConvInit
    columns: int
    """Columns that an instruction makes."""
    rows_in: range
    """Rows of the input that it reads."""
    cycles: int


@dataclasses.dataclass(frozen=True)
class ConvTile:
    """Some columns and output channel blocks of a convolution, made rows by rows."""

    recorder: Recorder
    layer: ConvLayer | ProductLayer
    rows_in: Source
    weights: ConvWeights
    tile: Tile
    result: Operand
    layout_out: Layout
    epilogue: EpilogueRows | None

    def emit(self, row: int, rows: int) -> None:
        """Append what makes ``rows`` rows: loads, convolutions, the epilogue, saves."""
        self.rows_in.need(rows_needed(self.layer.window, row, rows))
        self.compute(row, rows)
        if self.epilogue is None:
            made = range(row, row + rows)
            save_rows(self.recorder, self.result, self.layout_out, self.tile, made)
        else:
            self.epilogue.emit(row, rows)

    def compute(self, row: int, rows: int) -> None:
        """Append the convolutions that make ``rows`` rows, whose inputs are there."""
        for phase in range(self.layer.columns_a_pixel):
            columns = self._columns(phase)
            if columns:
                self._compute_columns(row, rows, columns, phase * self.weights.blocks)

    def _columns(self, phase: int) -> range:
        """Return the columns of the tile that the instructions of a phase make."""
        tile, pixels = self.tile, self.layer.columns_a_pixel
        first = tile.column + (phase - tile.column) % pixels
        return range(first, tile.column + tile.columns, pixels)

    def _compute_columns(self, row: int, rows: int, columns: range, before: int) -> None:
        """Append those for some columns, whose weights come behind ``before`` blocks of others."""
        last, groups_in = self.tile.group + self.tile.groups, self.rows_in.layout.groups
        common: _Rows | None = None
        for block in range(self.tile.group, last):
            weights = self.weights.need(before + block, before + last)
            part = self.layer.kernel_part(block, groups_in)
            if common is None or not part.agrees(common.part):
                common = self._common(row, rows, columns, part)
            self._convolve(common, range(row, row + rows), block, part.group, weights)

    def _rows_per_bank(self, rows: int) -> int:
        """Return the rows that share a bank in what one instruction writes."""
        return self.layout_out.region.stride if rows > 1 else 1

    def _common(self, row: int, rows: int, columns: range, part: KernelPart) -> _Rows:
        """Return what the instructions for some columns of ``rows`` rows share."""
        target, many, pixels = self.recorder.target, len(columns), self.layer.columns_a_pixel
        layout_in, layout_out = self.rows_in.layout, self.layout_out
        feature = self.rows_in.operand.feature
        read = footprint(part.window, feature, row, rows, columns.start // pixels, many)
        place_in, place_out = layout_in.place(read.row), layout_out.place(row)
        offset = 0 if rows > 1 else place_out.offset
        return _Rows(
            part=part, read=read, place_in=place_in, place_out=place_out,
            bases=layout_in.bases(read.row, read.column),
            word=layout_out.word(place_out.address_group, offset, columns.start),
            init=self._init(row, rows, place_in.offset, part.window),
            columns=many,
            rows_in=range(max(0, read.row), min(feature.height, read.row + read.rows)),
            cycles=conv_cycles(
                many, self.layer.cycles_of_taps(part.taps, target),
                self.layer.write_cycles(self._rows_per_bank(rows)),
            ),
        )  # fmt: skip

    def _init(self, row: int, rows: int, offset_in: int, window: Window) -> ConvInit:
        """Return what sets up a kernel's blocks of some rows."""
        layer = self.layer
        layout_in, layout_out = self.rows_in.layout, self.layout_out
        stride_out, jump = self._rows_per_bank(rows), layer.REACH.row_jump
        zero_in = 0 if layer.requantization is None else layer.requantization.padding & 0xFF
        return ConvInit(
            act_type=layer.act_type, shift_cut=layer.shift_cut, shift_bias=layer.shift_bias,
            kernel_h=window.kernel_h, kernel_w=window.kernel_w,
            stride_h=layout_in.region.stride, stride_w=window.stride_w,
            stride_offset_in=offset_in,
            jump_read=layout_in.groups,
            jump_read_endl=layout_in.row_words if layout_in.region.stride > 1 else 1,
            stride_out=stride_out,
            stride_offset_out=layout_out.place(row).offset if stride_out > 1 else 0,
            jump_write=layer.columns_a_pixel * layout_out.groups,
            jump_write_endl=layout_out.row_words if layout_out.row_words <= jump else 1,
            valid_pixel_parallel=rows, zero_in=zero_in,
        )  # fmt: skip

    def _convolve(self, common: _Rows, rows: range, block: int, group: int, weights: int) -> None:
        """Append one CONV: some rows of one block of output channels.

        Its input begins with channel group ``group``.
        """
        target, read, part = self.recorder.target, common.read, common.part
        layout_in, layout_out, depth = self.rows_in.layout, self.layout_out, target.bank_depth
        channels = (group + part.groups) * target.channel_parallel
        bases = [(base + group) % depth for base in common.bases]
        self.recorder.set_up(common.init)
        own = self.weights.channels
        table, entries = table_of(self.recorder, self.layer)
        self.recorder.add(
            Conv(
                bank_id_in=layout_in.first_bank + common.place_in.bank, bank_addr_in=bases[0],
                bank_addr_in_1=bases[1], bank_addr_in_2=bases[2], bank_addr_in_3=bases[3],
                channel_group=part.groups,
                channel_offset=max(0, channels - self.rows_in.operand.feature.channels),
                pad_left=read.pad_left, pad_right=read.pad_right,
                pad_top=read.pad_top, pad_bottom=read.pad_bottom,
                length=common.columns, bank_id_out=layout_out.first_bank + common.place_out.bank,
                bank_addr_out=(common.word + block) % depth, bank_addr_weights=weights,
                bank_addr_bias=own.word(block), table=table,
                scaled=int(self.layer.requantization is not None),
                channel_shift=int(self.layer.shifts is not None),
            ),
            (
                *entries,
                *layout_in.accesses_of_groups(
                    common.rows_in.start, len(common.rows_in), group, part.groups, write=False
                ),
                BankAccess(
                    False, target.convw_base, target.output_channel_parallel, weights, part.taps
                ),
                *own.accesses(block, 1),
                *layout_out.accesses_of_groups(rows.start, len(rows), block, 1, write=True),
            ),
            common.cycles,
        )  # fmt: skip
