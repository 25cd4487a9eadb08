# SPDX-License-Identifier: Apache-2.0
"""Evolutionary search: the best subnetwork of a once-for-all network for each amount of MACs."""

import dataclasses
import random
from collections.abc import Callable, Mapping
from typing import Any

from opendpu.optimize.supernet import Supernet
from opendpu.pruning.arguments import number, whole, wrong
from opendpu_arch.errors import UnsupportedError

ATTEMPTS = 200
"""Draws for one subnetwork in the range of MACs, before it is given up."""

Widths = dict[str, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evolution:
    """How a search goes; the names are the guide's."""

    min_macs: float
    max_macs: float
    macs_step: float = 10
    parent_popu_size: int = 16
    iteration: int = 10
    mutate_size: int = 8
    mutate_prob: float = 0.2
    crossover_size: int = 4
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Individual:
    """A subnetwork that was evaluated; the more ``fitness`` the better."""

    name: str
    widths: Widths
    fitness: float
    macs: float
    params: float


def evolve(
    supernet: Supernet,
    fitness: Callable[[Widths], float],
    settings: Evolution,
    show: Callable[[str], None] = lambda text: None,
) -> dict[float, Individual]:
    """Return the fittest subnetwork for each segment of MACs, by the segment's lower end.

    Parameters
    ----------
    fitness
        Evaluates a subnetwork, the more the better; never twice the same one.

    Raises
    ------
    UnsupportedError
        The range is empty, or no subnetwork is in it.
    """
    low, high, step = (
        number(name, getattr(settings, name)) for name in ("min_macs", "max_macs", "macs_step")
    )
    if not low < high or step <= 0:
        raise UnsupportedError(
            f"min_macs, max_macs and macs_step are {low:g}, {high:g} and {step:g}, but must be a "
            "range and a step above zero, in millions",
            code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
        )
    whole("parent_popu_size", settings.parent_popu_size)
    for name in ("iteration", "mutate_size", "crossover_size", "seed"):
        whole(name, getattr(settings, name), 0)
    if not 0 <= number("mutate_prob", settings.mutate_prob) <= 1:
        raise wrong("mutate_prob", settings.mutate_prob, "a probability, from 0 to 1")
    return _Search(supernet, fitness, settings, show).run()


class _Search:
    def __init__(
        self,
        supernet: Supernet,
        fitness: Callable[[Widths], float],
        settings: Evolution,
        show: Callable[[str], None],
    ) -> None:
        self.supernet, self.fitness, self.settings, self.show = supernet, fitness, settings, show
        self.random = random.Random(settings.seed)
        self.known: dict[tuple[int, ...], Individual] = {}
        self.best: dict[float, Individual] = {}

    def run(self) -> dict[float, Individual]:
        s = self.settings
        self._add("parent", s.parent_popu_size, self._within)
        if not self.known:
            least, most = (
                self.supernet.cost(self.supernet.space.extreme(largest))[0]
                for largest in (False, True)
            )
            raise UnsupportedError(
                f"no subnet has {s.min_macs:g} to {s.max_macs:g} M MACs; they have {least:.3f} to "
                f"{most:.3f} M",
                code="OPTIMIZER_SUBNET_ERROR",
            )
        for turn in range(s.iteration):
            self._add(f"evo_{turn}_mutate", s.mutate_size, self._mutated)
            self._add(f"evo_{turn}_crossover", s.crossover_size, self._crossed)
            top = max(individual.fitness for individual in self.best.values())
            self.show(
                f"generation {turn + 1} of {s.iteration}: {len(self.known)} subnets, {top:.4g}"
            )
        return dict(sorted(self.best.items()))

    def _add(self, kind: str, count: int, make: Callable[[], Widths]) -> None:
        """Evaluate new subnetworks whose MACs are in range."""
        for index in range(count):
            for _ in range(ATTEMPTS):
                widths = make()
                macs, params = self.supernet.cost(widths)
                key = tuple(widths.values())
                if (
                    key not in self.known
                    and self.settings.min_macs <= macs <= self.settings.max_macs
                ):
                    break
            else:
                return
            found = Individual(f"net_{kind}_{index}", widths, self.fitness(widths), macs, params)
            self.known[key] = found
            segment = self._segment(macs)
            if segment not in self.best or found.fitness > self.best[segment].fitness:
                self.best[segment] = found

    def _segment(self, macs: float) -> float:
        s = self.settings
        last = -(-(s.max_macs - s.min_macs) // s.macs_step) - 1
        return s.min_macs + min((macs - s.min_macs) // s.macs_step, last) * s.macs_step

    def _parents(self) -> list[Individual]:
        ranked = sorted(self.known.values(), key=lambda one: -one.fitness)
        return [*self.best.values(), *ranked[: self.settings.parent_popu_size]]

    def _within(self) -> Widths:
        """Draw widths; then narrow or widen single groups towards the range."""
        space, s = self.supernet.space, self.settings
        widths = space.random(self.random)
        for _ in range(len(widths)):
            macs = self.supernet.cost(widths)[0]
            if s.min_macs <= macs <= s.max_macs:
                break
            name = self.random.choice(list(widths))
            found = space.widths[name]
            place = found.index(widths[name]) + (1 if macs < s.min_macs else -1)
            widths[name] = found[min(max(place, 0), len(found) - 1)]
        return widths

    def _mutated(self) -> Widths:
        parent = self.random.choice(self._parents()).widths
        space: Mapping[str, list[int]] = self.supernet.space.widths
        return {
            name: self.random.choice(space[name])
            if self.random.random() < self.settings.mutate_prob
            else kept
            for name, kept in parent.items()
        }

    def _crossed(self) -> Widths:
        parents: Any = self._parents()
        one, other = self.random.choice(parents).widths, self.random.choice(parents).widths
        return {name: self.random.choice((one[name], other[name])) for name in one}
