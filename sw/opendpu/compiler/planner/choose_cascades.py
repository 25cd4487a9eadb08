# SPDX-License-Identifier: Apache-2.0
"""Pass: which consecutive layers run as a cascade.

The cheapest way to cut the sequence of layers into cascades, by dynamic programming over the cycles
that each cascade is expected to take. A feature map between two cascades stays on chip if a bank
group has the words for it, else it goes through DDR.
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


def choose_cascades(value: Network | Revision, target: Target) -> Proposal:
    """Return a network with its cascades of more than one layer."""
    revision = value if isinstance(value, Revision) else unrestricted(value, target)
    best: list[tuple[int, tuple[Cascade, ...]]] = [(0, ())]
    for last in range(len(revision.network.layers)):
        best.append(_cheapest_until(revision, last, best))
    return Proposal(revision=revision, cascades=best[-1][1])


def _cheapest_until(
    revision: Revision, last: int, best: list[tuple[int, tuple[Cascade, ...]]]
) -> tuple[int, tuple[Cascade, ...]]:
    """Return cycles and cascades of the layers up to ``last``; ``best`` has those of fewer."""
    found: tuple[int, tuple[Cascade, ...]] = (NEVER, ())
    for first in range(last, max(-1, last - LONGEST), -1):
        layers = LayerRange(first, last)
        if layers in revision.restrictions.apart:
            continue
        cost = revision.costs.best(layers)
        if cost is None:
            break
        cycles, tiles = cost
        total = best[first][0] + cycles + OVERHEAD
        if total < found[0]:
            cascades = best[first][1]
            if last > first:
                cascades = (*cascades, Cascade(layers, tiles))
            found = (total, cascades)
    return found
