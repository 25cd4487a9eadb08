# SPDX-License-Identifier: Apache-2.0
"""CONV instructions of one convolution layer."""

import dataclasses
import functools

from opendpu.compiler.cost import conv_cycles
from opendpu.compiler.emission.epilogue import EpilogueRows, epilogue_of
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
    blocks_a_load,
    load_bias,
    load_conv_weights,
    save_rows,
)
from opendpu.compiler.layout import Layout
from opendpu.compiler.plan import BankAccess, ConvLayer, LayerPlan, Window, sources_of
from opendpu_arch.isa import Conv, ConvInit

MAX_JUMP = 1024
"""Words of ``jump_read_endl`` and ``jump_write_endl``."""


def emit_conv(recorder: Recorder, plan: LayerPlan, layer: ConvLayer) -> None:
    """Append the steps of a convolution.

    Loops, outermost first: columns, passes of rows, passes of output channel blocks, rows, blocks.
    """
    target, nest, window = recorder.target, plan.nest, layer.window
    source, *_ = recorder.operands(plan, sources_of(layer))
    result = result_of(recorder, plan, layer)
    weights = ConvWeights(recorder, layer)
    weights_stay = nest.groups >= weights.blocks
    out = recorder.plan.network.features[layer.output]
    turn = 0
    for column in range(0, out.width, nest.columns):
        columns = min(nest.columns, out.width - column)
        layout_in = source_layout(recorder, source, plan, column, columns)
        rows_in = Source(recorder, source, layout_in)
        for first_row in range(0, out.height, nest.row_pass):
            last_row = min(out.height, first_row + nest.row_pass)
            keep = can_stay(layout_in, source, plan, first_row, last_row)
            for block in range(0, weights.blocks, nest.groups):
                many = min(nest.groups, weights.blocks - block)
                if not weights_stay:
                    weights.forget()
                if not keep and block:
                    rows_in.forget()
                tile = Tile(column=column, columns=columns, group=block, groups=many)
                layout_out = output_layout(recorder, result, tile, turn)
                epilogue = epilogue_of(recorder, plan, layer, tile, layout_out)
                work = ConvTile(
                    recorder, layer, rows_in, weights, tile, result, layout_out, epilogue
                )
                turn += -(-(last_row - first_row) // target.pixel_parallel)

                fits = functools.partial(_fits, window, source, layout_in, layout_out)
                for row, rows in chunks(first_row, last_row, nest.rows, fits):
                    work.emit(row, rows)


class ConvWeights:
    """Weights and bias of a layer in their banks; blocks are loaded when first needed."""

    def __init__(self, recorder: Recorder, layer: ConvLayer) -> None:
        outputs, kernel_h, kernel_w, inputs = layer.weights.shape
        self.recorder = recorder
        self.shape = (outputs, kernel_h, kernel_w, inputs)
        self.blocks = -(-outputs // recorder.target.output_channel_parallel)
        self._at = recorder.plan.constants[f"{layer.name}/weights"]
        self._bias = load_bias(recorder, recorder.plan.constants[f"{layer.name}/bias"], outputs)
        self._words: dict[int, int] = {}

    def forget(self) -> None:
        """Expect no weights on chip, because others will take their place."""
        self._words = {}

    def need(self, block: int, last: int) -> int:
        """Return the word of a block's weights; blocks up to ``last`` may come with it."""
        if block not in self._words:
            count = blocks_a_load(self.recorder, self.shape, last - block)
            words = load_conv_weights(self.recorder, self._at, self.shape, block, count)
            self._words.update(zip(range(block, block + count), words, strict=True))
        return self._words[block]

    def bias(self, block: int) -> int:
        """Return the word of a block's biases."""
        return (self._bias + block) % self.recorder.target.bank_depth


@dataclasses.dataclass(frozen=True)
class ConvTile:
    """Some columns and output channel blocks of a convolution, made rows by rows."""

    recorder: Recorder
    layer: ConvLayer
    rows_in: Source
    weights: ConvWeights
    tile: Tile
    result: Operand
    layout_out: Layout
    epilogue: EpilogueRows | None

    def emit(self, row: int, rows: int) -> None:
        """Append what makes ``rows`` rows: loads, convolutions, the epilogue, saves."""
        tile = self.tile
        self.rows_in.need(rows_needed(self.layer.window, row, rows))
        last = tile.group + tile.groups
        for block in range(tile.group, last):
            weights = self.weights.need(block, last)
            _one(
                self.recorder, self.layer, self.rows_in.operand, self.rows_in.layout,
                self.layout_out, row, rows, tile.column, tile.columns, block, weights,
                self.weights.bias(block),
            )  # fmt: skip
        if self.epilogue is None:
            made = range(row, row + rows)
            save_rows(self.recorder, self.result, self.layout_out, tile, made)
        else:
            self.epilogue.emit(row, rows)


def result_of(recorder: Recorder, plan: LayerPlan, layer: ConvLayer) -> Operand:
    """Return where the convolution writes: its output, or the tile for its epilogue."""
    if layer.epilogue is None:
        return recorder.operand(layer.output, plan.output)
    assert plan.tile is not None
    return recorder.operand(layer.epilogue.tile, plan.tile)


def _fits(
    window: Window, source: Operand, layout_in: Layout, layout_out: Layout, row: int, rows: int
) -> bool:
    """Tell whether one CONV can make these rows."""
    return can_read(layout_in, source.feature, window, row, rows) and can_write(
        layout_out, row, rows, max_jump=MAX_JUMP
    )


def source_layout(
    recorder: Recorder, source: Operand, plan: LayerPlan, column: int, columns: int
) -> Layout:
    """Return where the input columns of a tile are: all channels, the columns that are needed."""
    assert isinstance(plan.layer, ConvLayer)
    feature = source.feature
    groups = -(-feature.channels // recorder.target.channel_parallel)
    first, many = 0, feature.width
    if not source.region.whole:
        first, many = columns_needed(plan.layer.window, feature, column, columns)
    return Layout(
        target=recorder.target, region=source.region, columns=many, groups=groups,
        first_column=first,
    )  # fmt: skip


def output_layout(recorder: Recorder, output: Operand, tile: Tile, turn: int = 0) -> Layout:
    """Return where the results of a tile are: in the whole feature map, or alone.

    ``turn`` counts the address groups that tiles before this one have gone through, so that each
    tile takes up the ring where the last one left it.
    """
    feature, region = output.feature, output.region
    if not region.whole:
        region = dataclasses.replace(
            region, first_row=-(turn % region.ring) * recorder.target.pixel_parallel
        )
    else:
        groups = -(-feature.channels // recorder.target.channel_parallel)
        tile = Tile(column=0, columns=feature.width, group=0, groups=groups)
    return Layout(
        target=recorder.target, region=region, columns=tile.columns, groups=tile.groups,
        first_column=tile.column, first_group=tile.group,
    )  # fmt: skip


def can_stay(
    layout: Layout, source: Operand, plan: LayerPlan, first_row: int, last_row: int
) -> bool:
    """Tell whether the input rows of a pass of output rows are on chip all at once."""
    assert isinstance(plan.layer, ConvLayer)
    window = plan.layer.window
    top = max(0, first_row * window.stride_h - window.pad_top)
    below = (last_row - 1) * window.stride_h - window.pad_top + window.kernel_h
    rows = max(1, min(source.feature.height, below) - top)
    return layout.groups_touched(top, rows) <= layout.region.ring


def _one(
    recorder: Recorder,
    layer: ConvLayer,
    source: Operand,
    layout_in: Layout,
    layout_out: Layout,
    row: int,
    rows: int,
    column: int,
    columns: int,
    block: int,
    weights: int,
    bias: int,
) -> None:
    """Append one CONV: ``rows`` rows of one block of output channels."""
    target, window = recorder.target, layer.window
    read = footprint(window, source.feature, row, rows, column, columns)
    place_in, place_out = layout_in.place(read.row), layout_out.place(row)
    bases = layout_in.bases(read.row, read.column)
    word = layout_out.word(
        place_out.address_group, 0 if rows > 1 else place_out.offset, column, block
    )
    strided_out = rows > 1 and layout_out.region.stride > 1
    recorder.set_up(
        ConvInit(
            act_type=layer.act_type, shift_cut=layer.shift_cut, shift_bias=layer.shift_bias,
            kernel_h=window.kernel_h, kernel_w=window.kernel_w,
            stride_h=layout_in.region.stride, stride_w=window.stride_w,
            stride_offset_in=place_in.offset,
            jump_read=layout_in.groups,
            jump_read_endl=layout_in.row_words if layout_in.region.stride > 1 else 1,
            stride_out=layout_out.region.stride if strided_out else 1,
            stride_offset_out=place_out.offset if strided_out else 0,
            jump_write=layout_out.groups,
            jump_write_endl=layout_out.row_words if layout_out.row_words <= MAX_JUMP else 1,
            valid_pixel_parallel=rows,
        )
    )  # fmt: skip
    first, last = max(0, read.row), min(source.feature.height, read.row + read.rows) - 1
    taps = window.kernel_h * window.kernel_w * layout_in.groups
    recorder.add(
        Conv(
            bank_id_in=layout_in.first_bank + place_in.bank, bank_addr_in=bases[0],
            bank_addr_in_1=bases[1], bank_addr_in_2=bases[2], bank_addr_in_3=bases[3],
            channel_group=layout_in.groups,
            channel_offset=layout_in.groups * target.channel_parallel - source.feature.channels,
            pad_left=read.pad_left, pad_right=read.pad_right,
            pad_top=read.pad_top, pad_bottom=read.pad_bottom,
            length=columns, bank_id_out=layout_out.first_bank + place_out.bank,
            bank_addr_out=word, bank_addr_weights=weights, bank_addr_bias=bias,
        ),
        (
            *layout_in.accesses(first, last - first + 1, write=False),
            BankAccess(False, target.convw_base, target.output_channel_parallel, weights, taps),
            BankAccess(False, target.bias_bank, 1, bias, 1),
            *layout_out.accesses(row, rows, write=True),
        ),
        conv_cycles(columns, taps, layout_out.region.stride if strided_out else 1),
    )  # fmt: skip
