# SPDX-License-Identifier: Apache-2.0
"""ELEW instructions on the results of a convolution that are still on chip."""

import dataclasses
from collections.abc import Mapping

from opendpu.compiler.emission.geometry import chunks
from opendpu.compiler.emission.misc import is_run, one_elew, tile_layout
from opendpu.compiler.emission.recorder import Operand, Recorder
from opendpu.compiler.emission.transfer import Source, Tile, save_rows
from opendpu.compiler.layout import Layout
from opendpu.compiler.plan import ConvLayer, Epilogue, LayerPlan


def epilogue_of(
    recorder: Recorder, plan: LayerPlan, layer: ConvLayer, tile: Tile, results: Layout
) -> "EpilogueRows | None":
    """Return what combines the ``results`` of one tile of a convolution, if anything does."""
    if layer.epilogue is None:
        return None
    where = (tile.column, tile.columns, tile.group, tile.groups)
    others = {}
    for name, region in zip(layer.epilogue.others, plan.sources[1:], strict=True):
        operand = recorder.operand(name, region)
        layout = _like(results, tile_layout(recorder, operand, *where))
        others[name] = Source(recorder, operand, layout)
    output = recorder.operand(layer.output, plan.output)
    layout_out = tile_layout(recorder, output, *where) if plan.output.whole else results
    return EpilogueRows(recorder, layer.epilogue, tile, results, others, output, layout_out)


def _like(results: Layout, layout: Layout) -> Layout:
    """Return ``layout``, if it is no whole feature map, at the same turn of its ring."""
    if layout.region.whole:
        return layout
    region = dataclasses.replace(layout.region, first_row=results.region.first_row)
    return dataclasses.replace(layout, region=region)


@dataclasses.dataclass(frozen=True)
class EpilogueRows:
    """One tile of an element-wise operation behind a convolution."""

    recorder: Recorder
    epilogue: Epilogue
    tile: Tile
    results: Layout
    others: Mapping[str, Source]
    """Operands other than the results of the convolution."""
    output: Operand
    layout_out: Layout

    @property
    def layouts(self) -> list[Layout]:
        """Where the operands are, in order."""
        return [
            self.results if name == self.epilogue.tile else self.others[name].layout
            for name in self.epilogue.layer.sources
        ]

    def emit(self, row: int, rows: int) -> None:
        """Append the steps for rows that the convolution has just made."""
        tile, recorder = self.tile, self.recorder
        for source in self.others.values():
            source.need(range(row, row + rows))
        most = recorder.target.alu_pixel_parallel
        for first, many in chunks(row, row + rows, most, self._fits):
            one_elew(
                recorder, self.epilogue.layer, self.layouts, self.layout_out, first, many,
                tile.column, tile.columns, tile.group, tile.groups,
            )  # fmt: skip
        save_rows(recorder, self.output, self.layout_out, tile, range(row, row + rows))

    def _fits(self, row: int, rows: int) -> bool:
        return all(is_run(x, row, rows) for x in (*self.layouts, self.layout_out))
