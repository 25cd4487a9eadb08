# SPDX-License-Identifier: Apache-2.0
"""ELEW instructions on the results of a convolution that are still on chip."""

import dataclasses
from collections.abc import Mapping

from opendpu.compiler.banks.layout import Layout
from opendpu.compiler.banks.reach import chunks
from opendpu.compiler.emitter.elew import emit_elew
from opendpu.compiler.emitter.layouts import is_run, tile_layout
from opendpu.compiler.emitter.recorder import Operand, Recorder
from opendpu.compiler.emitter.transfer import Source, Tile, save_rows
from opendpu.compiler.layers import ConvLayer, Epilogue, ProductLayer
from opendpu.compiler.plan import LayerPlan


def epilogue_of(
    recorder: Recorder, plan: LayerPlan, layer: ConvLayer | ProductLayer, tile: Tile,
    results: Layout,
) -> "EpilogueRows | None":  # fmt: skip
    """Return what combines the ``results`` of one tile of a convolution, if anything does."""
    if layer.epilogue is None:
        return None
    others = {}
    for name, region in zip(layer.epilogue.others, plan.sources[1:], strict=True):
        operand = recorder.operand(name, region)
        layout = _like(results, tile_layout(recorder, operand, tile))
        others[name] = Source(recorder, operand, layout)
    output = recorder.operand(layer.output, plan.output)
    layout_out = tile_layout(recorder, output, tile) if plan.output.whole else results
    return EpilogueRows(recorder, layer.epilogue, tile, results, others, output, layout_out)


def _like(results: Layout, layout: Layout) -> Layout:
    """Return ``layout``, if it is no whole feature map, at the same place of its buffer."""
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
        """Append the commands for rows that the convolution has just made."""
        recorder = self.recorder
        for source in self.others.values():
            source.need(range(row, row + rows))
        most = recorder.target.alu_pixel_parallel
        for first, many in chunks(row, row + rows, most, self._fits):
            emit_elew(
                recorder, self.epilogue.layer, self.layouts, self.layout_out, self.tile,
                first, many,
            )  # fmt: skip
        save_rows(recorder, self.output, self.layout_out, self.tile, range(row, row + rows))

    def _fits(self, row: int, rows: int) -> bool:
        return all(is_run(x, row, rows) for x in (*self.layouts, self.layout_out))
