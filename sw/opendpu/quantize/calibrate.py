# SPDX-License-Identifier: Apache-2.0
"""One pass of the float network over the calibration data, with an observer for every tensor."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from opendpu.ir import Graph
from opendpu.quantize.executor import evaluate
from opendpu.quantize.observers.histogram import Histogram
from opendpu.quantize.observers.mean import Mean
from opendpu.quantize.observers.observed import Observed
from opendpu.quantize.placement.groups import ScaleGroups
from opendpu.quantize.samples import Samples
from opendpu.quantize.scales.choose import candidate_errors


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


def _vote(
    groups: ScaleGroups, histograms: Mapping[str, Histogram], votes: Mapping[str, Counter[int]]
) -> None:
    for group in groups.members:
        errors = candidate_errors(groups, histograms, group)
        votes[group][min(errors, key=lambda point: errors[point])] += 1
