# SPDX-License-Identifier: Apache-2.0
"""Fix points of activations, from what the observers saw."""

from collections.abc import Mapping

from opendpu.quantize.observers.histogram import Histogram
from opendpu.quantize.observers.observed import Observed
from opendpu.quantize.placement.groups import ScaleGroups
from opendpu.quantize.scales.grid import CANDIDATES, no_overflow


def choose_fix_points(groups: ScaleGroups, observed: Observed, method: str) -> dict[str, int]:
    """Return the fix point of every quantized tensor.

    ``nonoverflow`` lets nothing saturate; ``minmse`` takes the least squared error over all
    data; ``diffs`` takes the least squared error of each batch and then the commonest fix point
    (the smaller one of two equally common). Tensors of a group are judged together.
    """
    chosen: dict[str, int] = {}
    for group, members in groups.members.items():
        start = first_candidate(groups, observed.histograms, group)
        if method == "nonoverflow":
            found = start
        elif method == "diffs" and observed.votes[group]:
            counts = observed.votes[group]
            found = min(counts, key=lambda point: (-counts[point], point))
            found = min(max(found, start), start + CANDIDATES - 1)
        else:
            errors = candidate_errors(groups, observed.histograms, group)
            found = min(errors, key=lambda point: errors[point])
        chosen |= dict.fromkeys(members, found)
    return chosen


def first_candidate(groups: ScaleGroups, histograms: Mapping[str, Histogram], group: str) -> int:
    """Return the largest fix point at which nothing of a group saturates, or its lower bound."""
    start = min(no_overflow(histograms[name].largest) for name in groups.members[group])
    return max(start, groups.lower_bounds.get(group, start))


def candidate_errors(
    groups: ScaleGroups, histograms: Mapping[str, Histogram], group: str
) -> dict[int, float]:
    """Return the squared error of a group by fix point."""
    start = first_candidate(groups, histograms, group)
    return {
        point: sum(histograms[name].squared_error(point) for name in groups.members[group])
        for point in range(start, start + CANDIDATES)
    }
