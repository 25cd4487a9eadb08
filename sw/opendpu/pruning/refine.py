# SPDX-License-Identifier: Apache-2.0
"""Widths exchanged by what that really costs, where costs of layers do not add up.

An estimate takes layers one by one. In a network the DPU loads the weights of one layer while it
computes another, so the same narrowing saves much where the array waits for it and nothing where it
does not. Around a choice, single steps of groups are counted exactly; steps that lose less together
are taken, if their exact cost allows it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from opendpu.pruning.objective import Objective

PROBES = 60
"""Networks whose exact cost is asked for, at most; a group has two around a choice."""
MOST_GROUPS = PROBES // 4
"""More groups are left as they are: such networks take long to compile, a step changes little."""
TRIED = 3
"""Combinations of steps that are counted exactly, the best by their sum first."""


class _Step(NamedTuple):
    """A group at the next level: what that costs more, and loses more."""

    name: str
    width: int
    cost: float
    lost: float


def refined(
    widths: Mapping[str, int],
    steps: Mapping[str, Sequence[int]],
    penalty: Callable[[str, int], float],
    objective: Objective,
    limit: float,
    show: Callable[[str], None] = lambda text: None,
) -> dict[str, int]:
    """Return widths that lose less within the limit of the exact cost, or the same widths.

    Networks with more than :data:`MOST_GROUPS` groups are left as they are.

    Parameters
    ----------
    widths
        A choice; what it costs may be had if it is above the limit.
    steps
        Levels of each group, ascending.
    penalty
        What a width of a group loses.
    """
    now, left = dict(widths), PROBES if len(widths) <= MOST_GROUPS else 0
    limit = max(limit, objective.exact(now))
    while left > 0:
        up, down = (_steps(now, steps, penalty, objective, by, left // 4) for by in (1, -1))
        left -= len(up) + len(down)
        cost = objective.exact(now)
        wanted = []
        for wider in up:
            found = _paid(wider, down, cost, limit)
            if found is not None:
                wanted.append(found)
        wanted.sort(key=lambda some: sum(step.lost for step in some))
        for found in wanted[:TRIED]:
            left -= 1
            tried = {**now, **{step.name: step.width for step in found}}
            if objective.exact(tried) <= limit:
                now = tried
                show(f"choosing widths: {len(widths)} groups compared")
                break
        else:
            break
    return now


def filled(
    widths: Mapping[str, int],
    steps: Mapping[str, Sequence[int]],
    penalty: Callable[[str, int], float],
    objective: Objective,
    limit: float,
) -> dict[str, int]:
    """Return widths with groups widened by a level where the exact cost allows it.

    Those that lost most go first. Networks with more than :data:`MOST_GROUPS` groups are left as
    they are. Parameters are those of :func:`refined`.
    """
    now = dict(widths)
    if len(now) > MOST_GROUPS:
        return now
    for name in sorted(now, key=lambda name: -penalty(name, now[name])):
        wider = [width for width in steps[name] if width > now[name]]
        if wider and objective.exact({**now, name: wider[0]}) <= limit:
            now[name] = wider[0]
    return now


def _steps(
    now: Mapping[str, int],
    steps: Mapping[str, Sequence[int]],
    penalty: Callable[[str, int], float],
    objective: Objective,
    by: int,
    most: int,
) -> list[_Step]:
    """Return steps of single groups with their exact costs; by the estimate, the best of them."""
    here = objective.cost(now)
    ranked = []
    for name, found in steps.items():
        place = found.index(now[name]) + by
        if 0 <= place < len(found):
            width = found[place]
            lost = penalty(name, width) - penalty(name, now[name])
            cost = objective.cost({**now, name: width}) - here
            ranked.append((lost / max(abs(cost), 1e-9 * here), name, width, lost))
    exact = objective.exact(now)
    return [
        _Step(name, width, objective.exact({**now, name: width}) - exact, lost)
        for _, name, width, lost in sorted(ranked)[: max(most, 1)]
    ]


def _paid(wider: _Step, down: Sequence[_Step], cost: float, limit: float) -> list[_Step] | None:
    """Return a step and narrower groups that make up for it; nothing if that loses more."""
    found, cost = [wider], cost + wider.cost
    saving = [step for step in down if step.name != wider.name and step.cost < 0]
    for step in sorted(saving, key=lambda step: -step.lost / step.cost):
        if cost <= limit:
            break
        found.append(step)
        cost += step.cost
    return found if cost <= limit and sum(step.lost for step in found) < 0 else None
