# SPDX-License-Identifier: Apache-2.0
"""The loops of convolution layers, alone and in a cascade."""

import functools

from opendpu.compiler.banks.layout import Layout
from opendpu.compiler.banks.reach import can_read, can_write, chunks, columns_read
from opendpu.compiler.emitter.cascade_tile import CascadeTile
from opendpu.compiler.emitter.conv_tile import ConvTile, ConvWeights
from opendpu.compiler.emitter.epilogue import EpilogueRows, epilogue_of
from opendpu.compiler.emitter.kind import LayerEmitter
from opendpu.compiler.emitter.layouts import rotated, tile_layout
from opendpu.compiler.emitter.recorder import Operand, Recorder
from opendpu.compiler.emitter.transfer import Source, Tile
from opendpu.compiler.layers import ArrayLayer, ConvLayer, ProductLayer, Window, channel_groups
from opendpu.compiler.plan import LayerPlan


def emit_conv(recorder: Recorder, plan: LayerPlan, layer: ConvLayer | ProductLayer) -> None:
    """Append the commands of a convolution, or of a product.

    Loops, outermost first: columns, passes of rows, passes of output channel blocks, rows, blocks.
    """
    nest, window = plan.nest, layer.window
    source, *_ = recorder.operands(plan)
    result = _result(recorder, plan, layer)
    weights = ConvWeights(recorder, layer)
    weights_stay = nest.groups >= weights.blocks
    out = recorder.plan.network.features[layer.output]
    used = 0
    for column in range(0, out.width, nest.columns):
        columns = min(nest.columns, out.width - column)
        layout_in = _source_layout(recorder, source, layer, column, columns)
        rows_in = Source(recorder, source, layout_in)
        for first_row in range(0, out.height, nest.row_pass):
            last_row = min(out.height, first_row + nest.row_pass)
            keep = _can_stay(layout_in, source, window, first_row, last_row)
            for block in range(0, weights.blocks, nest.groups):
                many = min(nest.groups, weights.blocks - block)
                if not weights_stay:
                    weights.forget()
                if not keep and block:
                    rows_in.forget()
                tile = Tile(column=column, columns=columns, group=block, groups=many)
                layout_out = tile_layout(recorder, rotated(recorder, result, used), tile)
                epilogue = epilogue_of(recorder, plan, layer, tile, layout_out)
                work = ConvTile(
                    recorder, layer, rows_in, weights, tile, result, layout_out, epilogue
                )
                used += -(-(last_row - first_row) // recorder.target.pixel_parallel)

                fits = functools.partial(_fits, layer, source, layout_in, layout_out)
                for row, rows in chunks(first_row, last_row, nest.rows, fits):
                    work.emit(row, rows)


class ConvCascade:
    """A convolution in a cascade."""

    def __init__(self, recorder: Recorder, plan: LayerPlan, layer: ConvLayer) -> None:
        self.recorder, self.plan, self.layer = recorder, plan, layer

    @functools.cached_property
    def weights(self) -> ConvWeights:
        """The weights, on chip all at once; their loads begin at the first stripe."""
        return ConvWeights(self.recorder, self.layer)

    def stripes(self, tile: CascadeTile) -> "ConvTile | _StripesWithEpilogue":
        """Return the layer in one tile of columns."""
        if self.layer.epilogue is not None:
            return _StripesWithEpilogue(self, tile)
        output, layout = tile.output(self.plan)
        (source,) = tile.sources(self.plan)
        part = tile.part(self.layer.output, 0, channel_groups(output.feature, tile.recorder.target))
        return ConvTile(self.recorder, self.layer, source, self.weights, part, output, layout, None)


CONV = LayerEmitter(alone=emit_conv, in_cascade=ConvCascade)
PRODUCT = LayerEmitter(alone=emit_conv)


class _StripesWithEpilogue:
    """One tile of columns of a convolution whose results wait for their epilogue."""

    def __init__(self, cascade: ConvCascade, tile: CascadeTile) -> None:
        self.cascade, self.tile = cascade, tile
        self.used = 0
        """Address groups that stripes before have gone through."""
        self._passes: dict[tuple[int, int], ConvTile] = {}

    def emit(self, row: int, rows: int) -> None:
        """Append what makes ``rows`` rows, some blocks of output channels after the other."""
        blocks, groups = self.cascade.weights.blocks, self.cascade.plan.nest.groups
        for block in range(0, blocks, groups):
            self._pass(row, block, min(groups, blocks - block)).emit(row, rows)

    def _pass(self, row: int, block: int, many: int) -> ConvTile:
        """Return some blocks of the convolution, whose results go through the next place."""
        cascade, tile, plan = self.cascade, self.tile, self.cascade.plan
        layer, recorder = cascade.layer, cascade.recorder
        assert layer.epilogue is not None and plan.tile is not None
        before = row // recorder.target.pixel_parallel
        place = (self.used - before) % plan.tile.capacity
        self.used += 1
        if (block, place) not in self._passes:
            part = tile.part(layer.output, block, many)
            result = _result(recorder, plan, layer)
            results = tile_layout(recorder, rotated(recorder, result, place), part)
            others = {
                name: tile.source(name, region)
                for name, region in zip(layer.epilogue.others, plan.sources[1:], strict=True)
            }
            epilogue = EpilogueRows(
                recorder, layer.epilogue, part, results, others, *tile.output(plan)
            )
            source = tile.source(layer.source, plan.sources[0])
            self._passes[block, place] = ConvTile(
                recorder, layer, source, cascade.weights, part, result, results, epilogue
            )
        return self._passes[block, place]


def _result(recorder: Recorder, plan: LayerPlan, layer: ConvLayer | ProductLayer) -> Operand:
    """Return where the convolution writes: its output, or the tile for its epilogue."""
    if layer.epilogue is None:
        return recorder.operand(layer.output, plan.output)
    assert plan.tile is not None
    return recorder.operand(layer.epilogue.tile, plan.tile)


def _fits(
    layer: ArrayLayer, source: Operand, layout_in: Layout, layout_out: Layout, row: int, rows: int
) -> bool:
    """Tell whether one CONV can make these rows."""
    return can_read(layout_in, source.feature, layer.window, row, rows) and can_write(
        layout_out, row, rows, max_jump=layer.REACH.row_jump
    )


def _source_layout(
    recorder: Recorder, source: Operand, layer: ArrayLayer, column: int, columns: int
) -> Layout:
    """Return where the input columns of a tile are: all channels, the columns that are needed."""
    feature = source.feature
    first, many = columns_read(layer, layer.window, feature, column, columns)
    groups = channel_groups(feature, recorder.target)
    return tile_layout(recorder, source, Tile(column=first, columns=many, group=0, groups=groups))


def _can_stay(
    layout: Layout, source: Operand, window: Window, first_row: int, last_row: int
) -> bool:
    """Tell whether the input rows of a pass of output rows are on chip all at once."""
    top = max(0, first_row * window.stride_h - window.pad_top)
    below = (last_row - 1) * window.stride_h - window.pad_top + window.kernel_h
    rows = max(1, min(source.feature.height, below) - top)
    return layout.groups_touched(top, rows) <= layout.region.capacity
