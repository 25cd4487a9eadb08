# SPDX-License-Identifier: Apache-2.0
"""Pass: loop bounds of every layer and the words on chip that its moving parts use.

Every way to cut a layer that fits is given a price in cycles by the cost model; the cheapest wins.
"""

from collections.abc import Iterator, Mapping, Sequence

from opendpu.compiler.chain.choose import Choice
from opendpu.compiler.chain.model import Surroundings
from opendpu.compiler.chain.place import Place, place_chain
from opendpu.compiler.lifetime import consumers, holes
from opendpu.compiler.plan import (
    Banks,
    Chain,
    ComputeLayer,
    ConvLayer,
    DilatedConvLayer,
    LayerPlan,
    MoveLayer,
    Nest,
    Network,
    Region,
    Span,
    sources_of,
)
from opendpu.compiler.tiling.conv import conv_cuts
from opendpu.compiler.tiling.cut import Cut, Problem, Stream
from opendpu.compiler.tiling.dilated import dilated_cuts
from opendpu.compiler.tiling.misc import misc_cuts
from opendpu.compiler.tiling.move import move_words
from opendpu_arch.errors import DPUError
from opendpu_arch.target import Target

Holes = Mapping[int, list[tuple[int, int]]]
"""Free (start, end) ranges of words by bank group."""


class NoRoomError(DPUError):
    """A layer does not fit beside the feature maps that stay on chip."""

    def __init__(self, message: str, layer: int) -> None:
        self.layer = layer
        super().__init__(message)


class ChainError(DPUError):
    """A chain does not fit beside the feature maps that stay on chip."""

    def __init__(self, span: Span) -> None:
        self.span = span
        super().__init__(f"the chain of layers {span.first} to {span.last} does not fit")


def tile(
    network: Network, target: Target, banks: Banks, choices: Sequence[Choice] = ()
) -> tuple[tuple[LayerPlan, ...], tuple[Chain, ...]]:
    """Return every layer with its loops and regions, and the chains.

    Raises
    ------
    NoRoomError
        A layer does not fit; its number tells the caller which feature maps are in the way.
    ChainError
        A chain does not fit.
    """
    plans: list[LayerPlan] = []
    chains = []
    saved = {name for _, name in banks.streamed}.union(network.outputs)
    readers = consumers(network)
    starts = {choice.span.first: choice for choice in choices}
    for number, layer in enumerate(network.layers):
        if number < len(plans):
            continue
        choice = starts.get(number)
        if choice is not None:
            around = Surroundings(
                network=network, target=target, homes=banks.regions, streamed=banks.streamed,
                readers=readers,
            )  # fmt: skip
            found = place_chain(around, choice, _placer(target, banks, choice.span))
            if found is None:
                raise ChainError(choice.span)
            chains.append(found[0])
            plans += found[1]
            continue
        whole = {n: r for n, r in banks.regions.items() if (number, n) not in banks.streamed}
        free = _free(target, banks, Span(number, number))
        problem = Problem(layer=layer, network=network, target=target, whole=whole, saved=saved)
        plan = _tile_layer(problem, free)
        if plan is None:
            words = sum(end - start for spots in free.values() for start, end in spots)
            raise NoRoomError(
                f"layer {layer.name} does not fit the image banks: {target.bank_groups} groups "
                f"of {target.bank_depth} words, of which {words} are free; a smaller window or "
                "fewer columns would lift it (XCOM_TILING_SIZE_ERROR)",
                number,
            )
        plans.append(plan)
    return tuple(plans), tuple(chains)


def _placer(target: Target, banks: Banks, span: Span) -> Place:
    free = _free(target, banks, span)
    return lambda wanted, groups: _fit(list(wanted), free, [], groups)


def _free(target: Target, banks: Banks, span: Span) -> Holes:
    """Return what no whole feature map takes while the layers of ``span`` run."""
    return {
        group: holes(
            {
                (r.base, r.base + r.words)
                for name, r in banks.regions.items()
                if banks.spans[name].overlaps(span) and r.bank_group == group
            },
            target.bank_depth,
        )
        for group in range(target.bank_groups)
    }


def _tile_layer(problem: Problem, free: Holes) -> LayerPlan | None:
    layer = problem.layer
    if isinstance(layer, MoveLayer):
        return _tile_move(problem, layer, free)
    names = (*sources_of(layer), layer.output)
    used = [problem.whole[n].bank_group for n in names if n in problem.whole]
    best: tuple[Cut, list[tuple[int, int]]] | None = None
    for cut in _cuts(problem):
        if best is not None and cut.cycles >= best[0].cycles:
            continue
        wanted = [s.words for s in (*cut.sources, cut.output, cut.tile) if s is not None]
        spots = _fit(wanted, free, used)
        if spots is not None:
            best = (cut, spots)
    if best is None:
        return None
    cut, spots = best

    def place(stream: Stream | None, name: str, first_row: int = 0) -> Region:
        if stream is None:
            return problem.whole[name]
        bank_group, base = spots.pop(0)
        return Region(
            bank_group=bank_group, base=base, words=stream.words, stride=stream.stride,
            ring=stream.ring, first_row=first_row,
        )  # fmt: skip

    operands = zip(_operands(layer, cut), cut.sources, strict=True)
    sources = tuple(
        place(stream, name, 0 if number else -problem.window.pad_top)
        for number, (name, stream) in enumerate(operands)
    )
    if cut.tile is None:
        output = place(cut.output, layer.output)
        return LayerPlan(layer=layer, nest=cut.nest, sources=sources, output=output)
    tile = place(cut.tile, "")
    output = problem.whole.get(layer.output, tile)
    return LayerPlan(layer=layer, nest=cut.nest, sources=sources, output=output, tile=tile)


def _operands(layer: ComputeLayer, cut: Cut) -> tuple[str, ...]:
    """Return the feature map of each source of a cut; gathered rows may be in several places."""
    names = sources_of(layer)
    return names + names[:1] * (len(cut.sources) - len(names))


def _tile_move(problem: Problem, layer: MoveLayer, free: Holes) -> LayerPlan | None:
    """Return where the pieces of a copy lie on their way."""
    source = None if layer.source is None else problem.network.features[layer.source]
    whole = problem.whole.get(layer.source or "")
    for words in move_words(layer, source if whole is None else None, problem.target):
        spots = _fit([words], free, [])
        if spots is not None:
            bank_group, base = spots[0]
            place = Region(bank_group=bank_group, base=base, words=words, stride=1, ring=1)
            nest = Nest(columns=1, rows=1, row_pass=1, groups=1)
            sources = () if source is None else (whole or place,)
            return LayerPlan(layer=layer, nest=nest, sources=sources, output=place)
    return None


def _cuts(problem: Problem) -> Iterator[Cut]:
    layer = problem.layer
    if isinstance(layer, DilatedConvLayer):
        return dilated_cuts(problem, layer)
    if isinstance(layer, ConvLayer):
        return conv_cuts(problem, layer)
    assert not isinstance(layer, MoveLayer)
    return misc_cuts(problem, layer)


def _fit(
    wanted: list[int], free: Holes, used: list[int], groups: Sequence[int] | None = None
) -> list[tuple[int, int]] | None:
    """Return (bank group, first word) of each wanted size, in groups of their own if possible.

    ``groups`` says which group each one has to be in.
    """
    holes_left = {group: list(h) for group, h in free.items()}
    load = {group: used.count(group) for group in free}
    found: dict[int, tuple[int, int]] = {}
    for index in sorted(range(len(wanted)), key=lambda i: -wanted[i]):
        options = [
            (load[group], end - start, group, at)
            for group, spots in holes_left.items()
            for at, (start, end) in enumerate(spots)
            if end - start >= wanted[index] and (groups is None or groups[index] == group)
        ]
        if not options:
            return None
        _, _, group, at = min(options)
        start, end = holes_left[group][at]
        found[index] = (group, start)
        holes_left[group][at] = (start + wanted[index], end)
        load[group] += 1
    return [found[i] for i in range(len(wanted))]
