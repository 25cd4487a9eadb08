# SPDX-License-Identifier: Apache-2.0
"""Several choices of widths at one cost: different, within the cost, the same for a seed."""

import math
import sys
from pathlib import Path

import pytest

from opendpu.pruning.allocate import Belief, allocate
from opendpu.pruning.analysis import Analysis
from opendpu.pruning.candidates import candidates
from opendpu.pruning.structure import OUT, Dependencies, Group, Member
from opendpu_arch.errors import UnsupportedError

sys.path.append(str(Path(__file__).parent))
from block_net import UNITS, Blocks


def group(name, layers):
    units = tuple(range(UNITS[name]))
    members = tuple(Member(f"{name}.{i}", OUT, units, units) for i in range(layers))
    return Group(name, UNITS[name], 1, members)


@pytest.fixture
def dependencies():
    groups = {name: group(name, 4 if name == "stem" else 1) for name in UNITS}
    return Dependencies(groups, {})


@pytest.fixture
def analysis(dependencies):
    steep = {"stem": 4.0, "one": 1.0, "two": 2.0, "three": 0.5}
    scores = {
        name: {
            round(units * part): 1 - steep[name] * part**2 / 10 for part in (0.25, 0.5, 0.75, 0.9)
        }
        for name, units in UNITS.items()
    }
    return Analysis("", 1.0, scores)


def test_they_differ_and_cost_no_more_than_allowed(dependencies, analysis):
    told = []
    found = candidates(
        dependencies, analysis, Blocks(4), 0.5, count=12, divisible=4, show=told.append
    )
    assert len(found) == 12 and told[-1] == "choosing candidates: 12 of 12"
    assert all(one not in found[:i] for i, one in enumerate(found))
    limit = Blocks(4).exact(UNITS) / 2
    assert all(Blocks(4).exact(one) <= 1.01 * limit for one in found)
    assert found[0] == allocate(dependencies, analysis, Blocks(4), 0.5, divisible=4)


def test_the_stream_is_tried_narrower_and_wider(dependencies, analysis):
    """Groups that several layers write look dear where nothing is trained behind the cut."""
    found = candidates(dependencies, analysis, Blocks(4), 0.5, count=12, divisible=4)
    stems = [one["stem"] for one in found]
    assert stems[0] == UNITS["stem"] and min(stems) < 20
    analysis.scores["stem"] = dict.fromkeys(analysis.scores["stem"], 0.999)
    found = candidates(dependencies, analysis, Blocks(4), 0.5, count=12, divisible=4)
    stems = [one["stem"] for one in found]
    assert max(stems) > stems[0] + 8


def test_a_seed_decides(dependencies, analysis):
    def made(count, seed):
        return candidates(
            dependencies, analysis, Blocks(4), 0.5, count=count, divisible=4, seed=seed
        )

    assert made(8, 3) == made(8, 3) != made(8, 4)
    assert made(5, 3) == made(8, 3)[:5]


def test_there_are_fewer_where_few_differ(analysis):
    one = Dependencies({"one": group("one", 1)}, {})

    class Only(Blocks):
        def exact(self, widths):
            return math.ceil(widths.get("one", 32) / self.size)

    assert candidates(one, analysis, Only(16), 0.5, count=6, divisible=16) == [{"one": 16}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "candidates is 0, but must be at least 1"),
        ({"count": True}, "candidates is True, but must be at least 1"),
        ({"count": 4, "seed": -1}, "seed is -1, but must be at least 0"),
    ],
)
def test_numbers_that_are_none_are_refused(dependencies, analysis, options, message):
    with pytest.raises(UnsupportedError, match=message):
        candidates(dependencies, analysis, Blocks(4), 0.5, **options)


def test_what_is_believed_decides_what_is_narrowed(dependencies, analysis):
    def made(belief):
        return allocate(dependencies, analysis, Blocks(4), 0.5, divisible=4, belief=belief)

    plain = made(Belief())
    assert made(Belief(factors={"three": 100.0}))["three"] == 96 > plain["three"]
    assert made(Belief(factors={"stem": 0.01}))["stem"] < plain["stem"]
    parts = {name: width / UNITS[name] for name, width in made(Belief(evenness=100.0)).items()}
    assert max(parts.values()) - min(parts.values()) < 0.3
