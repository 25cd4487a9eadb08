# SPDX-License-Identifier: Apache-2.0
"""Which of two ways each member goes where going apart costs something: a minimum cut."""

import itertools
from collections import deque
from collections.abc import Mapping, Sequence

SOURCE, SINK = -1, -2
"""Nodes beside the members, which are 0, 1, 2 …"""
NEVER = 1 << 60
"""More than anything costs."""


def cheapest_labels(
    costs: Sequence[tuple[int, int]], apart: Mapping[tuple[int, int], int]
) -> list[bool]:
    """Return for every member whether it goes the second way, so that the sum is least.

    ``costs`` has what each member costs either way, ``NEVER`` for a way that it cannot go, and
    ``apart`` what two members cost that go different ways. Solved exactly as a minimum cut by
    Edmonds and Karp's algorithm (Introduction to Algorithms, "Maximum Flow"). Of equal
    solutions, the one in which most go the first way.
    """
    capacity: dict[int, dict[int, int]] = {n: {} for n in (*range(len(costs)), SOURCE, SINK)}

    def connect(one: int, other: int, there: int, back: int) -> None:
        capacity[one][other] = capacity[one].get(other, 0) + there
        capacity[other][one] = capacity[other].get(one, 0) + back

    for member, (first, second) in enumerate(costs):
        least = min(first, second)
        connect(SOURCE, member, second - least, 0)
        connect(member, SINK, first - least, 0)
    for (one, other), cost in apart.items():
        connect(one, other, cost, cost)
    while path := _shortest(capacity):
        edges = list(itertools.pairwise(path))
        flow = min(capacity[one][other] for one, other in edges)
        for one, other in edges:
            capacity[one][other] -= flow
            capacity[other][one] += flow
    second_way = _reaching_sink(capacity)
    return [member in second_way for member in range(len(costs))]


def _shortest(capacity: Mapping[int, Mapping[int, int]]) -> list[int]:
    """Return the shortest path from source to sink with room left, or nothing."""
    before = {SOURCE: SOURCE}
    queue = deque([SOURCE])
    while queue:
        node = queue.popleft()
        for to, room in capacity[node].items():
            if room > 0 and to not in before:
                before[to] = node
                queue.append(to)
        if SINK in before:
            break
    if SINK not in before:
        return []
    path = [SINK]
    while path[-1] != SOURCE:
        path.append(before[path[-1]])
    return path[::-1]


def _reaching_sink(capacity: Mapping[int, Mapping[int, int]]) -> set[int]:
    """Return what still has room on some path to the sink."""
    found = {SINK}
    queue = deque([SINK])
    while queue:
        node = queue.popleft()
        for origin in capacity[node]:
            if origin not in found and capacity[origin][node] > 0:
                found.add(origin)
                queue.append(origin)
    return found
