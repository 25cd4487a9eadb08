# SPDX-License-Identifier: Apache-2.0
"""Consecutive layers as stages and buffers, if they can run as a cascade at all."""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence

from opendpu.compiler.layers import ComputeLayer, MiscLayer, channel_groups
from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.network import LayerRange, root_of
from opendpu.compiler.planner.cascade.columns import Columns, tile_columns
from opendpu.compiler.planner.cascade.environment import Before, Cut, Environment
from opendpu.compiler.planner.cascade.list_schedule import IssueOrder, estimate
from opendpu.compiler.planner.cascade.stage import Buffer, Stage
from opendpu.compiler.planner.cascade.stripes import StripeRequest, cut_stripes
from opendpu.compiler.planner.cascade.weights import term_cycles, weight_cycles, weights_fit
from opendpu_arch.isa import Engine

LOW = 4
"""A feature map is low that the array makes in so many stripes at most: the misc engine follows it
block by block of channels, instead of a stripe later."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CascadeModel:
    """A cascade: ``sources`` holds the buffer of every operand, by stage."""

    layers: LayerRange
    stages: tuple[Stage, ...]
    buffers: tuple[Buffer, ...]
    min_capacities: tuple[int, ...]
    """Address groups that a buffer has at least."""
    sources: tuple[tuple[int, ...], ...]
    tiles: tuple[Mapping[str, Columns], ...]
    weight_cycles: int
    before: Before = dataclasses.field(default_factory=Before, repr=False, compare=False)
    """Where estimates are kept."""

    def estimate(self, capacities: Sequence[int]) -> IssueOrder:
        """Return an estimate of the order with so many address groups of each buffer."""
        key = (*self._form, *capacities)
        known = self.before.orders
        if key not in known:
            known[key] = estimate(self.stages, self.buffers, capacities)
        return known[key]

    @functools.cached_property
    def _form(self) -> tuple[Hashable, ...]:
        """All that an order depends on but the capacities."""
        stages = tuple(
            (
                stage.stripes if stage.cut is None else stage.cut, stage.engine, stage.output,
                stage.in_place, stage.tile_words, stage.groups, stage.pieces,
            )
            for stage in self.stages
        )  # fmt: skip
        buffers = tuple(
            (b.height, b.stride, b.row_words, b.resident, b.load, b.save, b.group_rows)
            for b in self.buffers
        )
        return stages, buffers


def cascade_models(
    environment: Environment, layers: LayerRange
) -> Callable[[int], CascadeModel | None] | None:
    """Return what makes ``layers``, cut into so many tiles of columns, a cascade, or none of it.

    There is none at all where weights do not fit all at once, readers of one feature map want
    different rows in a bank, or results come back through DDR. Narrower tiles may do what wide ones
    cannot.
    """
    members = [environment.network.layers[number] for number in layers.numbers]
    computing = [x for x in members if isinstance(x, ComputeLayer) and x.IN_CASCADES]
    if len(computing) < len(members):
        return None
    builder = _Builder(environment, layers, computing)
    return builder.model if builder.is_possible() else None


class _Builder:
    """Layers as a cascade; buffers are known by feature map and rows a bank."""

    def __init__(
        self, environment: Environment, layers: LayerRange, members: Sequence[ComputeLayer]
    ) -> None:
        self.environment = environment
        self.network, self.target = environment.network, environment.target
        self.range = layers
        self.layers = members
        self.made = {layer.output for layer in members}
        self.strides: dict[str, int] = {}
        self.widest: dict[str, int] = {}
        self.buffers: dict[tuple[str, int], Buffer] = {}
        self.sources: list[tuple[int, ...]] = []

    def is_possible(self) -> bool:
        """Tell whether anything but the width of the tiles is in the way."""
        return self._possible() and self._agree()

    def model(self, count: int) -> CascadeModel | None:
        """Return the cascade in ``count`` tiles of columns, or none."""
        tiles = tile_columns(self.network, self.layers, self.leaving, count)
        if tiles is None:
            return None
        self.buffers, self.sources = {}, []
        self.widest = {n: max(t[n][1] for t in tiles) for n in tiles[0]}
        stages = []
        for number, layer in zip(self.range.numbers, self.layers, strict=True):
            stage = self._stage(number, layer)
            if stage is None or (stage.in_place is not None and count > 1):
                return None
            stages.append(stage)
        buffers = tuple(self.buffers.values())
        stripes = [len(stage.stripes) * len(tiles) for stage in stages]
        terms = term_cycles(self.target, self.layers, stripes)
        return CascadeModel(
            layers=self.range, stages=tuple(stages), buffers=buffers,
            min_capacities=_min_capacities(stages, buffers), sources=tuple(self.sources),
            tiles=tuple(tiles), weight_cycles=weight_cycles(self.target, self.layers) + terms,
            before=self.environment.before,
        )  # fmt: skip

    @functools.cached_property
    def leaving(self) -> set[str]:
        """The results whose columns are all needed, by others or in what stays on chip."""
        resident = self.environment.resident
        return {name for name in self.made if self._leaves(name) or name in resident}

    def _stage(self, number: int, layer: ComputeLayer) -> Stage | None:
        """Return a layer with its buffers, or none if an instruction cannot do it."""
        columns = self.widest[layer.output]
        keys = []
        for name in layer.operands:
            stride = self._stride(number, layer, name)
            if stride != layer.preferred_rows_per_bank(name):
                return None
            key = (name, stride)
            keys.append(key)
            if key not in self.buffers:
                self.buffers[key] = self._buffer(number, name, stride, self.widest[name])
        stride = self.strides[layer.output]
        if stride > 1 and layer.ends_in_elew:
            return None
        out = (layer.output, stride)
        self.buffers[out] = self._buffer(number, layer.output, stride, columns)
        places = list(self.buffers)
        read = tuple(places.index(key) for key in keys)
        groups = self._groups(layer, columns)
        found = self._cut(number, StripeRequest(
            layer=layer, network=self.network, target=self.target,
            operands=tuple(self.buffers[k] for k in keys), read=read,
            output=self.buffers[out], columns=columns, groups=groups,
        ))  # fmt: skip
        if found is None:
            return None
        stripes, cut = found
        shared = [
            r for r, (name, _) in zip(read[1:], keys[1:], strict=True) if self._shares(layer, name)
        ]
        self.sources.append(read)
        assert layer.ENGINE is not None
        return Stage(
            number=number, stripes=stripes, output=places.index(out), engine=layer.ENGINE,
            in_place=shared[0] if shared else None, groups=groups,
            tile_words=2 * columns * groups if layer.intermediate is not None else 0,
            pieces=groups if _comes_in_blocks(layer) else 1,
            cut=cut,
        )  # fmt: skip

    def _groups(self, layer: ComputeLayer, columns: int) -> int:
        """Return how much of its channels a layer makes at a time."""
        features, target = self.network.features, self.target
        if isinstance(layer, MiscLayer):
            made = {x.output: features[x.output] for x in self.layers if _comes_in_blocks(x)}
            rows = [made[name].height for name in layer.operands if name in made]
            if rows and max(rows) <= LOW * target.pixel_parallel:
                return layer.groups_behind_array(features, target, columns)
        return layer.groups_a_pass(features, target, columns)

    def _cut(self, number: int, request: StripeRequest) -> Cut | None:
        """Return the stripes of a layer; the same ones as in another cascade if that can be."""
        known, numbers = self.environment.before.cuts, self.environment.before.numbers
        buffers = (*request.operands, request.output)
        layouts = tuple((b.stride, b.row_words, b.group_rows) for b in buffers)
        key = (number, request.read, layouts, request.columns, request.groups)
        if key not in known:
            stripes = cut_stripes(request)
            known[key] = None
            if stripes is not None:
                known[key] = stripes, numbers.setdefault(stripes, len(numbers))
        return known[key]

    def _possible(self) -> bool:
        """Tell whether weights fit, and nothing made here comes back through DDR."""
        if not weights_fit(self.network, self.target, self.layers):
            return False
        aliases, in_pieces = self.network.aliases, self.network.in_pieces
        roots = {root_of(aliases, name) for name in self.made}
        for name in (n for layer in self.layers for n in layer.operands):
            read = (name, *self.network.read_with(name))
            if name not in self.made and any(root_of(aliases, n) in roots for n in read):
                return False
            if name in self.made and (name in aliases or name in in_pieces):
                return False
        return not any(x.reads_from_ddr(name) for x in self.layers for name in self.made)

    def _agree(self) -> bool:
        """Find the rows a bank of every result; tell whether all readers agree."""
        for name in self.made:
            readers = {
                n: layer
                for n, layer in zip(self.range.numbers, self.layers, strict=True)
                if name in layer.operands
            }
            preferred = {layer.preferred_rows_per_bank(name) for layer in readers.values()}
            if name in self.environment.resident:
                stride = self.environment.resident[name].stride
                if any((n, name) in self.environment.streamed for n in readers):
                    return False
                if preferred - {stride}:
                    return False
            elif len(preferred) > 1:
                return False
            else:
                stride = preferred.pop() if preferred else 1
            self.strides[name] = stride
        return True

    def _stride(self, number: int, layer: ComputeLayer, name: str) -> int:
        """Return the rows a bank of an operand."""
        if name in self.made:
            return self.strides[name]
        if self.environment.is_resident(number, name):
            return self.environment.resident[name].stride
        return layer.preferred_rows_per_bank(name)

    def _leaves(self, name: str) -> bool:
        """Tell whether somebody outside the cascade needs a result."""
        outside = any(n not in self.range.numbers for n in self.environment.readers[name])
        aliased = name in self.network.aliases or name in self.network.parts
        return outside or aliased or name in self.network.outputs

    def _shares(self, layer: ComputeLayer, name: str) -> bool:
        """Tell whether the result takes the words of an operand."""
        resident = self.environment.resident
        return (
            name in resident
            and layer.output in resident
            and resident[name] == resident[layer.output]
        )

    def _buffer(self, number: int, name: str, stride: int, columns: int) -> Buffer:
        feature, target = self.network.features[name], self.target
        row = transfer_cycles(columns, feature.channels, feature.channels, target.channel_parallel)
        made = name in self.made
        resident = name in self.environment.resident and (
            made or (number, name) not in self.environment.streamed
        )
        saved = made and self._leaves(name)
        if resident:
            streamed = any(n == name for _, n in self.environment.streamed)
            saved = made and (name in self.network.outputs or streamed)
        return Buffer(
            name=name, height=feature.height, stride=stride,
            row_words=columns * channel_groups(feature, target), resident=resident,
            load=0 if made or resident else row, save=row if saved else 0,
            group_rows=stride * target.pixel_parallel,
        )  # fmt: skip


def _comes_in_blocks(layer: ComputeLayer) -> bool:
    """Tell whether the array makes the channels of a result one block after the other."""
    return layer.ENGINE == Engine.CONV and layer.intermediate is None


def _min_capacities(stages: Sequence[Stage], buffers: Sequence[Buffer]) -> tuple[int, ...]:
    """Return the address groups that the rows of one instruction are in, at the worst."""
    found = [1] * len(buffers)
    for stage in stages:
        for stripe in stage.stripes:
            for need in stripe.needs:
                rows = buffers[need.buffer].group_rows
                touched = (need.high - 1) // rows - need.low // rows + 1
                found[need.buffer] = max(found[need.buffer], touched)
            rows = buffers[stage.output].group_rows
            if stripe.row // rows != (stripe.row + stripe.rows - 1) // rows:
                found[stage.output] = buffers[stage.output].groups
    return tuple(found)
