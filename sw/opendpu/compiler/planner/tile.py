# SPDX-License-Identifier: Apache-2.0
"""Pass: loop bounds of every layer and the words on chip that its moving parts use.

Every tiling of a layer that fits gets a cost in cycles; the cheapest wins.
"""

from collections.abc import Iterable, Mapping, Sequence

from opendpu.compiler.banks import Region
from opendpu.compiler.layers import ComputeLayer, Layer
from opendpu.compiler.network import LayerRange
from opendpu.compiler.network.live_range import alive
from opendpu.compiler.plan import CascadePlan, LayerPlan
from opendpu.compiler.planner.cascade.environment import Environment
from opendpu.compiler.planner.cascade.place import place_cascade
from opendpu.compiler.planner.free_words import (
    FreeWords,
    Placer,
    apart_from,
    fit,
    free_words,
    total_words,
)
from opendpu.compiler.planner.proposal import Refusal, Residency, Tiled
from opendpu.compiler.planner.tiling.problem import Stream, Tiling, TilingProblem, Tilings
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target

IDLE = 4
"""The array idles where the misc engine has so many times as much to do."""


def tile(
    residency: Residency, target: Target, tilings: Mapping[type[Layer], Tilings]
) -> Tiled | Refusal:
    """Return every layer with its loops and regions, or the first that does not fit.

    ``tilings`` has the candidates of every layer kind.
    """
    network = residency.network
    plans: list[LayerPlan] = []
    cascades: list[CascadePlan] = []
    environment = Environment(
        network=network, target=target, resident=residency.regions, streamed=residency.streamed,
        readers=network.consumers,
    )  # fmt: skip
    starts = {cascade.layers.first: cascade for cascade in residency.proposal.cascades}
    while len(plans) < len(network.layers):
        number = len(plans)
        cascade = starts.get(number)
        layers = LayerRange(number, number) if cascade is None else cascade.layers
        free = free_words(target, residency.regions, residency.live_ranges, layers)
        if cascade is not None:
            earlier = _before(plans, cascades)
            beside = earlier and _idles(residency, target, earlier, layers)
            placer = Placer(free, _used(plans, earlier) if beside else frozenset())
            found = place_cascade(environment, cascade, placer)
            if found is None:
                return _refusal(residency, layers, free, is_cascade=True)
            cascades.append(found[0])
            plans += found[1]
            continue
        before = plans[-1] if plans else None
        plan = _tile_layer(_problem(residency, target, number), free, tilings, before)
        if plan is None:
            return _refusal(residency, layers, free, is_cascade=False)
        plans.append(plan)
    return Tiled(residency=residency, layers=tuple(plans), cascades=tuple(cascades))


def _refusal(
    residency: Residency, layers: LayerRange, free: FreeWords, *, is_cascade: bool
) -> Refusal:
    in_the_way = alive(residency.live_ranges, layers.first)
    return Refusal(
        residency=residency, layers=layers, is_cascade=is_cascade, free_words=total_words(free),
        alive={name: residency.regions[name].words for name in in_the_way},
    )  # fmt: skip


def _before(plans: Sequence[LayerPlan], cascades: Sequence[CascadePlan]) -> range:
    """Return the numbers of the layers that run before the next one: a cascade, or one layer."""
    last = len(plans) - 1
    if cascades and cascades[-1].layers.last == last:
        return cascades[-1].layers.numbers
    return range(max(last, 0), last + 1)


def _idles(residency: Residency, target: Target, before: Iterable[int], layers: LayerRange) -> bool:
    """Tell whether the array has little to do in the layers ``before``, and most in ``layers``."""
    array, misc = _work(residency, target, before)
    next_array, next_misc = _work(residency, target, layers.numbers)
    return array * IDLE < misc and next_array > next_misc


def _work(residency: Residency, target: Target, numbers: Iterable[int]) -> tuple[int, int]:
    """Return the cycles of the array and of the misc engine for some layers."""
    network = residency.network
    members = (network.layers[number] for number in numbers)
    work = [
        layer.engine_cycles(network.features, target)
        for layer in members
        if isinstance(layer, ComputeLayer)
    ]
    array, misc = (sum(one.get(e, 0) for one in work) for e in (Engine.CONV, Engine.MISC))
    return array, misc


def _used(plans: Sequence[LayerPlan], numbers: Iterable[int]) -> frozenset[Region]:
    """Return the words that some layers use."""
    used = (plans[number] for number in numbers)
    return frozenset(r for plan in used for r in (*plan.sources, plan.output, plan.tile) if r)


def _problem(residency: Residency, target: Target, number: int) -> TilingProblem:
    network = residency.network
    return TilingProblem(
        layer=network.layers[number], network=network, target=target,
        whole={n: r for n, r in residency.regions.items() if (number, n) not in residency.streamed},
        saved={name for _, name in residency.streamed}.union(network.outputs),
    )  # fmt: skip


def _tile_layer(
    problem: TilingProblem, free: FreeWords, tilings: Mapping[type[Layer], Tilings],
    before: LayerPlan | None,
) -> LayerPlan | None:  # fmt: skip
    """Return the cheapest tiling that fits, placed; ``before`` is the layer that runs before."""
    layer = problem.layer
    names = (*layer.operands, layer.output)
    used = [problem.whole[n].bank_group for n in names if n in problem.whole]
    for tiling in tilings[type(layer)](problem, layer):
        slots = fit(_wanted(tiling), free, used)
        if slots is not None:
            break
    else:
        return None
    if layer.LOADS_AHEAD and before is not None:
        rest = apart_from(free, (*before.sources, before.output))
        slots = fit(_wanted(tiling), rest, used) or slots
    return _placed(problem, tiling, slots)


def _wanted(tiling: Tiling) -> list[int]:
    """Return the words of what a tiling has on chip besides whole feature maps."""
    streams = () if tiling.passes_through else tiling.sources
    streams = (*streams, tiling.alternate, tiling.output, tiling.tile)
    return [stream.words for stream in streams if stream is not None]


def _placed(problem: TilingProblem, tiling: Tiling, slots: list[tuple[int, int]]) -> LayerPlan:
    """Return a layer with its tiling, whose streams have these (bank group, first word)."""
    layer, left = problem.layer, iter(slots)

    def place(stream: Stream | None, name: str, first_row: int = 0) -> Region:
        if stream is None:
            return problem.whole[name]
        bank_group, base = next(left)
        return Region(
            bank_group=bank_group, base=base, words=stream.words, stride=stream.stride,
            capacity=stream.capacity, first_row=first_row,
        )  # fmt: skip

    if tiling.passes_through:
        output = place(tiling.output, layer.output)
        sources = tuple(problem.whole.get(name, output) for name in layer.operands)
        return LayerPlan(layer=layer, nest=tiling.nest, sources=sources, output=output)
    sources = tuple(
        place(stream, name, 0 if number else -problem.window.pad_top)
        for number, (name, stream) in enumerate(zip(layer.operands, tiling.sources, strict=True))
    )
    alternate = None if tiling.alternate is None else place(tiling.alternate, "")
    if tiling.tile is None:
        output = place(tiling.output, layer.output)
        return LayerPlan(
            layer=layer, nest=tiling.nest, sources=sources, output=output, alternate=alternate
        )
    tile = place(tiling.tile, "")
    output = problem.whole.get(layer.output, tile)
    return LayerPlan(layer=layer, nest=tiling.nest, sources=sources, output=output, tile=tile)
