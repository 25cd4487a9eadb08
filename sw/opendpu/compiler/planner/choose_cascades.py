# SPDX-License-Identifier: Apache-2.0
"""Pass: which consecutive layers run as a cascade.

The cheapest way to cut the sequence of layers into cascades, by dynamic programming over the cycles
that each cascade is expected to take. A feature map between two cascades stays on chip if a bank
group has the words for it, else it goes through DDR. One that takes most of a bank group leaves
little for the buffers of cascades beside it: those go through DDR where that is cheaper in all.
"""

from opendpu.compiler.network import LayerRange, Network
from opendpu.compiler.planner.cascade.costs import Cascade
from opendpu.compiler.planner.proposal import Proposal, Revision
from opendpu.compiler.planner.revise import unrestricted
from opendpu_arch.target import Target

LONGEST = 10
"""Layers of a cascade at most."""
OVERHEAD = 200
"""Cycles that a cascade loses at its ends."""
NEVER = 1 << 60
LARGE = 2
"""A feature map is large that takes more than this part of a bank group."""
LEAST_SHARE = 0.05
"""Part of the cycles around it that a large feature map has to save by going through DDR."""

Choice = tuple[int, tuple[Cascade, ...]]
"""Cycles of all layers, and their cascades."""


def choose_cascades(value: Network | Revision, target: Target) -> Proposal:
    """Return a network with its cascades."""
    if isinstance(value, Revision):
        return Proposal(revision=value, cascades=_cheapest(value)[1])
    revision, choice = _unrevised(value, target)
    return Proposal(revision=revision, cascades=choice[1])


def expected_cycles(network: Network, target: Target) -> int:
    """Return the cycles that the cascades of a network are expected to take."""
    return _unrevised(network, target)[1][0]


def _unrevised(network: Network, target: Target) -> tuple[Revision, Choice]:
    """Return what is proposed first, and its cycles and cascades."""
    revision = unrestricted(network, target)
    return _with_spills(revision, _cheapest(revision), target)


def _with_spills(revision: Revision, choice: Choice, target: Target) -> tuple[Revision, Choice]:
    """Return the revision in which large feature maps go through DDR where that costs less."""
    for name in _large(revision, target):
        cycles, least = _around(revision, choice, name)
        if cycles - least < LEAST_SHARE * cycles:
            continue  # it is in no way, or inside a cascade
        changed = revision.without(name)
        found = _cheapest(changed)
        if found[0] < choice[0] - LEAST_SHARE * cycles:
            revision, choice = changed, found
    return revision, choice


def _large(revision: Revision, target: Target) -> list[str]:
    """Return the large feature maps that only layers with known costs make and read."""
    network, costs = revision.network, revision.costs
    made = {layer.output: number for number, layer in enumerate(network.layers)}
    found = []
    for name, region in costs.resident.items():
        if name in made and region.words * LARGE > target.bank_depth:
            near = (made[name], *costs.readers[name])
            alone = (costs.best(LayerRange(number, number)) for number in near)
            if all(cost is not None and cost[0] for cost in alone):
                found.append(name)
    return found


def _around(revision: Revision, choice: Choice, name: str) -> tuple[int, int]:
    """Return the cycles of cascades that make and read a feature map, and the least they can be.

    None of either if it is inside a cascade, which has buffers for it.
    """
    costs, network = revision.costs, revision.network
    alive = costs.live_ranges[name]
    starts = {cascade.layers.first: cascade.layers for cascade in choice[1]}
    number, total, near = 0, 0, []
    while number < len(network.layers):
        layers = starts.get(number, LayerRange(number, number))
        if layers.overlaps(alive):
            cost = costs.best(layers)
            total += OVERHEAD + (cost[0] if cost is not None else 0)
            near.append(layers)
        number = layers.last + 1
    if len(near) < 2:
        return 0, 0
    return total, costs.least(LayerRange(near[0].first, near[-1].last))


def _cheapest(revision: Revision) -> Choice:
    """Return the cheapest way to cut all layers into cascades."""
    best: list[Choice] = [(0, ())]
    for last in range(len(revision.network.layers)):
        best.append(_cheapest_until(revision, last, best))
    return best[-1]


def _cheapest_until(revision: Revision, last: int, best: list[Choice]) -> Choice:
    """Return cycles and cascades of the layers up to ``last``; ``best`` has those of fewer."""
    found: Choice = (NEVER, ())
    for first in range(last, max(-1, last - LONGEST), -1):
        layers = LayerRange(first, last)
        if layers in revision.restrictions.apart and first < last:
            continue
        if best[first][0] + revision.costs.least(layers) + OVERHEAD >= found[0]:
            continue
        cost = revision.costs.best(layers)
        if cost is None:
            break
        cycles, tiles = cost
        total = best[first][0] + cycles + OVERHEAD
        if total < found[0]:
            cascades = best[first][1]
            if first < last or _cascades_alone(revision, layers):
                cascades = (*cascades, Cascade(layers, tiles))
            found = (total, cascades)
    return found


def _cascades_alone(revision: Revision, layers: LayerRange) -> bool:
    """Tell whether a single layer is to be a cascade, if it was not refused as one."""
    alone = revision.network.layers[layers.first].CASCADES_ALONE
    return alone and layers not in revision.restrictions.apart
