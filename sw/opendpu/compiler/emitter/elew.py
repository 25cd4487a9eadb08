# SPDX-License-Identifier: Apache-2.0
"""Element-wise layers: ELEWINIT and ELEW instructions."""

import dataclasses
from collections.abc import Sequence

from opendpu.compiler.banks import BankAccess
from opendpu.compiler.banks.layout import Layout
from opendpu.compiler.banks.reach import chunks
from opendpu.compiler.emitter.cascade_tile import CascadeTile
from opendpu.compiler.emitter.kind import LayerEmitter
from opendpu.compiler.emitter.layouts import is_run, tile_layout, whole_tile
from opendpu.compiler.emitter.recorder import Operand, Recorder
from opendpu.compiler.emitter.records import Records
from opendpu.compiler.emitter.slots import table_of, term_of
from opendpu.compiler.emitter.transfer import Source, Tile, parts_of, save_rows, tiles_of
from opendpu.compiler.layers import EltwiseLayer
from opendpu.compiler.plan import LayerPlan
from opendpu_arch.isa import Elew, ElewInit


def emit_eltwise(recorder: Recorder, plan: LayerPlan, layer: EltwiseLayer) -> None:
    """Append the commands of an element-wise operation. Loops: channel groups, columns, rows."""
    sources = recorder.operands(plan)
    output = recorder.operand(layer.output, plan.output)
    for tile in tiles_of(whole_tile(recorder, output), plan.nest):
        rows_in = [_source(recorder, layer, s, tile) for s in sources]
        layout_out = tile_layout(recorder, output, tile)
        work = EltwiseTile(recorder, layer, tuple(rows_in), tile, output, layout_out, tile.groups)
        for row, rows in chunks(0, output.feature.height, plan.nest.rows, work.fits):
            work.emit(row, rows)


def _source(recorder: Recorder, layer: EltwiseLayer, operand: Operand, tile: Tile) -> Source:
    """Return an input in a tile; a pixel that stands at every place has one column."""
    if layer.repeats(operand.feature.name):
        tile = dataclasses.replace(tile, column=0, columns=1)
    return Source(recorder, operand, tile_layout(recorder, operand, tile))


@dataclasses.dataclass(frozen=True)
class EltwiseTile:
    """Some columns and channel groups of an element-wise layer, made rows by rows."""

    recorder: Recorder
    layer: EltwiseLayer
    rows_in: tuple[Source, ...]
    tile: Tile
    output: Operand
    layout_out: Layout
    groups: int
    """Channel groups that are made at a time."""

    def fits(self, row: int, rows: int) -> bool:
        """Tell whether one instruction can make these rows."""
        layouts = [s.layout for s in self.rows_in if not self.layer.repeats(s.operand.feature.name)]
        return all(is_run(x, row, rows) for x in (*layouts, self.layout_out))

    def emit(self, row: int, rows: int) -> None:
        """Append what makes ``rows`` rows: loads, the instructions, saves."""
        made = range(row, row + rows)
        for source in self.rows_in:
            source.need(range(1) if self.layer.repeats(source.operand.feature.name) else made)
        layouts = [s.layout for s in self.rows_in]
        for part in parts_of(self.tile, self.groups):
            emit_elew(self.recorder, self.layer, layouts, self.layout_out, part, row, rows)
        save_rows(self.recorder, self.output, self.layout_out, self.tile, made)


@dataclasses.dataclass(frozen=True)
class EltwiseCascade:
    """An element-wise layer in a cascade."""

    recorder: Recorder
    plan: LayerPlan
    layer: EltwiseLayer

    def stripes(self, tile: CascadeTile) -> EltwiseTile:
        """Return the layer in one tile of columns."""
        output, layout = tile.output(self.plan)
        part = tile.part(self.layer.output, 0, whole_tile(self.recorder, output).groups)
        sources = tile.sources(self.plan)
        groups = self.plan.nest.groups
        return EltwiseTile(self.recorder, self.layer, sources, part, output, layout, groups)


ELTWISE = LayerEmitter(alone=emit_eltwise, in_cascade=EltwiseCascade)


def emit_elew(
    recorder: Recorder,
    layer: EltwiseLayer,
    layouts: Sequence[Layout],
    layout_out: Layout,
    tile: Tile,
    row: int,
    rows: int,
) -> None:
    """Append the ELEWINITs and the ELEW of ``rows`` rows of a tile."""
    table, entries = table_of(recorder, layer)
    reads: list[BankAccess] = list(entries)
    slots, record = [0] * len(layouts), 0
    if layer.requantization is not None:
        channels = recorder.plan.network.features[layer.output].channels
        records = Records(recorder, layer.name, channels)
        record = records.word(tile.group, tile.groups)
        reads += records.accesses(tile.group, tile.groups)
        for number in range(len(layouts)):
            slots[number], terms = term_of(recorder, layer.name, number)
            reads.append(terms)
    for number, layout in enumerate(layouts):
        repeated = layer.repeats(layer.sources[number])
        first, count, column = (0, 1, 0) if repeated else (row, rows, tile.column)
        place = layout.place(first)
        recorder.add(
            ElewInit(
                id=number, bank_id_in=layout.first_bank + place.bank,
                bank_addr_in=layout.word(place.address_group, place.offset, column, tile.group),
                share_pp=int(repeated), jump_read=0 if repeated else layout.groups,
                jump_read_endl=layout.row_words, shift_read=layer.shift_read[number],
                term=slots[number], bank_addr_scale=record if number == 0 else 0,
            ),
            (), 1,
        )  # fmt: skip
        reads += layout.accesses_of_groups(first, count, tile.group, tile.groups, write=False)
    place = layout_out.place(row)
    recorder.add(
        Elew(
            elew_type=layer.kind, act_type=int(layer.relu), num=len(layouts), length=tile.columns,
            valid_pixel_parallel=rows, channel_group=tile.groups, shift_write=layer.shift_write,
            bank_id_out=layout_out.first_bank + place.bank,
            bank_addr_out=layout_out.word(
                place.address_group, place.offset, tile.column, tile.group
            ),
            jump_write=layout_out.groups, jump_write_endl=layout_out.row_words, table=table,
            scaled=int(layer.requantization is not None),
        ),
        (
            *reads,
            *layout_out.accesses_of_groups(row, rows, tile.group, tile.groups, write=True),
        ),
        layer.instruction_cycles(tile.columns, tile.groups),
    )  # fmt: skip
