# SPDX-License-Identifier: Apache-2.0
"""Pass: where the buffers of a chain are, and in which order its layers take turns."""

from collections.abc import Callable, Sequence

from opendpu.compiler.chain.choose import PARTS, Choice, price_of
from opendpu.compiler.chain.groups import group_choices
from opendpu.compiler.chain.model import Model, Surroundings, model_chain
from opendpu.compiler.chain.order import Order
from opendpu.compiler.chain.rings import find_rings, wanted_words
from opendpu.compiler.plan import Chain, ConvLayer, LayerPlan, Nest, Region

Spots = list[tuple[int, int]]
"""Bank group and first word of every piece."""
Place = Callable[[Sequence[int], Sequence[int] | None], Spots | None]
"""Finds places for pieces of so many words, if there are some; in these bank groups, if given."""


def place_chain(
    around: Surroundings, choice: Choice, place: Place
) -> tuple[Chain, tuple[LayerPlan, ...]] | None:
    """Return a chain with its buffers placed and its order, or none if it does not fit."""
    best: tuple[int, Model, list[int], Order] | None = None
    for parts in (p for p in PARTS if p >= choice.parts):
        model = model_chain(around, choice.span.first, choice.span.last, parts)
        if model is None:
            break

        def fits(wanted: Sequence[int]) -> bool:
            return place([w for w in wanted if w], None) is not None

        found = find_rings(model, fits, thorough=True)
        if found is None:
            continue
        cycles = price_of(model, found[1].cycles)
        if best is not None and cycles >= best[0]:
            break
        best = (cycles, model, *found)
    if best is None:
        return None
    _, model, rings, order = best
    return _placed(around, model, rings, order, place)


def _placed(
    around: Surroundings, model: Model, rings: list[int], order: Order, place: Place
) -> tuple[Chain, tuple[LayerPlan, ...]]:
    wanted = wanted_words(model, rings)
    words_of = [w for w in wanted if w]
    pieces = [number for number, words in enumerate(wanted) if words]
    choices = group_choices(model, around.homes, pieces, around.target.bank_groups)
    tried = (place(words_of, groups) for groups in choices)
    spots = next((found for found in tried if found is not None), None)
    spots = spots or place(words_of, None)
    assert spots is not None
    regions: list[Region] = []
    for buffer, ring, words in zip(model.buffers, rings, wanted, strict=False):
        if buffer.resident:
            regions.append(around.homes[buffer.name])
            continue
        bank_group, base = spots.pop(0)
        regions.append(
            Region(bank_group=bank_group, base=base, words=words, stride=buffer.stride, ring=ring)
        )
    plans = []
    for number, stage in enumerate(model.stages):
        layer = around.network.layers[stage.number]
        tile = None
        if stage.tile_words:
            bank_group, base = spots.pop(0)
            tile = Region(
                bank_group=bank_group, base=base, words=stage.tile_words, stride=1, ring=2
            )
        out = around.network.features[layer.output]
        columns = max(t[layer.output][1] for t in model.tiles)
        groups = model.blocks[number]
        if not isinstance(layer, ConvLayer):
            groups = -(-out.channels // around.target.channel_parallel)
        nest = Nest(
            columns=columns, rows=max(u.rows for u in stage.units), row_pass=out.height,
            groups=groups,
        )  # fmt: skip
        plans.append(
            LayerPlan(
                layer=layer, nest=nest, sources=tuple(regions[b] for b in model.sources[number]),
                output=regions[stage.output], tile=tile,
            )
        )  # fmt: skip
    turns = []
    for at, number in order.turns:
        stage = model.stages[at]
        unit = stage.units[number]
        turns.append((stage.number, unit.row, unit.rows))
    chain = Chain(first=model.first, last=model.last, tiles=model.tiles, turns=tuple(turns))
    return chain, tuple(plans)
