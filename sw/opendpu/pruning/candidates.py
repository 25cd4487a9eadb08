# SPDX-License-Identifier: Apache-2.0
"""Several choices of widths at one cost, for a search that trains each of them a little.

An analysis looks at one group at a time, without the others cut, so it errs; which way, it does not
tell. Candidates are what :func:`allocate` chooses if it is believed otherwise: losses to other
powers, groups narrowed more alike, groups that several layers write (the stream of residual blocks)
dearer or cheaper than those within a block, late layers against early ones, single groups as narrow
as they can be, and factors drawn at random.
"""

import random
from collections.abc import Callable, Iterator, Mapping

from opendpu.pruning.allocate import PLAIN, Belief, allocate
from opendpu.pruning.analysis import Analysis
from opendpu.pruning.arguments import whole
from opendpu.pruning.objective import Objective
from opendpu.pruning.structure import Dependencies
from opendpu_arch.target import Target

POWERS = (0.5, 2.0)
ALIKE = 0.3
"""Evenness of a candidate whose groups are narrowed more alike."""
DEARER = 4.0
"""By how much kinds of groups are taken for dearer, or cheaper, than they were found."""
SPREAD = 1.0
"""Standard deviation of the logarithm of random factors."""
NARROWEST = 0.02
"""Factor of a group that is cut first."""
PATIENCE = 3
"""So many beliefs are tried for a candidate, as several may lead to the same widths."""


def candidates(
    dependencies: Dependencies,
    analysis: Analysis,
    objective: Objective,
    ratio: float,
    *,
    count: int,
    divisible: int = 1,
    target: Target | None = None,
    seed: int = 0,
    show: Callable[[str], None] = lambda text: None,
) -> list[dict[str, int]]:
    """Return different widths, each of which costs ``1 - ratio`` of the unpruned network or less.

    Parameters
    ----------
    count
        How many, at most; the first is what :func:`allocate` chooses. There are fewer where few
        differ.
    ratio, divisible, target
        As for :func:`allocate`.

    Raises
    ------
    UnsupportedError
        The ratio is out of range, or more than can go; ``count`` or ``seed`` is no such number.
    """
    whole("candidates", count)
    whole("seed", seed, 0)
    found: list[dict[str, int]] = []
    for tried, belief in enumerate(_beliefs(dependencies, seed)):
        if len(found) == count or tried == PATIENCE * count:
            break
        widths = allocate(
            dependencies, analysis, objective, ratio, divisible=divisible, target=target,
            belief=belief, exchange=not found,
        )  # fmt: skip
        if widths not in found:
            found.append(widths)
        show(f"choosing candidates: {len(found)} of {count}")
    return found


def _beliefs(dependencies: Dependencies, seed: int) -> Iterator[Belief]:
    """Yield ways to look at an analysis, without end; half of those behind the first at random."""
    yield PLAIN
    drawn = random.Random(seed)
    names = list(dependencies.groups)
    for belief in _kinds(dependencies):
        yield belief
        yield _random(names, drawn)
    while True:
        yield _random(names, drawn)


def _kinds(dependencies: Dependencies) -> Iterator[Belief]:
    """Yield what may be wrong with an analysis, the more likely first."""
    writers = {name: len(group.producers()) for name, group in dependencies.groups.items()}
    fewest = min(writers.values())
    stream = {name for name, count in writers.items() if count > fewest}
    if stream and len(stream) < len(writers):
        yield Belief(factors=dict.fromkeys(stream, DEARER))
        yield Belief(factors=dict.fromkeys(stream, 1 / DEARER))
    yield Belief(evenness=ALIKE)
    for power in POWERS:
        yield Belief(exponent=power)
    last = max(len(writers) - 1, 1)
    for end in (DEARER, 1 / DEARER):
        ramp = {name: end ** (2 * place / last - 1) for place, name in enumerate(writers)}
        yield Belief(factors=ramp)
    for name in writers:
        if name not in stream:
            yield Belief(factors={name: NARROWEST})


def _random(names: list[str], drawn: random.Random) -> Belief:
    """Return random factors."""
    factors: Mapping[str, float] = {name: drawn.lognormvariate(0, SPREAD) for name in names}
    return Belief(factors=factors)
