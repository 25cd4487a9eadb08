# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions that both engines share in a cascade."""

import dataclasses

from opendpu.compiler.banks.reach import chunks, rows_needed
from opendpu.compiler.emitter.alu import AluConstants, AluTile, emit_alu
from opendpu.compiler.emitter.cascade_tile import CascadeTile
from opendpu.compiler.emitter.conv_tile import ConvTile, ConvWeights
from opendpu.compiler.emitter.kind import LayerEmitter
from opendpu.compiler.emitter.recorder import Recorder
from opendpu.compiler.emitter.transfer import Tile, parts_of, save_rows
from opendpu.compiler.layers import SharedDepthwiseLayer
from opendpu.compiler.plan import LayerPlan


class SharedCascade:
    """The layer in a cascade; constants of both engines are loaded at its first stripe."""

    def __init__(self, recorder: Recorder, plan: LayerPlan, layer: SharedDepthwiseLayer) -> None:
        self.recorder, self.plan, self.layer = recorder, plan, layer
        self._constants: AluConstants | None = None
        self._weights: ConvWeights | None = None

    def stripes(self, tile: CascadeTile) -> "_SharedStripes":
        """Return the layer in one tile of columns."""
        layer, recorder = self.layer, self.recorder
        if self._constants is None or self._weights is None:
            self._constants = AluConstants(recorder, layer)
            self._constants.load(0, layer.misc_groups)
            self._constants.load_own()
            self._weights = ConvWeights(recorder, layer.array)
        output, layout = tile.output(self.plan)
        (source,) = tile.sources(self.plan)
        first, last = (
            tile.part(layer.output, *groups)
            for groups in ((0, layer.misc_groups), (layer.misc_groups, layer.array_groups))
        )
        parts = parts_of(first, self.plan.nest.groups)
        return _SharedStripes(
            tuple(
                AluTile(recorder, layer, source, part, output, layout, self._constants)
                for part in parts
            ),
            ConvTile(recorder, layer.array, source, self._weights, last, output, layout, None),
            tile.part(layer.output, 0, layer.misc_groups + layer.array_groups),
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _SharedStripes:
    """One tile of columns: the first channel groups on the misc engine, the others on the array."""

    misc: tuple[AluTile, ...]
    array: ConvTile
    whole: Tile
    """All channel groups."""

    def emit(self, row: int, rows: int) -> None:
        """Append what makes ``rows`` rows on both engines."""
        misc, array = self.misc[0], self.array
        misc.rows_in.need(rows_needed(misc.layer.window, row, rows))
        array.compute(row, rows)
        most = misc.layer.row_parallel(misc.recorder.target)
        for part in self.misc:
            for first, many in chunks(row, row + rows, most, part.fits):
                part.compute(first, many)
        made = range(row, row + rows)
        save_rows(misc.recorder, misc.output, misc.layout_out, self.whole, made)


SHARED = LayerEmitter(alone=emit_alu, in_cascade=SharedCascade)
