# SPDX-License-Identifier: Apache-2.0
"""Pass: which feature maps stay on chip whole, where, and with how many rows a bank."""

import dataclasses

from opendpu.compiler.banks import Region
from opendpu.compiler.banks.layout import address_groups
from opendpu.compiler.layers import ComputeLayer, Layer, channel_groups
from opendpu.compiler.network import LayerRange
from opendpu.compiler.network.live_range import live_ranges, widened
from opendpu.compiler.planner.cascade.costs import internal_features
from opendpu.compiler.planner.first_fit import first_fit
from opendpu.compiler.planner.preference import Preference, preferred_layout
from opendpu.compiler.planner.proposal import Proposal, Residency
from opendpu_arch.target import Target


def allocate_banks(proposal: Proposal, target: Target) -> Residency:
    """Return the feature maps that stay on chip whole.

    In order of production, each in a bank group that the inputs of its producer do not use, if
    there is one with the words. All layers of a cascade run at the same time; what is inside one
    has buffers of its own.
    """
    allocator = _Allocator(proposal, target)
    for number, layer in enumerate(proposal.network.layers):
        for name in (*layer.operands, layer.output):
            if allocator.is_candidate(layer, name):
                allocator.allocate(number, layer, name)
    return Residency(
        proposal=proposal, regions=allocator.regions, live_ranges=allocator.live_ranges,
        streamed=frozenset(allocator.streamed),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Candidate:
    """A feature map that could stay: rows a bank, readers that stream it, when it is alive."""

    name: str
    layout: Preference
    alive: LayerRange
    words: int
    capacity: int


class _Allocator:
    """Gives out words of the bank groups."""

    def __init__(self, proposal: Proposal, target: Target) -> None:
        self.network, self.target = proposal.network, target
        self.spilled = proposal.revision.restrictions.spilled
        self.cascades = {n: c for c in proposal.cascades for n in c.layers.numbers}
        self.together = [cascade.layers for cascade in proposal.cascades]
        self.readers = self.network.consumers
        self.every = live_ranges(self.network)
        self.internal = internal_features(self.network, self.readers, proposal.cascades)
        self.aliased = {*self.network.parts}
        self.aliased |= self.network.aliases.keys()
        self.regions: dict[str, Region] = {}
        self.live_ranges: dict[str, LayerRange] = {}
        self.streamed: set[tuple[int, str]] = set()

    def is_candidate(self, layer: Layer, name: str) -> bool:
        """Tell whether a feature map of a layer can stay on chip from here on.

        Results can, and inputs that several layers read.
        """
        if name in self.regions or name in self.spilled or name in self.aliased:
            return False
        if name == layer.output:
            return (
                isinstance(layer, ComputeLayer)
                and name not in self.internal
                and bool(self.readers[name])
            )
        return name in self.network.inputs and len(self.readers[name]) > 1

    def allocate(self, number: int, layer: Layer, name: str) -> None:
        """Give a feature map its words, if there are some."""
        candidate = self._candidate(layer, name)
        if candidate is None:
            return
        region = None
        if name == layer.output and name not in layer.operands and self._runs_in_one_tile(number):
            region = self._in_place(layer, number, candidate.layout.rows_per_bank)
        region = region or self._in_free_words(layer, candidate)
        if region is not None:
            self.regions[name], self.live_ranges[name] = region, candidate.alive
            self.streamed |= {(reader, name) for reader in candidate.layout.elsewhere}

    def _candidate(self, layer: Layer, name: str) -> _Candidate | None:
        """Return how a feature map would stay, if any reader wants it so."""
        feature, readers = self.network.features[name], self.readers[name]
        producer = layer if name == layer.output and isinstance(layer, ComputeLayer) else None
        layout = preferred_layout(self.network, self.target, name, producer, readers)
        here = [reader for reader in readers if reader not in layout.elsewhere]
        if not here:
            return None
        capacity = address_groups(self.target, layout.rows_per_bank, feature.height)
        row_words = feature.width * channel_groups(feature, self.target)
        return _Candidate(
            name=name, layout=layout, capacity=capacity,
            words=capacity * layout.rows_per_bank * row_words,
            alive=widened(LayerRange(self.every[name].first, here[-1]), self.together),
        )  # fmt: skip

    def _runs_in_one_tile(self, number: int) -> bool:
        return number not in self.cascades or self.cascades[number].tiles == 1

    def _in_place(self, layer: Layer, number: int, rows_per_bank: int) -> Region | None:
        """Return the words of an operand that the result can take, if nothing reads it later."""
        for name in layer.in_place_operands:
            readers = self.readers[name]
            read_last = readers and readers[-1] == number and name not in self.network.outputs
            if (
                name in self.regions and read_last
                and (number, name) not in self.streamed
                and self.regions[name].stride == rows_per_bank
            ):  # fmt: skip
                return self.regions[name]
        return None

    def _in_free_words(self, layer: Layer, candidate: _Candidate) -> Region | None:
        """Return words that nothing takes at the same time, if there are enough."""
        near = [self.regions[s].bank_group for s in layer.operands if s in self.regions]
        groups = range(self.target.bank_groups)
        for bank_group in sorted(groups, key=lambda g: (near.count(g), g)):
            taken = [
                (r.base, r.base + r.words)
                for other, r in self.regions.items()
                if r.bank_group == bank_group and self.live_ranges[other].overlaps(candidate.alive)
            ]
            base = first_fit(candidate.words, taken, self.target.bank_depth)
            if base is not None:
                return Region(
                    bank_group=bank_group, base=base, words=candidate.words,
                    stride=candidate.layout.rows_per_bank, capacity=candidate.capacity, whole=True,
                )  # fmt: skip
        return None
