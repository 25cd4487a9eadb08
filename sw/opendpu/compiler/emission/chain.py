# SPDX-License-Identifier: Apache-2.0
"""Instructions of layers that run as a chain."""

from collections.abc import Mapping

from opendpu.compiler.emission.conv import ConvTile, ConvWeights, output_layout
from opendpu.compiler.emission.epilogue import EpilogueRows
from opendpu.compiler.emission.misc import AluTile, EltwiseTile, alu_bias, alu_weights
from opendpu.compiler.emission.recorder import Operand, Recorder
from opendpu.compiler.emission.transfer import Source, Tile
from opendpu.compiler.layout import Layout
from opendpu.compiler.plan import (
    AluLayer,
    Chain,
    ConvLayer,
    EltwiseLayer,
    LayerPlan,
    Region,
    sources_of,
)

Columns = tuple[int, int]


def emit_chain(recorder: Recorder, chain: Chain) -> None:
    """Append the steps of a chain: tiles of columns, and in each the rows of all layers in turn."""
    plans = recorder.plan.layers[chain.first : chain.last + 1]
    for plan in plans:
        if plan.output.whole:
            height = recorder.plan.network.features[plan.layer.output].height
            recorder.on_chip[plan.layer.output] = set(range(height))
    constants: dict[str, ConvWeights | tuple[int, int]] = {}
    for columns in chain.tiles:
        tile = _ChainTile(recorder, chain, columns, constants)
        for number, row, rows in chain.turns:
            recorder.layer = recorder.plan.layers[number].layer.name
            tile.emit(number, row, rows)


class _ChainTile:
    """All layers of a chain for one tile of columns."""

    def __init__(
        self,
        recorder: Recorder,
        chain: Chain,
        columns: Mapping[str, Columns],
        constants: dict[str, ConvWeights | tuple[int, int]],
    ) -> None:
        self.recorder, self.chain, self.columns = recorder, chain, columns
        self.constants = constants
        plans = recorder.plan.layers[chain.first : chain.last + 1]
        self.made = {plan.layer.output for plan in plans}
        self.inputs: dict[tuple[str, Region], Source] = {}
        self.epilogues: dict[tuple[int, int, int], ConvTile] = {}
        self.turns = dict.fromkeys(range(chain.first, chain.last + 1), 0)
        self.rows: dict[int, ConvTile | AluTile | EltwiseTile] = {}

    def emit(self, number: int, row: int, rows: int) -> None:
        """Append the steps that make some rows of layer ``number``."""
        plan = self.recorder.plan.layers[number]
        layer = plan.layer
        if isinstance(layer, ConvLayer) and layer.epilogue is not None:
            blocks = self._weights(layer).blocks
            for block in range(0, blocks, plan.nest.groups):
                many = min(plan.nest.groups, blocks - block)
                self._with_epilogue(number, plan, layer, row, block, many).emit(row, rows)
            return
        if number not in self.rows:
            self.rows[number] = self._work(plan)
        self.rows[number].emit(row, rows)

    def _work(self, plan: LayerPlan) -> "ConvTile | AluTile | EltwiseTile":
        layer, recorder = plan.layer, self.recorder
        output, layout_out = self._output(plan)
        groups = -(-output.feature.channels // recorder.target.channel_parallel)
        tile = self._tile(layer.output, 0, groups)
        sources = tuple(
            self._input(name, region)
            for name, region in zip(sources_of(layer), plan.sources, strict=True)
        )
        if isinstance(layer, ConvLayer):
            weights = self._weights(layer)
            return ConvTile(recorder, layer, sources[0], weights, tile, output, layout_out, None)
        if isinstance(layer, AluLayer):
            if layer.name not in self.constants:
                word = alu_weights(recorder, layer, 0, groups)
                self.constants[layer.name] = (word, alu_bias(recorder, layer))
            found = self.constants[layer.name]
            assert isinstance(found, tuple)
            return AluTile(recorder, layer, sources[0], tile, output, layout_out, *found)
        assert isinstance(layer, EltwiseLayer)
        return EltwiseTile(recorder, layer, sources, tile, output, layout_out)

    def _with_epilogue(
        self, number: int, plan: LayerPlan, layer: ConvLayer, row: int, block: int, many: int
    ) -> ConvTile:
        """Return a convolution whose results go through the next place for them."""
        assert layer.epilogue is not None and plan.tile is not None
        recorder = self.recorder
        parallel = recorder.target.pixel_parallel
        turn = (self.turns[number] - row // parallel) % plan.tile.ring
        self.turns[number] += 1
        key = (number, block, turn)
        if key not in self.epilogues:
            tile = self._tile(layer.output, block, many)
            result = recorder.operand(layer.epilogue.tile, plan.tile)
            results = output_layout(recorder, result, tile, turn)
            others = {
                name: self._input(name, region)
                for name, region in zip(layer.epilogue.others, plan.sources[1:], strict=True)
            }
            epilogue = EpilogueRows(
                recorder, layer.epilogue, tile, results, others, *self._output(plan)
            )
            source = self._input(layer.source, plan.sources[0])
            self.epilogues[key] = ConvTile(
                recorder, layer, source, self._weights(layer), tile, result, results, epilogue
            )
        return self.epilogues[key]

    def _weights(self, layer: ConvLayer) -> ConvWeights:
        if layer.name not in self.constants:
            self.constants[layer.name] = ConvWeights(self.recorder, layer)
        found = self.constants[layer.name]
        assert isinstance(found, ConvWeights)
        return found

    def _tile(self, name: str, group: int, groups: int) -> Tile:
        column, columns = self.columns[name]
        return Tile(column=column, columns=columns, group=group, groups=groups)

    def _layout(self, operand: Operand) -> Layout:
        feature = operand.feature
        first, many = 0, feature.width
        if not operand.region.whole:
            first, many = self.columns[feature.name]
        return Layout(
            target=self.recorder.target, region=operand.region, columns=many,
            groups=-(-feature.channels // self.recorder.target.channel_parallel),
            first_column=first,
        )  # fmt: skip

    def _output(self, plan: LayerPlan) -> tuple[Operand, Layout]:
        operand = self.recorder.operand(plan.layer.output, plan.output)
        return operand, self._layout(operand)

    def _input(self, name: str, region: Region) -> Source:
        key = (name, region)
        if key not in self.inputs:
            operand = self.recorder.operand(name, region)
            self.inputs[key] = Source(
                self.recorder, operand, self._layout(operand), made=name in self.made
            )
        return self.inputs[key]
