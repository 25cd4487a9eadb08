# SPDX-License-Identifier: Apache-2.0
"""Fix points of activations from calibration data, in one pass over it."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from opendpu.ir import Array, Graph
from opendpu.quantize.executor import evaluate
from opendpu.quantize.grid import CANDIDATES, no_overflow
from opendpu.quantize.groups import ScaleGroups
from opendpu.quantize.observe import Histogram, Mean
from opendpu.quantize.samples import Samples

METHODS = ("minmse", "diffs", "nonoverflow")
"""Ways to choose fix points of activations."""


@dataclasses.dataclass(frozen=True)
class Observed:
    """What one pass over the calibration data found.

    Parameters
    ----------
    histograms
        Values of every tensor that is quantized.
    votes
        By group, the best fix point of each batch; of method ``diffs`` only.
    means
        Mean of each channel of some layers' results, over some samples.
    """

    histograms: Mapping[str, Histogram]
    votes: Mapping[str, Counter[int]]
    means: Mapping[str, Array]


def observe(
    graph: Graph,
    groups: ScaleGroups,
    samples: Samples,
    *,
    layers: Sequence[str],
    mean_samples: int,
    method: str,
    batch: int,
    show: Callable[[str], None],
) -> Observed:
    """Compute the float network on all samples and remember what calibration needs.

    ``layers`` are those whose channels' means over the first ``mean_samples`` are wanted; batches
    of ``batch`` samples vote where ``method`` is ``diffs``.
    """
    constants = [name for name in groups.names if graph[name].value is not None]
    computed = [name for name in groups.names if graph[name].value is None]
    total = {name: Histogram(name) for name in groups.names}
    means = {name: Mean() for name in layers}
    votes: dict[str, Counter[int]] = {group: Counter() for group in groups.members}
    for name in constants:
        value = graph[name].value
        assert value is not None
        total[name].add(value)
    keep = list(dict.fromkeys([*computed, *layers]))
    done = waiting = 0
    part = {name: Histogram(name) for name in computed} if method == "diffs" else total
    for count, results in evaluate(graph, keep, samples, batch=batch):
        for name in computed:
            part[name].add(results[name])
        wanted = min(count, mean_samples - done)
        if wanted > 0:
            for name, mean in means.items():
                mean.add(results[name][:wanted] if count > 1 else results[name])
        done, waiting = done + count, waiting + count
        show(f"calibrating: {done} of {samples.count} samples")
        if method == "diffs" and (waiting >= batch or done == samples.count):
            _vote(groups, {**total, **part}, votes)
            for name in computed:
                total[name].merge(part[name])
            part, waiting = {name: Histogram(name) for name in computed}, 0
    return Observed(total, votes, {name: mean.value for name, mean in means.items()})


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


def _vote(
    groups: ScaleGroups, histograms: Mapping[str, Histogram], votes: Mapping[str, Counter[int]]
) -> None:
    for group in groups.members:
        errors = candidate_errors(groups, histograms, group)
        votes[group][min(errors, key=lambda point: errors[point])] += 1
