# SPDX-License-Identifier: Apache-2.0
"""Pass: which feature maps stay on chip whole, where, and with how many rows a bank."""

import math
from collections.abc import Collection, Sequence

from opendpu.compiler.chain.choose import Choice, used_up
from opendpu.compiler.cost import LATENCY, alu_cycles, conv_cycles, misc_cycles, transfer_cycles
from opendpu.compiler.layout import ADDRESS_GROUPS, Layout, address_groups, wish
from opendpu.compiler.lifetime import consumers, during, first_fit, spans
from opendpu.compiler.plan import (
    AluLayer,
    Banks,
    ConvLayer,
    DilatedConvLayer,
    EltwiseLayer,
    Feature,
    Layer,
    MoveLayer,
    Network,
    Region,
    Span,
    sources_of,
)
from opendpu_arch.target import Target

MAX_CONV_STRIDE = 8
"""Rows a bank that CONV can read."""
MAX_STRIDE_OUT = 4
"""Rows a bank that several output rows at a time can be written to."""
MAX_CONV_JUMP = 1024
"""Words between two rows of a bank that CONV can read."""


def allocate_banks(
    network: Network, target: Target, spilled: Collection[str], chains: Sequence[Choice] = ()
) -> Banks:
    """Return the feature maps that stay on chip whole, ``spilled`` excluded.

    In order of production, each in a bank group that the inputs of its producer do not use, if
    there is room. All layers of a chain run at the same time; what is inside one has buffers of its
    own.
    """
    around = {n: chain for chain in chains for n in range(chain.span.first, chain.span.last + 1)}
    every, readers = spans(network), consumers(network)
    inside = used_up(network, chains)
    aliased = {alias.holder for alias in network.aliases.values()} | network.aliases.keys()
    regions: dict[str, Region] = {}
    lives: dict[str, Span] = {}
    streamed: set[tuple[int, str]] = set()
    for number, layer in enumerate(network.layers):
        for name in (*sources_of(layer), layer.output):
            if name in regions or name in spilled or name in aliased:
                continue
            if name == layer.output and isinstance(layer, MoveLayer):
                continue
            wanted = name in network.inputs and len(readers[name]) > 1
            if not wanted and not (name == layer.output and readers[name]):
                continue
            if name == layer.output and name in inside:
                continue
            choice = _Choice(network, target, name, layer if name == layer.output else None)
            stride, elsewhere = choice.best(readers[name])
            here = [reader for reader in readers[name] if reader not in elsewhere]
            if not here:
                continue
            life = during(Span(every[name].first, here[-1]), [c.span for c in chains])
            ring = address_groups(target, stride, choice.feature.height)
            words = ring * stride * choice.row_words
            shared = None
            alone = number not in around or around[number].parts == 1
            if name == layer.output and layer.output not in sources_of(layer) and alone:
                last = {
                    n for n, read in readers.items()
                    if read and read[-1] == number and n not in network.outputs
                }  # fmt: skip
                shared = _in_place(layer, number, stride, regions, last, streamed)
            if shared is not None:
                regions[name], lives[name] = shared, life
                streamed |= {(reader, name) for reader in elsewhere}
                continue
            near = [regions[s].bank_group for s in sources_of(layer) if s in regions]
            for bank_group in sorted(range(target.bank_groups), key=lambda g: (near.count(g), g)):
                taken = [
                    (r.base, r.base + r.words)
                    for other, r in regions.items()
                    if r.bank_group == bank_group and lives[other].overlaps(life)
                ]
                base = first_fit(words, taken, target.bank_depth)
                if base is not None:
                    regions[name] = Region(
                        bank_group=bank_group, base=base, words=words, stride=stride, ring=ring,
                        whole=True,
                    )  # fmt: skip
                    lives[name] = life
                    streamed |= {(reader, name) for reader in elsewhere}
                    break
    return Banks(regions=regions, spans=lives, streamed=frozenset(streamed))


class _Choice:
    """Prices of keeping one feature map with some number of rows a bank."""

    def __init__(self, network: Network, target: Target, name: str, producer: Layer | None) -> None:
        self.network = network
        self.target = target
        self.producer = producer
        self.feature = network.features[name]
        groups = -(-self.feature.channels // target.channel_parallel)
        self.row_words = self.feature.width * groups
        row = transfer_cycles(
            self.feature.width, self.feature.channels, self.feature.channels,
            target.channel_parallel,
        )  # fmt: skip
        self.transfer = LATENCY + self.feature.height * row
        """Cycles to load or to save it."""

    def best(self, readers: list[int]) -> tuple[int, set[int]]:
        """Return the best rows a bank, and the readers that had better load it from DDR."""
        best: tuple[float, int, set[int]] | None = None
        wishes = {wish(self.network.layers[n], self.feature.name) for n in readers}
        for stride in sorted({s for s in wishes if s <= MAX_CONV_STRIDE} | {1, 2, 4, 8}):
            price = self._written_alone(stride)
            elsewhere = set()
            for number in readers:
                misfit = self._misfit(self.network.layers[number], stride)
                if misfit > self.transfer:
                    elsewhere.add(number)
                price += min(misfit, self.transfer)
            price += self.transfer if elsewhere else 0
            if best is None or price < best[0]:
                best = (price, stride, elsewhere)
        assert best is not None
        return best[1], best[2]

    def _written_alone(self, stride: int) -> float:
        """Return the cycles lost if the producer has to write one row at a time."""
        if self.producer is None or stride == 1:
            return 0
        if stride <= MAX_STRIDE_OUT and not _ends_with_eltwise(self.producer):
            return 0
        return self._alone(self.producer)

    def _misfit(self, layer: Layer, stride: int) -> float:
        """Return the cycles lost when ``layer`` reads it so, infinitely many if it cannot."""
        if isinstance(layer, MoveLayer):
            return 0
        if isinstance(layer, DilatedConvLayer) and layer.source == self.feature.name:
            return math.inf  # its rows are gathered from DDR
        if not _readable(self.feature, layer, stride, self.target):
            return math.inf
        return 0 if wish(layer, self.feature.name) == stride else self._alone(layer)

    def _alone(self, layer: Layer) -> int:
        """Return the cycles that ``layer`` loses with one row an instruction."""
        out, target = self.network.features[layer.output], self.target
        groups = -(-out.channels // target.channel_parallel)
        if isinstance(layer, ConvLayer):
            lost = out.height - -(-out.height // target.pixel_parallel)
            taps = layer.weights.size // out.channels // target.channel_parallel
            return lost * groups * conv_cycles(out.width, max(taps, 1))
        lost = out.height - -(-out.height // target.alu_pixel_parallel)
        if isinstance(layer, AluLayer):
            return lost * alu_cycles(out.width, groups, layer.window)
        return lost * misc_cycles(out.width, groups, len(sources_of(layer)))


def _ends_with_eltwise(layer: Layer) -> bool:
    return isinstance(layer, EltwiseLayer) or (
        isinstance(layer, ConvLayer) and layer.epilogue is not None
    )


def _in_place(
    layer: Layer,
    number: int,
    stride: int,
    regions: dict[str, Region],
    last: set[str],
    streamed: set[tuple[int, str]],
) -> Region | None:
    """Return the words of an operand of an epilogue that its result can take, if there are any.

    Each word is read before it is written, and nothing reads the operand later.
    """
    if not isinstance(layer, ConvLayer) or layer.epilogue is None:
        return None
    for name in layer.epilogue.others:
        if (
            name in regions and name != layer.source and (number, name) not in streamed
            and name in last and regions[name].stride == stride
        ):  # fmt: skip
            return regions[name]
    return None


def _readable(feature: Feature, layer: Layer, stride: int, target: Target) -> bool:
    """Tell whether ``layer`` can make one output row at a time of ``feature`` so stored."""
    if isinstance(layer, EltwiseLayer | MoveLayer) or layer.source != feature.name:
        return True
    groups = -(-feature.channels // target.channel_parallel)
    row_words = feature.width * groups
    if isinstance(layer, ConvLayer) and (
        stride > MAX_CONV_STRIDE or (stride > 1 and row_words > MAX_CONV_JUMP)
    ):
        return False
    ring = address_groups(target, stride, feature.height)
    region = Region(bank_group=0, base=0, words=0, stride=stride, ring=ring, whole=True)
    layout = Layout(target=target, region=region, columns=feature.width, groups=groups)
    window = layer.window
    tops = range(-window.pad_top, feature.height, window.stride_h)
    return all(layout.groups_touched(top, window.kernel_h) <= ADDRESS_GROUPS for top in tops)
