# SPDX-License-Identifier: Apache-2.0
"""One tile of columns of a cascade: where its layers find and leave their rows."""

from collections.abc import Collection, Mapping

from opendpu.compiler.banks import Region
from opendpu.compiler.banks.layout import Layout
from opendpu.compiler.emitter.recorder import Operand, Recorder
from opendpu.compiler.emitter.transfer import Source, Tile
from opendpu.compiler.layers import channel_groups
from opendpu.compiler.plan import LayerPlan


class CascadeTile:
    """A tile of columns of all layers of a cascade.

    Parameters
    ----------
    recorder
        Gets the commands.
    columns
        First column and columns of every feature map.
    made
        Feature maps that layers of the cascade make.
    """

    def __init__(
        self, recorder: Recorder, columns: Mapping[str, tuple[int, int]], made: Collection[str]
    ) -> None:
        self.recorder, self.columns, self.made = recorder, columns, made
        self._inputs: dict[tuple[str, Region], Source] = {}

    def part(self, name: str, group: int, groups: int) -> Tile:
        """Return the columns of a feature map, of some of its channel groups or blocks."""
        column, columns = self.columns[name]
        return Tile(column=column, columns=columns, group=group, groups=groups)

    def output(self, plan: LayerPlan) -> tuple[Operand, Layout]:
        """Return the result of a layer, and where its rows are."""
        operand = self.recorder.operand(plan.layer.output, plan.output)
        return operand, self._layout(operand)

    def source(self, name: str, region: Region) -> Source:
        """Return an input; the same one for all layers that read it from the same words."""
        key = (name, region)
        if key not in self._inputs:
            operand = self.recorder.operand(name, region)
            self._inputs[key] = Source(
                self.recorder, operand, self._layout(operand), made=name in self.made
            )
        return self._inputs[key]

    def sources(self, plan: LayerPlan) -> tuple[Source, ...]:
        """Return all inputs of a layer."""
        pairs = zip(plan.layer.operands, plan.sources, strict=True)
        return tuple(self.source(name, region) for name, region in pairs)

    def _layout(self, operand: Operand) -> Layout:
        feature = operand.feature
        first, many = 0, feature.width
        if not operand.region.whole:
            first, many = self.columns[feature.name]
        return Layout(
            target=self.recorder.target, region=operand.region, columns=many,
            groups=channel_groups(feature, self.recorder.target), first_column=first,
        )  # fmt: skip
