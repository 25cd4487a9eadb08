# SPDX-License-Identifier: Apache-2.0
"""Minimum cuts, against every way to label a few members."""

import itertools

import numpy as np

from opendpu.compiler.network.min_cut import NEVER, cheapest_labels

Costs = list[tuple[int, int]]
Apart = dict[tuple[int, int], int]


def total(labels: tuple[bool, ...] | list[bool], costs: Costs, apart: Apart) -> int:
    found = sum(pair[label] for pair, label in zip(costs, labels, strict=True))
    return found + sum(cost for (a, b), cost in apart.items() if labels[a] != labels[b])


def test_as_good_as_the_best_of_all(rng: np.random.Generator) -> None:
    for _ in range(60):
        members = int(rng.integers(1, 9))
        costs = [(int(a), int(b)) for a, b in rng.integers(0, 20, (members, 2))]
        pairs = [pair for pair in itertools.permutations(range(members), 2) if rng.random() < 0.3]
        apart = {pair: int(rng.integers(0, 12)) for pair in pairs}
        best = min(
            total(labels, costs, apart)
            for labels in itertools.product([False, True], repeat=members)
        )
        assert total(cheapest_labels(costs, apart), costs, apart) == best


def test_what_cannot_go_the_second_way_does_not() -> None:
    assert cheapest_labels([(9, 0), (9, NEVER), (9, 0)], {(0, 1): 3, (1, 2): 20}) == [
        True, False, False,
    ]  # fmt: skip


def test_of_equal_ones_the_first_way() -> None:
    assert cheapest_labels([(4, 4), (5, 5)], {(0, 1): 1}) == [False, False]
