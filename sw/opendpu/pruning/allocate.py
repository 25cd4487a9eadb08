# SPDX-License-Identifier: Apache-2.0
"""How many channels each group keeps, so that a network costs what it may and loses little.

Greedy: again and again the group is narrowed by one level whose loss, by the analysis of single
groups, is smallest for what it saves. Where levels are far apart, as the blocks of a large target
are, the last step may save much more than was wanted, and an early one be a mistake. So groups are
widened again, and others narrowed for them, as long as that loses less at no higher cost. The guide
leaves this algorithm open.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from opendpu.pruning.analysis import Analysis
from opendpu.pruning.arguments import check_ratio, check_threshold
from opendpu.pruning.objective import Objective, levels
from opendpu.pruning.refine import filled, refined
from opendpu.pruning.structure import Dependencies
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target

PARTS = 16
"""Levels of a group, evenly from nothing to all of it."""
EVENNESS = 0.02
"""Weight, in parts of the baseline, of narrowing groups alike where the analysis sees no loss."""
STEP = 0.97
"""What the estimated cost has to fall to, where the exact one is too high."""
CLOSE = 0.01
"""How far above the wanted part of the cost a network may be."""
TURNS = 3
"""How often a choice is improved; each compares estimates with the exact cost, and learns of it."""
Penalty: TypeAlias = Callable[[str, int], float]
"""What a width of a group costs, in scores."""


@dataclasses.dataclass(frozen=True)
class Belief:
    """How far an analysis of single groups is believed, where widths are chosen from it.

    Parameters
    ----------
    exponent
        Of losses, relative to the scale of scores: above one, small losses count for less.
    evenness
        Weight, in parts of the baseline, of narrowing groups alike.
    factors
        What a group's losses are multiplied by; 1 where it is not named.
    """

    exponent: float = 1.0
    evenness: float = EVENNESS
    factors: Mapping[str, float] = dataclasses.field(default_factory=dict)


PLAIN = Belief()
"""As it is."""


def allocate(
    dependencies: Dependencies,
    analysis: Analysis,
    objective: Objective,
    ratio: float,
    *,
    divisible: int = 1,
    target: Target | None = None,
    belief: Belief = PLAIN,
    exchange: bool = True,
    show: Callable[[str], None] = lambda text: None,
) -> dict[str, int]:
    """Return widths with which a network costs ``1 - ratio`` of the unpruned one, or less.

    Parameters
    ----------
    ratio
        The part of the cost that goes, in (0, 1).
    divisible
        What numbers of channels are divisible by, as far as groups have that many.
    target
        The DPU whose blocks numbers of channels are rounded to.
    belief
        How far the analysis is believed.
    exchange
        Whether groups are exchanged by exact costs at the end, which are many, or only widened.

    Raises
    ------
    UnsupportedError
        The ratio is out of range, or more than can go.
    """
    check_ratio(ratio)
    steps = {
        name: levels(group, [part / PARTS for part in range(1, PARTS)], divisible, target)
        for name, group in dependencies.groups.items()
    }
    whole = {name: group.units for name, group in dependencies.groups.items()}
    limit = objective.exact(whole) * (1 - ratio)
    floor = {name: found[0] for name, found in steps.items()}
    least = objective.exact(floor)
    if least > limit:
        most = 1 - least / objective.exact(whole)
        raise UnsupportedError(
            f"{ratio:g} of the {objective.name} cannot go: with every group as narrow as it can be "
            f"{most:.3f} of them do; other layers are excluded or are outputs",
            code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
        )
    penalty = _penalty(steps, analysis, belief)
    search = _Search(steps, penalty, objective)
    widths, aim = dict(whole), limit
    while True:
        widths = search.narrowed(widths, aim, show=show)
        if objective.exact(widths) <= limit * (1 + CLOSE) or widths == floor:
            break
        aim = min(aim, objective.cost(widths) * STEP)
    for _ in range(TURNS):
        wider = search.widened(widths, limit)
        found = search.exchanged(wider, limit)
        better = [
            some
            for some in (wider, found)
            if some != widths and objective.exact(some) <= limit * (1 + CLOSE)
        ]
        if better:
            widths = better[-1]
        elif found == wider:
            break
    if not exchange:
        return filled(widths, steps, penalty, objective, limit)
    return refined(widths, steps, penalty, objective, limit, show)


@dataclasses.dataclass(frozen=True)
class _Search:
    """Goes from widths to others by estimated costs."""

    steps: Mapping[str, Sequence[int]]
    penalty: Penalty
    objective: Objective

    def lost(self, widths: Mapping[str, int]) -> float:
        """Return what all groups lose."""
        return sum(self.penalty(name, width) for name, width in widths.items())

    def narrowed(
        self,
        widths: Mapping[str, int],
        limit: float,
        *,
        kept: str = "",
        show: Callable[[str], None] = lambda text: None,
    ) -> dict[str, int]:
        """Narrow groups, all but ``kept``, until the cost is low enough or nothing is left."""
        now = dict(widths)
        cost = self.objective.cost(now)
        start = cost
        while cost > limit:
            best: tuple[float, str, int, float] | None = None
            for name, found in self.steps.items():
                narrower = [width for width in found if width < now[name]]
                if name == kept or not narrower:
                    continue
                width = narrower[-1]
                then = self.objective.cost({**now, name: width})
                lost = self.penalty(name, width) - self.penalty(name, now[name])
                saved = max(cost - then, 1e-9 * start)
                if best is None or lost / saved < best[0]:
                    best = (lost / saved, name, width, then)
            if best is None:
                break
            now[best[1]], cost = best[2], best[3]
            show(f"choosing widths: {cost / start:.0%} of the {self.objective.name}")
        return now

    def widened(self, widths: Mapping[str, int], limit: float) -> dict[str, int]:
        """Widen groups, those that lost most first, as far as the cost allows it."""
        now = dict(widths)
        for name in sorted(now, key=lambda name: -self.penalty(name, now[name])):
            for width in self.steps[name]:
                if width > now[name] and self.objective.cost({**now, name: width}) <= limit:
                    now[name] = width
        return now

    def exchanged(self, widths: Mapping[str, int], limit: float) -> dict[str, int]:
        """Widen one group by a level, narrow others for it if that loses less; each in turn."""
        now = dict(widths)
        for name, found in self.steps.items():
            wider = [width for width in found if width > now[name]]
            if not wider:
                continue
            tried = self.narrowed({**now, name: wider[0]}, limit, kept=name)
            if self.objective.cost(tried) <= limit and self.lost(tried) < self.lost(now):
                now = tried
        return now


def _penalty(steps: Mapping[str, Sequence[int]], analysis: Analysis, belief: Belief) -> Penalty:
    """Return what widths of groups cost."""
    units = {name: found[-1] for name, found in steps.items()}
    worst = max((analysis.loss(name, found[-1] - 1) for name, found in steps.items()), default=0.0)
    scale = max(abs(analysis.baseline or 0.0), worst) or 1.0

    def penalty(name: str, width: int) -> float:
        gone = units[name] - width
        lost = analysis.loss(name, gone)
        if belief.exponent != 1:
            lost = scale * (lost / scale) ** belief.exponent
        even = belief.evenness * scale * (gone / units[name]) ** 2
        return belief.factors.get(name, 1.0) * (lost + even)

    return penalty


def tolerated(
    dependencies: Dependencies,
    analysis: Analysis,
    threshold: float,
    *,
    divisible: int = 1,
    target: Target | None = None,
) -> dict[str, int]:
    """Return the least widths with which no group alone loses more than a part of the score.

    Raises
    ------
    UnsupportedError
        ``threshold`` is not in (0, 1).
    """
    check_threshold(threshold)
    allowed = threshold * abs(analysis.baseline or 0.0)
    widths = {}
    for name, group in dependencies.groups.items():
        parts = [part / PARTS for part in range(1, PARTS)]
        fitting = [
            width
            for width in levels(group, parts, divisible, target)
            if analysis.loss(name, group.units - width) <= allowed
        ]
        widths[name] = min(fitting, default=group.units)
    return widths
