# SPDX-License-Identifier: Apache-2.0
"""Pass: which consecutive layers run as a chain.

The cheapest way to cut the sequence of layers into chains, by dynamic programming over the cycles
that the order of each chain is expected to take. A feature map between two chains stays on chip if
a bank group has room for it, else it goes through DDR.
"""

import dataclasses
from collections.abc import Collection, Sequence

from opendpu.compiler.chain.model import Model, Surroundings, model_chain
from opendpu.compiler.chain.rings import find_rings
from opendpu.compiler.layout import address_groups, wish
from opendpu.compiler.lifetime import consumers, spans
from opendpu.compiler.plan import MoveLayer, Network, Region, Span
from opendpu_arch.target import Target

LONGEST = 10
"""Layers of a chain at most."""
PARTS = (1, 2, 3, 4, 6, 8)
"""Tiles of columns that are tried."""
CHAIN_OVERHEAD = 200
"""Cycles that a chain loses at its ends."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """Layers ``span`` in ``parts`` tiles of columns."""

    span: Span
    parts: int


def used_up(network: Network, choices: Sequence[Choice]) -> set[str]:
    """Return the feature maps that a chain makes and that nothing outside it reads."""
    readers = consumers(network)
    return {
        layer.output
        for span in (choice.span for choice in choices)
        for layer in network.layers[span.first : span.last + 1]
        if all(span.first <= n <= span.last for n in readers[layer.output])
    }


def choose_chains(prices: "Prices", rejected: Collection[Span]) -> tuple[Choice, ...]:
    """Return the chains of more than one layer, ``rejected`` ones excluded."""
    best: list[tuple[int, tuple[Choice, ...]]] = [(0, ())]
    for last in range(len(prices.network.layers)):
        best.append((1 << 60, ()))
        for first in range(last, max(-1, last - LONGEST), -1):
            if Span(first, last) in rejected:
                continue
            found = prices.price(first, last)
            if found is None:
                break
            cycles, parts = found
            total = best[first][0] + cycles + CHAIN_OVERHEAD
            if total < best[-1][0]:
                chains = best[first][1]
                if last > first:
                    chains = (*chains, Choice(Span(first, last), parts))
                best[-1] = (total, chains)
    return best[-1][1]


class Prices:
    """Prices of chains in one network, where the ``spilled`` feature maps go through DDR.

    Each is found once, however often chains are chosen.
    """

    def __init__(self, network: Network, target: Target, spilled: Collection[str]) -> None:
        self.network, self.target = network, target
        self.readers = consumers(network)
        self.spans = spans(network)
        held = {a.holder for a in network.aliases.values()} | network.aliases.keys()
        held |= {layer.output for layer in network.layers if isinstance(layer, MoveLayer)}
        self._known: dict[Span, tuple[int, int] | None] = {}
        self.homes: dict[str, Region] = {}
        self.streamed: set[tuple[int, str]] = set()
        for name, numbers in self.readers.items():
            if name in held or name in spilled or name not in self.spans or not numbers:
                continue
            if name in network.inputs and len(numbers) < 2:
                continue
            feature = network.features[name]
            wishes = [wish(network.layers[n], name) for n in numbers]
            stride = max(set(wishes), key=wishes.count)
            ring = address_groups(target, stride, feature.height)
            words = ring * stride * feature.width * -(-feature.channels // target.channel_parallel)
            if words <= target.bank_depth:
                self.homes[name] = Region(
                    bank_group=0, base=0, words=words, stride=stride, ring=ring, whole=True
                )
                self.streamed |= {
                    (n, name) for n, w in zip(numbers, wishes, strict=True) if w != stride
                }

    def price(self, first: int, last: int) -> tuple[int, int] | None:
        """Return cycles and tiles of the best way to run layers ``first`` to ``last`` together.

        A single layer always has a price: there are other ways to run it.
        """
        span = Span(first, last)
        if span not in self._known:
            self._known[span] = self._find(first, last)
        return self._known[span]

    def _find(self, first: int, last: int) -> tuple[int, int] | None:
        inside = range(first, last + 1)
        made = {self.network.layers[n].output for n in inside}
        homes = {
            name: region
            for name, region in self.homes.items()
            if name not in made or any(n not in inside for n in self.readers[name])
        }
        taken = sum(r.words for n, r in homes.items() if self.spans[n].overlaps(Span(first, last)))
        around = Surroundings(
            network=self.network, target=self.target, homes=homes, streamed=self.streamed,
            readers=self.readers,
        )  # fmt: skip
        best: tuple[int, int] | None = None
        for parts in PARTS if last > first else (1,):
            model = model_chain(around, first, last, parts)
            if model is None:
                break
            found = find_rings(model, lambda wanted: self._fits(wanted, taken), thorough=False)
            if found is not None:
                cycles = price_of(model, found[1].cycles)
                if best is not None and cycles >= best[0]:
                    break
                best = (cycles, parts)
        if best is None and first == last:
            return 0, 1
        return best

    def _fits(self, wanted: Sequence[int], taken: int) -> bool:
        """Tell whether the pieces fit bank groups of which ``taken`` words are in use in all."""
        free = [self.target.bank_depth] * self.target.bank_groups
        for group in range(len(free)):
            used = min(free[group], taken)
            free[group] -= used
            taken -= used
        for words in sorted(wanted, reverse=True):
            group = max(range(len(free)), key=lambda g: free[g])
            if free[group] < words:
                return False
            free[group] -= words
        return True


def price_of(model: Model, cycles: int) -> int:
    """Return the cycles of a chain whose tiles take ``cycles`` each, weights included."""
    parts = len(model.tiles)
    loads = sum(b.load * b.height for b in model.buffers) * parts + model.weight_cycles
    return max(cycles * parts, loads)
