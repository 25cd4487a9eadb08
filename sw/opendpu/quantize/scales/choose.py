# SPDX-License-Identifier: Apache-2.0
"""Scales of activations, from what the observers saw."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from opendpu.ir import Quantization
from opendpu.quantize.observers.channels import ChannelHistograms
from opendpu.quantize.observers.histogram import Histogram, joined
from opendpu.quantize.observers.observed import Observed
from opendpu.quantize.observers.ranges import MovingAverage
from opendpu.quantize.placement.groups import ScaleGroups
from opendpu.quantize.scales.grid import CANDIDATES, no_overflow
from opendpu.quantize.scales.search import Rows, search
from opendpu.quantize.scales.template import has_fix_point, template_of
from opendpu.quantize.tensor_spec import TensorSpec

COARSE = 4
"""Bits by which the bins of a histogram are joined for scales of any size, up to 8 bits wide."""

_RANGES = ("max", "nonoverflow")
_ERRORS = ("minmse", "mse", "diffs")


def statistic_of(spec: TensorSpec) -> str:
    """Return what becomes of the scales of batches; method ``diffs`` takes the commonest."""
    return "modal" if spec.method == "diffs" and spec.statistic == "all" else spec.statistic


def choose_scales(
    groups: ScaleGroups, observed: Observed, specs: Mapping[str, TensorSpec]
) -> dict[str, Quantization]:
    """Return the quantization of every quantized result.

    Tensors of a group are judged together. Fix points are not below the bounds of the group.
    """
    chosen: dict[str, Quantization] = {}
    for group, members in groups.members.items():
        spec = specs[members[0]]
        if group in observed.channels:
            found = _of_channels(observed.channels[group], spec)
        elif observed.batches.get(group):
            found = combined(observed.batches[group], spec)
            found = _bounded(groups, observed.histograms, group, spec, found)
        else:
            found = scale_of(groups, observed.histograms, group, spec)
        chosen |= dict.fromkeys(members, found)
    return chosen


def scale_of(
    groups: ScaleGroups, histograms: Mapping[str, Histogram], group: str, spec: TensorSpec
) -> Quantization:
    """Return the quantization of a group, by the method of its specification."""
    template = template_of(spec)
    if spec.number_format != "int":
        return template
    if has_fix_point(spec) and spec.method in _RANGES:
        return template.at(first_candidate(groups, histograms, group, template))
    if has_fix_point(spec) and spec.method in _ERRORS:
        errors = candidate_errors(groups, histograms, group, template)
        return template.at(min(errors, key=lambda point: errors[point]))
    found = search(_rows(joined([histograms[n] for n in groups.deciding[group]]), spec), spec,
                   template)  # fmt: skip
    return _bounded(groups, histograms, group, spec, found)


def combined(batches: Sequence[Quantization], spec: TensorSpec) -> Quantization:
    """Return one quantization for those of several batches.

    ``modal`` takes the commonest, of several equally common ones the one that saturates least;
    the others combine the ends of the ranges, and powers of two take the nearest one.
    """
    statistic = statistic_of(spec)
    if statistic == "modal":
        counts = Counter(batches)
        return max(counts, key=lambda found: (counts[found], found.scale))
    least, most = batches[0].limits
    scale = np.array([found.scale[0] for found in batches])
    zero = np.array([found.zero_point[0] for found in batches])
    low, high = (_combined((limit - zero) * scale, statistic) for limit in (least, most))
    made = (high - low) / (most - least)
    made = 2.0 ** round(np.log2(made)) if spec.scale == "power_of_two" else float(np.float32(made))
    point = 0 if spec.symmetric else int(np.clip(np.rint(least - low / made), least, most))
    return dataclasses.replace(batches[0], scale=(made,), zero_point=(point,))


def first_candidate(
    groups: ScaleGroups,
    histograms: Mapping[str, Histogram],
    group: str,
    template: Quantization,
) -> int:
    """Return the largest fix point at which nothing of a group saturates, or its lower bound."""
    start = min(no_overflow(histograms[name].largest, template) for name in groups.deciding[group])
    return max(start, groups.lower_bounds.get(group, start))


def candidate_errors(
    groups: ScaleGroups,
    histograms: Mapping[str, Histogram],
    group: str,
    template: Quantization,
) -> dict[int, float]:
    """Return the squared error of a group by fix point."""
    start = first_candidate(groups, histograms, group, template)
    return {
        point: sum(
            histograms[name].squared_error(template.at(point)) for name in groups.deciding[group]
        )
        for point in range(start, start + CANDIDATES)
    }


def _bounded(
    groups: ScaleGroups,
    histograms: Mapping[str, Histogram],
    group: str,
    spec: TensorSpec,
    found: Quantization,
) -> Quantization:
    """Return a fix point that is a candidate of all data, where there is one."""
    if not has_fix_point(spec):
        return found
    start = first_candidate(groups, histograms, group, found)
    return found.at(min(max(found.fix_point, start), start + CANDIDATES - 1))


def _rows(histogram: Histogram, spec: TensorSpec) -> Rows:
    middles, counts = (histogram.coarser(COARSE) if spec.bits <= 8 else histogram).values()
    return Rows(middles[None], counts[None], np.array([histogram.low]), np.array([histogram.high]))


def _of_channels(seen: ChannelHistograms, spec: TensorSpec) -> Quantization:
    """Return a quantization with a scale for each index of the last axis."""
    low, high = seen.range.low, seen.range.high
    assert low is not None and high is not None
    values = np.broadcast_to(seen.middles(), seen.counts.shape)
    found = search(
        Rows(values, seen.counts, low.astype(np.float64), high.astype(np.float64)),
        spec, template_of(spec),
    )  # fmt: skip
    return dataclasses.replace(found, axis=-1)


def _combined(values: np.ndarray, statistic: str) -> float:
    if statistic == "max":
        return float(values[np.argmax(np.abs(values))])
    if statistic == "median":
        return float(np.median(values))
    if statistic == "moving_average":
        average = MovingAverage()
        for value in values:
            average.add(float(value))
        return average.value
    return float(values.mean())
