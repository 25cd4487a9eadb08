# SPDX-License-Identifier: Apache-2.0
"""One pass of the float network over the calibration data, with an observer for every tensor."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from opendpu.ir import Array, Graph, Quantization
from opendpu.quantize.executor import evaluate
from opendpu.quantize.observers.channels import ChannelHistograms
from opendpu.quantize.observers.histogram import Histogram
from opendpu.quantize.observers.mean import SampleMeans
from opendpu.quantize.observers.observed import Observed
from opendpu.quantize.placement.groups import ScaleGroups
from opendpu.quantize.progress import Progress
from opendpu.quantize.reduced import with_means
from opendpu.quantize.samples import Samples
from opendpu.quantize.scales.choose import scale_of, statistic_of
from opendpu.quantize.tensor_spec import TensorSpec


def observe(
    graph: Graph,
    groups: ScaleGroups,
    specs: Mapping[str, TensorSpec],
    samples: Samples,
    *,
    layers: Sequence[str],
    mean_samples: int,
    batch: int,
    progress: Progress,
    ends: Sequence[str] = (),
) -> Observed:
    """Compute the float network on all samples and remember what calibration needs.

    ``layers`` are those whose channels' means over the first ``mean_samples`` are wanted, ``ends``
    those whose results of these are kept; batches of ``batch`` samples have a scale each where a
    specification has a statistic of them.
    """
    computed = [name for name in groups.names if graph[name].value is None]
    watch = _Watch(graph, groups, specs)
    means = {name: SampleMeans() for name in layers}
    kept: dict[str, list[Array]] = {name: [] for name in ends}
    done = waiting = 0
    averaged = with_means(graph, layers)
    for count, results in _evaluated(
        averaged.graph, [*computed, *ends], averaged.ops.values(), samples, mean_samples, batch
    ):
        watch.add({name: results[name] for name in computed})
        if done < mean_samples:
            averaged.add_to(means, results, count)
            for name, arrays in kept.items():
                found = results[name].copy()  # else the memory of the whole session stays
                arrays.extend(np.split(found, count) if count > 1 else [found])
        del results  # so that the next ones take their room
        done, waiting = done + count, waiting + count
        progress.step("calibrating", done, samples.count)
        if waiting >= batch or done == samples.count:
            watch.end_batch()
            waiting = 0
    return watch.observed(means, kept)


def _evaluated(
    graph: Graph,
    names: Sequence[str],
    means: Collection[str],
    samples: Samples,
    mean_samples: int,
    batch: int,
) -> Iterator[tuple[int, dict[str, Array]]]:
    """Yield results of some ops, and means of layers too as long as these are wanted.

    Without these, onnxruntime computes a layer and its activation as one.
    """
    start = mean_samples if means else 0
    both = list(dict.fromkeys([*names, *means]))
    if start:
        yield from evaluate(graph, both, samples, batch=batch, stop=start)
    yield from evaluate(graph, names, samples, batch=batch, start=start)


class _Watch:
    """The observers of all tensors: of all data, and of the batch that is not over yet."""

    def __init__(self, graph: Graph, groups: ScaleGroups, specs: Mapping[str, TensorSpec]) -> None:
        self._groups, self._specs = groups, specs
        self._total = {name: Histogram(name) for name in groups.names}
        self._channels = {
            name: ChannelHistograms(graph[name].shape[-1])
            for name in groups.names
            if specs[name].granularity == "per_channel" and specs[name].number_format == "int"
        }
        self._voting = [
            group for group, members in groups.members.items()
            if statistic_of(specs[group]) != "all" and group not in self._channels
            and specs[group].number_format == "int"
            and any(graph[name].value is None for name in members)
        ]  # fmt: skip
        self._batches: dict[str, list[Quantization]] = {group: [] for group in self._voting}
        self._apart = {name for group in self._voting for name in groups.members[group]
                       if graph[name].value is None}  # fmt: skip
        self._part = {name: Histogram(name) for name in self._apart}
        for name in groups.names:
            value = graph[name].value
            if value is not None:
                self._add(name, value)

    def add(self, results: Mapping[str, Array]) -> None:
        """Look at some samples."""
        for name, array in results.items():
            self._add(name, array)

    def end_batch(self) -> None:
        """Let a batch vote."""
        histograms = {**self._total, **self._part}
        for group in self._voting:
            found = scale_of(self._groups, histograms, group, self._specs[group])
            self._batches[group].append(found)
        for name in self._apart:
            self._total[name].merge(self._part[name])
        self._part = {name: Histogram(name) for name in self._apart}

    def observed(
        self, means: Mapping[str, SampleMeans], kept: Mapping[str, Sequence[Array]]
    ) -> Observed:
        """Return what was seen."""
        return Observed(self._total, self._channels, self._batches, means, kept)

    def _add(self, name: str, array: Array) -> None:
        (self._part if name in self._apart else self._total)[name].add(array)
        if name in self._channels:
            self._channels[name].add(array)
