# SPDX-License-Identifier: Apache-2.0
"""What it costs to run consecutive layers as a cascade."""

import copy
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Self

from opendpu.compiler.banks import Region
from opendpu.compiler.banks.layout import address_groups
from opendpu.compiler.layers import ComputeLayer, channel_groups
from opendpu.compiler.layers.cost import feature_cycles, shared_cycles
from opendpu.compiler.network import LayerRange, Network
from opendpu.compiler.network.live_range import live_ranges
from opendpu.compiler.planner.cascade.buffers import size_buffers
from opendpu.compiler.planner.cascade.environment import Before, Environment
from opendpu.compiler.planner.cascade.least_work import least_work
from opendpu.compiler.planner.cascade.model import CascadeModel, cascade_models
from opendpu_arch.target import Target

TILE_COUNTS = (1, 2, 3, 4, 6, 8)
"""Tiles of columns that are tried."""


@dataclasses.dataclass(frozen=True)
class Cascade:
    """Layers that run together in so many tiles of columns."""

    layers: LayerRange
    tiles: int


class CascadeCosts:
    """Cycles of possible cascades in one network, where ``spilled`` feature maps go through DDR.

    Each is found once, however often cascades are chosen.
    """

    def __init__(self, network: Network, target: Target, spilled: Collection[str] = ()) -> None:
        self.network, self.target = network, target
        self.readers = network.consumers
        self.live_ranges = live_ranges(network)
        self._known: dict[LayerRange, tuple[int, int] | None] = {}
        self._before = Before()
        self._until = least_work(network, target)
        self.resident: dict[str, Region] = {}
        self.streamed: set[tuple[int, str]] = set()
        self._assume_residents(spilled)

    def _assume_residents(self, spilled: Collection[str]) -> None:
        """Take every feature map to be on chip that one bank group holds, as most readers like."""
        network, target = self.network, self.target
        in_ddr = network.parts.keys() | network.aliases.keys()
        in_ddr |= {n.output for n in network.layers if not isinstance(n, ComputeLayer)}
        in_ddr |= {*spilled, *network.constants}
        for name, numbers in self.readers.items():
            if name in in_ddr or name not in self.live_ranges or not numbers:
                continue
            if name in network.inputs and len(numbers) < 2:
                continue
            feature = network.features[name]
            preferred = [network.layers[n].preferred_rows_per_bank(name) for n in numbers]
            stride = max(set(preferred), key=preferred.count)
            capacity = address_groups(target, stride, feature.height)
            words = capacity * stride * feature.width * channel_groups(feature, target)
            in_ddr_too = {n for n in numbers if network.layers[n].reads_from_ddr(name)}
            self.streamed |= {(n, name) for n in in_ddr_too}
            if words <= target.bank_depth and in_ddr_too != {*numbers}:
                self.resident[name] = Region(
                    bank_group=0, base=0, words=words, stride=stride, capacity=capacity, whole=True
                )
                self.streamed |= {
                    (n, name) for n, p in zip(numbers, preferred, strict=True) if p != stride
                }

    def without(self, name: str) -> Self:
        """Return the costs when one more feature map goes through DDR.

        What is known of layers stays so where it is not alive, or is made and read among them.
        """
        made = copy.copy(self)
        alive, given = self.live_ranges[name], name in self.network.inputs
        made.resident = {n: region for n, region in self.resident.items() if n != name}
        made.streamed = {pair for pair in self.streamed if pair[1] != name}
        made._known = {
            layers: cost
            for layers, cost in self._known.items()
            if not layers.overlaps(alive) or (layers.contains(alive) and not given)
        }
        return made

    def least(self, layers: LayerRange) -> int:
        """Return what the busiest engine does for ``layers`` at least."""
        before, after = self._until[layers.first], self._until[layers.last + 1]
        return max(b - a for a, b in zip(before, after, strict=True))

    def best(self, layers: LayerRange) -> tuple[int, int] | None:
        """Return cycles and tiles of the best way to run ``layers`` together, if there is one.

        A single layer always has one: it can run alone.
        """
        if layers not in self._known:
            self._known[layers] = self._find(layers)
        return self._known[layers]

    def _find(self, layers: LayerRange) -> tuple[int, int] | None:
        inside = layers.numbers
        made = {self.network.layers[n].output for n in inside}
        resident = {
            name: region
            for name, region in self.resident.items()
            if name not in made or any(n not in inside for n in self.readers[name])
        }
        taken = sum(r.words for n, r in resident.items() if self.live_ranges[n].overlaps(layers))
        taken -= sum(self._in_place_words(number, resident) for number in inside)
        environment = Environment(
            network=self.network, target=self.target, resident=resident, streamed=self.streamed,
            readers=self.readers, before=self._before,
        )  # fmt: skip
        best: tuple[int, int] | None = None
        models = cascade_models(environment, layers)
        for tiles in TILE_COUNTS:
            model = None if models is None else models(tiles)
            if model is None:
                continue
            found = size_buffers(model, lambda wanted: self._fits(wanted, taken))
            if found is not None:
                cycles = cascade_cycles(model, found[1].cycles)
                if best is not None and cycles >= best[0]:
                    break
                best = (cycles, tiles)
        if best is None and len(inside) == 1:
            return self._alone(layers.first), 1
        return best

    def _in_place_words(self, number: int, resident: Mapping[str, Region]) -> int:
        """Return the words of a layer's result that are those of an operand, which is read last."""
        layer = self.network.layers[number]
        for name in layer.in_place_operands:
            last = self.readers[name][-1] == number and name not in self.network.outputs
            if last and resident.get(name, 0) == resident.get(layer.output):
                return resident[name].words
        return 0

    def _alone(self, number: int) -> int:
        """Return about what a layer takes that finds no room beside what is assumed to be on chip.

        All that it reads and makes then goes through DDR.
        """
        layer, network, target = self.network.layers[number], self.network, self.target
        if not isinstance(layer, ComputeLayer):
            return 0
        loads = layer.weight_cycles(target) + sum(
            feature_cycles(network.features[name], target.channel_parallel)
            for name in layer.operands
            if not layer.repeats(name)
        )
        saves = feature_cycles(network.features[layer.output], target.channel_parallel)
        return max(loads, saves, self.least(LayerRange(number, number)))

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


def cascade_cycles(model: CascadeModel, cycles: int) -> int:
    """Return the cycles of a cascade whose tiles take ``cycles`` each, weights included."""
    tiles = len(model.tiles)
    loads = sum(b.load * b.height for b in model.buffers) * tiles + model.weight_cycles
    saves = sum(b.save * b.height for b in model.buffers) * tiles
    return max(cycles * tiles, loads, shared_cycles(loads + saves))


def internal_features(
    network: Network, readers: Mapping[str, Sequence[int]], cascades: Sequence[Cascade]
) -> set[str]:
    """Return the feature maps that a cascade makes and that nothing outside it reads."""
    return {
        network.layers[number].output
        for cascade in cascades
        for number in cascade.layers.numbers
        if all(n in cascade.layers.numbers for n in readers[network.layers[number].output])
    }
