# SPDX-License-Identifier: Apache-2.0
"""Widths for a cost, where levels are far apart: against all choices there are."""

import itertools
import sys
from pathlib import Path

import pytest

from opendpu.pruning.allocate import EVENNESS, PARTS, allocate
from opendpu.pruning.analysis import Analysis
from opendpu.pruning.objective import levels
from opendpu.pruning.structure import Dependencies, Group
from opendpu_arch.target import Target

sys.path.append(str(Path(__file__).parent))
from block_net import UNITS, Blocks

B4096 = Target.from_name("B4096")


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
    cycles = Blocks(16)

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
