# SPDX-License-Identifier: Apache-2.0
"""LOAD, CONV and SAVE instructions of a dilated convolution whose input rows are gathered."""

import dataclasses
import functools

from opendpu.compiler.banks import BankAccess
from opendpu.compiler.banks.layout import Layout
from opendpu.compiler.banks.reach import can_write
from opendpu.compiler.emitter.channels import ChannelConstants
from opendpu.compiler.emitter.conv_tile import ConvWeights
from opendpu.compiler.emitter.gathered import GatheredRows
from opendpu.compiler.emitter.kind import LayerEmitter
from opendpu.compiler.emitter.layouts import tile_layout, whole_tile
from opendpu.compiler.emitter.recorder import Operand, Recorder
from opendpu.compiler.emitter.records import Records
from opendpu.compiler.emitter.slots import table_of
from opendpu.compiler.emitter.transfer import Tile, save_rows
from opendpu.compiler.layers import DilatedConvLayer
from opendpu.compiler.layers.cost import conv_cycles
from opendpu.compiler.layers.gather import RowBlock, kernel_rows, row_blocks
from opendpu.compiler.layers.gather_columns import ColumnTile, Run, column_tiles
from opendpu.compiler.limits import CONV_REACH
from opendpu.compiler.plan import LayerPlan
from opendpu_arch.isa import Conv, ConvInit


def emit_dilated(recorder: Recorder, plan: LayerPlan, layer: DilatedConvLayer) -> None:
    """Append the commands of a dilated convolution.

    Loops, outermost first: columns, passes of rows, passes of output channel blocks, rows, blocks
    of output channels, runs of columns.
    """
    target, nest = recorder.target, plan.nest
    source = recorder.operand(layer.source, plan.sources[0])
    output = recorder.operand(layer.output, plan.output)
    weights = ConvWeights(recorder, layer)
    rows_in = GatheredRows(recorder, source, plan.alternate)
    tiles = column_tiles(
        layer, source.feature.width, output.feature.width, nest.columns,
        phase_major=nest.phase_major, trimmed=nest.trimmed,
    )  # fmt: skip
    rows = _row_blocks(recorder, layer, source, output)
    turn = nest.row_pass // nest.rows
    groups = layer.groups_read(recorder.plan.network.features, target)
    passes = [rows[n : n + turn] for n in range(0, len(rows), turn)]
    results = 0
    for tile in tiles:
        rows_in.start(tile)
        for taken in passes:
            taps = kernel_rows(taken)
            for block in range(0, weights.blocks, nest.groups):
                many = min(nest.groups, weights.blocks - block)
                if nest.groups < weights.blocks:
                    weights.forget()
                for made in taken:
                    work = _Results(
                        recorder, layer, output, tile, made, block, many, nest.phase_major,
                        results % max(1, plan.output.capacity) * target.pixel_parallel,
                    )  # fmt: skip
                    results += 1
                    at = rows_in.need(made)
                    for n in range(block, block + many):
                        last = n + 1 if nest.trimmed else block + many
                        for run in tile.runs:
                            words = weights.need_part(n, last, taps, run.taps)
                            words += (made.first_tap - taps.start) * len(run.taps) * groups
                            work.convolve(rows_in, at, run, n, words, weights.channels)
                    work.save()


DILATED_CONV = LayerEmitter(alone=emit_dilated)


def _row_blocks(
    recorder: Recorder, layer: DilatedConvLayer, source: Operand, output: Operand
) -> tuple[RowBlock, ...]:
    height, most = source.feature.height, recorder.target.pixel_parallel
    if not output.region.whole:
        return row_blocks(layer, height, output.feature.height, most)
    layout = tile_layout(recorder, output, whole_tile(recorder, output))
    fits = functools.partial(can_write, layout, max_jump=CONV_REACH.row_jump)
    return row_blocks(layer, height, output.feature.height, most, fits)


@dataclasses.dataclass(frozen=True)
class _Results:
    """Some rows, columns and output channel blocks of a result."""

    recorder: Recorder
    layer: DilatedConvLayer
    output: Operand
    tile: ColumnTile
    rows: RowBlock
    block: int
    blocks: int
    phase_major: bool
    row_place: int
    """Row of the circular buffer that the first row takes, if the result is not on chip whole."""

    @property
    def in_order(self) -> bool:
        """Tell whether columns lie as in the feature map, not phase by phase."""
        whole = self.output.region.whole or self.tile.columns == self.output.feature.width
        return whole or not self.phase_major

    @functools.cached_property
    def layout(self) -> Layout:
        """Where the results are."""
        columns = Tile(
            column=self.tile.column, columns=self.tile.columns, group=self.block,
            groups=self.blocks,
        )  # fmt: skip
        operand = self.output
        if not operand.region.whole:
            region = dataclasses.replace(operand.region, first_row=self.rows.row - self.row_place)
            operand = dataclasses.replace(operand, region=region)
        return tile_layout(self.recorder, operand, columns)

    def column_of(self, run: Run) -> int:
        """Return the column of the layout that holds the first result of a run."""
        return run.first if self.in_order else self.tile.column + run.index

    def convolve(
        self, source: GatheredRows, at: tuple[int, int], run: Run, block: int, weights: int,
        own: ChannelConstants | Records,
    ) -> None:  # fmt: skip
        """Append what makes one block of output channels of a run."""
        target, layout = self.recorder.target, self.layout
        jump = (run.step if self.in_order else 1) * layout.groups
        place = layout.place(self.rows.row)
        strided = self.rows.rows > 1 and layout.region.stride > 1
        self.recorder.set_up(
            ConvInit(
                act_type=self.layer.act_type, shift_cut=self.layer.shift_cut,
                shift_bias=self.layer.shift_bias,
                kernel_h=self.rows.taps, kernel_w=len(run.taps),
                stride_h=self.rows.taps, stride_w=self.layer.tap_stride, stride_offset_in=0,
                jump_read=run.jump * source.groups,
                jump_read_endl=source.row_words if self.rows.taps > 1 else 1,
                stride_out=layout.region.stride if strided else 1,
                stride_offset_out=place.offset if strided else 0,
                jump_write=jump if run.count > 1 or jump <= CONV_REACH.row_jump else 1,
                jump_write_endl=layout.row_words if layout.row_words <= CONV_REACH.row_jump else 1,
                valid_pixel_parallel=self.rows.rows,
            )
        )  # fmt: skip
        first_bank, word = at
        groups, group = (1, block) if self.layer.depthwise else (source.groups, 0)
        channels = (group + groups) * target.channel_parallel
        steps = self.rows.taps * len(run.taps) * groups
        first_word = weights % target.bank_depth
        read = (word + run.slot * source.groups + group) % target.bank_depth
        offset = 0 if self.rows.rows > 1 else place.offset
        table, entries = table_of(self.recorder, self.layer)
        self.recorder.add(
            Conv(
                bank_id_in=first_bank, bank_addr_in=read, bank_addr_in_1=read,
                bank_addr_in_2=read, bank_addr_in_3=read, channel_group=groups,
                channel_offset=max(0, channels - source.operand.feature.channels),
                pad_left=run.pad_left, pad_right=run.pad_right,
                pad_top=0, pad_bottom=self.rows.taps - 1,
                length=run.count, bank_id_out=layout.first_bank + place.bank,
                bank_addr_out=layout.word(
                    place.address_group, offset, self.column_of(run), block
                ),
                bank_addr_weights=first_word, bank_addr_bias=own.word(block), table=table,
                channel_shift=int(self.layer.shifts is not None),
                scaled=int(self.layer.requantization is not None),
            ),
            (
                *entries,
                BankAccess(
                    False, first_bank, self.rows.rows, word,
                    self.rows.taps * source.row_words,
                ),
                BankAccess(
                    False, target.convw_base, target.output_channel_parallel, first_word, steps
                ),
                *own.accesses(block, 1),
                *layout.accesses(self.rows.row, self.rows.rows, write=True),
            ),
            conv_cycles(
                run.count, self.layer.cycles_of_taps(steps, target),
                layout.region.stride if strided else 1,
            ),
        )  # fmt: skip

    def save(self) -> None:
        """Append what brings the results to DDR, if the feature map lives there."""
        memory = self.output.memory
        made = range(self.rows.row, self.rows.row + self.rows.rows)
        if memory is None:
            return
        if not self.phase_major or self.tile.columns == self.output.feature.width:
            tile = self._tile(self.tile.column, self.tile.columns)
            save_rows(self.recorder, self.output, self.layout, tile, made)
            return
        for run in self.tile.runs:
            if self.in_order:
                tile = dataclasses.replace(self._tile(run.first, run.count), step=run.step)
                save_rows(self.recorder, self.output, self.layout, tile, made)
                continue
            pixel = run.step * memory.pixel_bytes
            column = self.column_of(run)
            apart = dataclasses.replace(
                memory, pixel_bytes=pixel,
                address=memory.address + run.first * memory.pixel_bytes - column * pixel,
            )  # fmt: skip
            operand = dataclasses.replace(self.output, memory=apart)
            save_rows(self.recorder, operand, self.layout, self._tile(column, run.count), made)

    def _tile(self, column: int, columns: int) -> Tile:
        return Tile(column=column, columns=columns, group=self.block, groups=self.blocks)
