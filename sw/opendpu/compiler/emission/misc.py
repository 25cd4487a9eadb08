# SPDX-License-Identifier: Apache-2.0
"""ALU and ELEW instructions of one layer of the misc engine."""

import dataclasses

from opendpu.compiler.cost import alu_cycles, misc_cycles
from opendpu.compiler.emission.geometry import (
    can_read,
    can_write,
    chunks,
    columns_needed,
    footprint,
    rows_needed,
)
from opendpu.compiler.emission.recorder import Operand, Recorder
from opendpu.compiler.emission.transfer import (
    Source,
    Tile,
    load_alu_weights,
    load_bias,
    save_rows,
)
from opendpu.compiler.layout import Layout
from opendpu.compiler.plan import AluLayer, BankAccess, EltwiseLayer, LayerPlan
from opendpu_arch.isa import Alu, AluInit, Elew, ElewInit
from opendpu_arch.legal import POINTWISE_MODES

MAX_JUMP = 8192
"""Words of ``jump_read_endl`` and ``jump_write_endl``."""


def emit_alu(recorder: Recorder, plan: LayerPlan, layer: AluLayer) -> None:
    """Append the steps of a depthwise convolution or pooling.

    Loops, outermost first: channel groups, columns, rows.
    """
    nest, window = plan.nest, layer.window
    (source,) = recorder.operands(plan, (layer.source,))
    output = recorder.operand(layer.output, plan.output)
    out = output.feature
    bias = alu_bias(recorder, layer)
    all_groups = -(-out.channels // recorder.target.channel_parallel)
    for group in range(0, all_groups, nest.groups):
        groups = min(nest.groups, all_groups - group)
        weights = alu_weights(recorder, layer, group, groups)
        for column in range(0, out.width, nest.columns):
            columns = min(nest.columns, out.width - column)
            first, many = columns_needed(window, source.feature, column, columns)
            layout_in = tile_layout(recorder, source, first, many, group, groups)
            tile = Tile(column=column, columns=columns, group=group, groups=groups)
            layout_out = tile_layout(recorder, output, column, columns, group, groups)
            rows_in = Source(recorder, source, layout_in)
            work = AluTile(recorder, layer, rows_in, tile, output, layout_out, weights, bias)

            def fits(row: int, rows: int, a: Layout = layout_in, b: Layout = layout_out) -> bool:
                return can_read(a, source.feature, window, row, rows) and can_write(
                    b, row, rows, max_jump=MAX_JUMP
                )

            for row, rows in chunks(0, out.height, nest.rows, fits):
                work.emit(row, rows)


def alu_bias(recorder: Recorder, layer: AluLayer) -> int:
    """Load the biases of a layer, if it has some; return their word."""
    if layer.bias is None:
        return 0
    address = recorder.plan.constants[f"{layer.name}/bias"]
    return load_bias(recorder, address, recorder.plan.network.features[layer.output].channels)


def alu_weights(recorder: Recorder, layer: AluLayer, group: int, groups: int) -> int:
    """Load the weights of some channel groups, if the layer has some; return their word."""
    if layer.weights is None:
        return 0
    taps = layer.window.kernel_h * layer.window.kernel_w
    address = recorder.plan.constants[f"{layer.name}/weights"]
    channels = recorder.plan.network.features[layer.output].channels
    return load_alu_weights(recorder, address, taps, channels, group, groups)


@dataclasses.dataclass(frozen=True)
class AluTile:
    """Some columns and channel groups of a layer of the misc engine, made rows by rows."""

    recorder: Recorder
    layer: AluLayer
    rows_in: Source
    tile: Tile
    output: Operand
    layout_out: Layout
    weights: int
    bias: int

    def emit(self, row: int, rows: int) -> None:
        """Append what makes ``rows`` rows: loads, the instruction, saves."""
        tile = self.tile
        self.rows_in.need(rows_needed(self.layer.window, row, rows))
        bias = (self.bias + tile.group) % self.recorder.target.bank_depth
        _one_alu(
            self.recorder, self.layer, self.rows_in.operand, self.rows_in.layout, self.layout_out,
            row, rows, tile.column, tile.columns, tile.group, tile.groups, self.weights, bias,
        )  # fmt: skip
        made = range(row, row + rows)
        save_rows(self.recorder, self.output, self.layout_out, tile, made)


def tile_layout(
    recorder: Recorder, operand: Operand, column: int, columns: int, group: int, groups: int
) -> Layout:
    """Return where a tile is: inside the whole feature map, or alone."""
    if operand.region.whole:
        column, columns, group = 0, operand.feature.width, 0
        groups = -(-operand.feature.channels // recorder.target.channel_parallel)
    return Layout(
        target=recorder.target, region=operand.region, columns=columns, groups=groups,
        first_column=column, first_group=group,
    )  # fmt: skip


def _one_alu(
    recorder: Recorder,
    layer: AluLayer,
    source: Operand,
    layout_in: Layout,
    layout_out: Layout,
    row: int,
    rows: int,
    column: int,
    columns: int,
    group: int,
    groups: int,
    weights: int,
    bias: int,
) -> None:
    """Append one ALU: ``rows`` rows of ``groups`` channel groups."""
    target, window = recorder.target, layer.window
    read = footprint(window, source.feature, row, rows, column, columns)
    place_in, place_out = layout_in.place(read.row), layout_out.place(row)
    bases = layout_in.bases(read.row, read.column, group)
    stride, offset = layout_in.region.stride, place_in.offset
    if layer.mode in POINTWISE_MODES and stride > 1:  # a row alone, wherever it is
        at = layout_in.word(place_in.address_group, offset, read.column, group)
        bases = (at, at, at, at)
        stride, offset = 1, 0
    word = layout_out.word(
        place_out.address_group, 0 if rows > 1 else place_out.offset, column, group
    )
    strided_out = rows > 1 and layout_out.region.stride > 1
    lanes = (group + groups) * target.channel_parallel
    taps = window.kernel_h * window.kernel_w
    recorder.set_up(
        AluInit(
            exec_mode=layer.mode, kernel_h=window.kernel_h, kernel_w=window.kernel_w,
            stride_h=stride, stride_w=window.stride_w, stride_offset_in=offset,
            stride_out=layout_out.region.stride if strided_out else 1,
            stride_offset_out=place_out.offset if strided_out else 0,
            channel_group=groups, channel_offset=max(0, lanes - source.feature.channels),
            length=columns, act_type=layer.act_type, shift_bias=layer.shift_bias,
            shift_cut=layer.shift_cut, multi_factor=layer.multi_factor & 0xFF,
            shift_prelu_p=layer.shift_prelu_p, shift_prelu_n=layer.shift_prelu_n,
            jump_read=layout_in.groups, jump_read_endl=layout_in.row_words,
            jump_read_weights=groups if layer.weights is not None else 0,
            jump_write=layout_out.groups, jump_write_endl=layout_out.row_words,
        )
    )  # fmt: skip
    first, last = max(0, read.row), min(source.feature.height, read.row + read.rows) - 1
    constants = []
    if layer.weights is not None:
        constants.append(BankAccess(False, target.dwconvw_bank, 1, weights, taps * groups))
    if layer.bias is not None:
        constants.append(BankAccess(False, target.bias_bank, 1, bias, groups))
    recorder.add(
        Alu(
            bank_id_in=layout_in.first_bank + place_in.bank, bank_addr_in=bases[0],
            bank_addr_in_1=bases[1], bank_addr_in_2=bases[2], bank_addr_in_3=bases[3],
            pad_left=read.pad_left, pad_right=read.pad_right,
            pad_top=read.pad_top, pad_bottom=read.pad_bottom, valid_pixel_parallel=rows,
            bank_id_out=layout_out.first_bank + place_out.bank, bank_addr_out=word,
            bank_addr_weights=weights, bank_addr_bias=bias if layer.bias is not None else 0,
        ),
        (
            *layout_in.accesses(first, last - first + 1, write=False),
            *constants,
            *layout_out.accesses(row, rows, write=True),
        ),
        alu_cycles(columns, groups, window, layout_out.region.stride if strided_out else 1),
    )  # fmt: skip


def emit_eltwise(recorder: Recorder, plan: LayerPlan, layer: EltwiseLayer) -> None:
    """Append the steps of an element-wise operation. Loops: channel groups, columns, rows."""
    nest = plan.nest
    sources = recorder.operands(plan, layer.sources)
    output = recorder.operand(layer.output, plan.output)
    out = output.feature
    all_groups = -(-out.channels // recorder.target.channel_parallel)
    for group in range(0, all_groups, nest.groups):
        groups = min(nest.groups, all_groups - group)
        for column in range(0, out.width, nest.columns):
            columns = min(nest.columns, out.width - column)
            layouts = [tile_layout(recorder, s, column, columns, group, groups) for s in sources]
            tile = Tile(column=column, columns=columns, group=group, groups=groups)
            layout_out = tile_layout(recorder, output, column, columns, group, groups)
            rows_in = [Source(recorder, s, x) for s, x in zip(sources, layouts, strict=True)]
            work = EltwiseTile(recorder, layer, tuple(rows_in), tile, output, layout_out)
            for row, rows in chunks(0, out.height, nest.rows, work.fits):
                work.emit(row, rows)


@dataclasses.dataclass(frozen=True)
class EltwiseTile:
    """Some columns and channel groups of an element-wise layer, made rows by rows."""

    recorder: Recorder
    layer: EltwiseLayer
    rows_in: tuple[Source, ...]
    tile: Tile
    output: Operand
    layout_out: Layout

    def fits(self, row: int, rows: int) -> bool:
        """Tell whether one instruction can make these rows."""
        layouts = (*(s.layout for s in self.rows_in), self.layout_out)
        return all(is_run(x, row, rows) for x in layouts)

    def emit(self, row: int, rows: int) -> None:
        """Append what makes ``rows`` rows: loads, the instruction, saves."""
        tile, made = self.tile, range(row, row + rows)
        for source in self.rows_in:
            source.need(made)
        one_elew(
            self.recorder, self.layer, [s.layout for s in self.rows_in], self.layout_out, row, rows,
            tile.column, tile.columns, tile.group, tile.groups,
        )  # fmt: skip
        save_rows(self.recorder, self.output, self.layout_out, tile, made)


def is_run(layout: Layout, row: int, rows: int) -> bool:
    """Tell whether rows are in successive banks with at most one constant step at a wrap."""
    if rows == 1:
        return True
    first = layout.place(row).address_group
    last = layout.place(row + rows - 1).address_group
    inside = first % layout.region.ring + last - first < layout.region.ring
    return layout.region.stride == 1 and inside


def one_elew(
    recorder: Recorder,
    layer: EltwiseLayer,
    layouts: list[Layout],
    layout_out: Layout,
    row: int,
    rows: int,
    column: int,
    columns: int,
    group: int,
    groups: int,
) -> None:
    """Append the ELEWINITs and the ELEW of ``rows`` rows."""
    reads: list[BankAccess] = []
    for number, layout in enumerate(layouts):
        place = layout.place(row)
        recorder.add(
            ElewInit(
                id=number, bank_id_in=layout.first_bank + place.bank,
                bank_addr_in=layout.word(place.address_group, place.offset, column, group),
                jump_read=layout.groups, jump_read_endl=layout.row_words,
                shift_read=layer.shift_read[number],
            ),
            (), 1,
        )  # fmt: skip
        reads += layout.accesses(row, rows, write=False)
    place = layout_out.place(row)
    recorder.add(
        Elew(
            elew_type=layer.kind, act_type=int(layer.relu), num=len(layouts), length=columns,
            valid_pixel_parallel=rows, channel_group=groups, shift_write=layer.shift_write,
            bank_id_out=layout_out.first_bank + place.bank,
            bank_addr_out=layout_out.word(place.address_group, place.offset, column, group),
            jump_write=layout_out.groups, jump_write_endl=layout_out.row_words,
        ),
        (*reads, *layout_out.accesses(row, rows, write=True)),
        misc_cycles(columns, groups, len(layouts)),
    )  # fmt: skip
