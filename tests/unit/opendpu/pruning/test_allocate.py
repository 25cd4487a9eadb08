# SPDX-License-Identifier: Apache-2.0
"""Widths for a cost, where levels are far apart: against all choices there are."""

import itertools
import math

import pytest

from opendpu.pruning.allocate import EVENNESS, PARTS, allocate
from opendpu.pruning.analysis import Analysis
from opendpu.pruning.objective import levels
from opendpu.pruning.structure import Dependencies, Group
from opendpu_arch.target import Target

B4096 = Target.from_name("B4096")
UNITS = {"stem": 32, "one": 32, "two": 64, "three": 96}
LAYERS = {("stem", "one"): 9, ("one", "stem"): 9, ("stem", "two"): 2, ("two", "three"): 2}
"""Pairs of groups that a layer reads and makes, and what it takes for a pair of channels."""


class Blocks:
    """What layers take on a target: blocks of 16 channels, each at a time."""

    name = "cycles"

    def cost(self, widths):
        return float(self.exact(widths))

    def exact(self, widths):
        """Return the cycles."""
        blocks = {name: math.ceil(widths.get(name, units) / 16) for name, units in UNITS.items()}
        return sum(blocks[a] * blocks[b] * each for (a, b), each in LAYERS.items())


@pytest.fixture
def dependencies():
    groups = {name: Group(name, units, 1, ()) for name, units in UNITS.items()}
    return Dependencies(groups, {})


def analysis_of(weights):
    """Return an analysis in which groups lose evenly, as much as their weights."""
    scores = {
        name: {count: 10 - weights[name] * count / units for count in range(1, units)}
        for name, units in UNITS.items()
    }
    return Analysis("", 10.0, scores)


@pytest.mark.parametrize("weights", list(itertools.product((0.2, 1, 3), repeat=4)))
def test_choices_are_near_the_best(dependencies, weights):
    analysis = analysis_of(dict(zip(UNITS, weights, strict=True)))
    cycles = Blocks()

    def lost(widths):
        return sum(
            analysis.loss(name, UNITS[name] - width)
            + EVENNESS * 10 * (1 - width / UNITS[name]) ** 2
            for name, width in widths.items()
        )

    parts = [part / PARTS for part in range(1, PARTS)]
    each = [levels(group, parts, 1, B4096) for group in dependencies.groups.values()]
    choices = [dict(zip(UNITS, found, strict=True)) for found in itertools.product(*each)]
    for ratio in (0.25, 0.5, 0.7):
        limit = (1 - ratio) * cycles.exact({})
        best = min(lost(widths) for widths in choices if cycles.exact(widths) <= limit)
        found = allocate(dependencies, analysis, cycles, ratio, target=B4096)
        assert cycles.exact(found) <= limit * 1.01
        assert lost(found) <= 1.25 * best + 0.05, (ratio, found)
