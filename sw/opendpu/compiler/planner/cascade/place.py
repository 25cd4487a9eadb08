# SPDX-License-Identifier: Apache-2.0
"""Where the buffers of a cascade are, how large they are, and the order of its stripes."""

import dataclasses
from collections.abc import Sequence

from opendpu.compiler.banks import Region
from opendpu.compiler.plan import CascadePlan, LayerPlan, LoopNest
from opendpu.compiler.planner.cascade.bank_groups import bank_group_candidates
from opendpu.compiler.planner.cascade.buffers import (
    buffer_words,
    grow_buffers,
    size_buffers,
    whole_order,
)
from opendpu.compiler.planner.cascade.costs import TILE_COUNTS, Cascade, cascade_cycles
from opendpu.compiler.planner.cascade.environment import Environment
from opendpu.compiler.planner.cascade.list_schedule import IssueOrder
from opendpu.compiler.planner.cascade.model import CascadeModel, cascade_models
from opendpu.compiler.planner.cascade.stage import Stage
from opendpu.compiler.planner.free_words import Placer

Slot = tuple[int, int]
"""Bank group and first word of a piece."""


@dataclasses.dataclass(frozen=True)
class _Sized:
    """A model with the capacities of its buffers, and the order that they allow."""

    model: CascadeModel
    capacities: list[int]
    order: IssueOrder

    @property
    def cycles(self) -> int:
        """What all tiles are expected to take, if engines do not disturb each other."""
        return cascade_cycles(self.model, self.order.cycles)


def place_cascade(
    environment: Environment, cascade: Cascade, placer: Placer
) -> tuple[CascadePlan, tuple[LayerPlan, ...]] | None:
    """Return a cascade with its buffers placed and its order, or none if it does not fit."""
    models = cascade_models(environment, cascade.layers)
    if models is None:
        return None
    best: tuple[_Sized, _Sized] | None = None
    for tiles in (count for count in TILE_COUNTS if count >= cascade.tiles):
        model = models(tiles)
        if model is None:
            break

        def fits(wanted: Sequence[int]) -> bool:
            return placer.place([w for w in wanted if w]) is not None

        least = size_buffers(model, fits)
        if least is None:
            continue
        grown = grow_buffers(model, fits, least)
        sized = _Sized(model, *whole_order(model, grown))
        if best is not None and sized.cycles >= best[0].cycles:
            break
        best = sized, _Sized(model, *least)
    return None if best is None else _placed(environment, *_slots(environment, *best, placer))


def _placed(
    environment: Environment, sized: _Sized, slots: Sequence[Slot]
) -> tuple[CascadePlan, tuple[LayerPlan, ...]]:
    model = sized.model
    left = iter(slots)
    regions = []
    for buffer, capacity in zip(model.buffers, sized.capacities, strict=True):
        if buffer.resident:
            regions.append(environment.resident[buffer.name])
            continue
        bank_group, base = next(left)
        regions.append(
            Region(
                bank_group=bank_group, base=base, words=buffer.words(capacity),
                stride=buffer.stride, capacity=capacity,
            )
        )  # fmt: skip
    plans = []
    for stage, sources in zip(model.stages, model.sources, strict=True):
        tile = None
        if stage.tile_words:
            bank_group, base = next(left)
            tile = Region(
                bank_group=bank_group, base=base, words=stage.tile_words, stride=1, capacity=2
            )
        plans.append(
            LayerPlan(
                layer=environment.network.layers[stage.number],
                nest=_nest(environment, model, stage), sources=tuple(regions[b] for b in sources),
                output=regions[stage.output], tile=tile,
            )
        )  # fmt: skip
    issued = []
    for at, number in sized.order.stripes:
        stage = model.stages[at]
        stripe = stage.stripes[number]
        issued.append((stage.number, stripe.row, stripe.rows))
    plan = CascadePlan(layers=model.layers, tiles=model.tiles, issue_order=tuple(issued))
    return plan, tuple(plans)


def _slots(
    environment: Environment, grown: _Sized, least: _Sized, placer: Placer
) -> tuple[_Sized, list[Slot]]:
    """Return a slot for every piece, in the bank groups where engines disturb each other least.

    Smaller buffers, where these fit bank groups so much better that it is worth more.
    """
    model, bank_groups = grown.model, environment.target.bank_groups
    wanted = buffer_words(model, grown.capacities)
    pieces = [number for number, w in enumerate(wanted) if w]
    candidates = bank_group_candidates(model, environment.resident, pieces, bank_groups)
    found: tuple[float, _Sized, list[Slot]] | None = None
    sizes = [grown] if least.capacities == grown.capacities else [grown, least]
    for price, groups in candidates:
        for sized in sizes:
            words = [w for w in buffer_words(model, sized.capacities) if w]
            slots = placer.place(words, groups)
            if slots is None:
                continue
            cycles = sized.cycles + price * len(model.tiles)
            if found is None or cycles < found[0]:
                if not any(buffer.resident for buffer in model.buffers):
                    slots = _least_busy(words, groups, placer, bank_groups)
                found = cycles, sized, slots
            sizes = [one for one in sizes if one.cycles < sized.cycles]
        if not sizes:
            break
    if found is None:
        slots = placer.place([w for w in wanted if w])
        assert slots is not None
        return grown, slots
    _, sized, slots = found
    return _Sized(model, *whole_order(model, (sized.capacities, sized.order))), slots


def _least_busy(
    words: Sequence[int], groups: Sequence[int], placer: Placer, bank_groups: int
) -> list[Slot]:
    """Return slots that take the fewest busy words: in these bank groups, or all in the next ones.

    Engines disturb each other as much in one as in the other.
    """
    turned = ([(g + n) % bank_groups for g in groups] for n in range(bank_groups))
    found = [slots for one in turned if (slots := placer.place(words, one)) is not None]
    return min(found, key=lambda slots: placer.busy_words(words, slots))


def _nest(environment: Environment, model: CascadeModel, stage: Stage) -> LoopNest:
    out = environment.network.features[environment.network.layers[stage.number].output]
    return LoopNest(
        columns=max(tile[out.name][1] for tile in model.tiles),
        rows=max(stripe.rows for stripe in stage.stripes), row_pass=out.height, groups=stage.groups,
    )  # fmt: skip
