# SPDX-License-Identifier: Apache-2.0
"""Scales of any kind for rows of values: by range, percentile, least squared error or entropy.

Every method decides which range of real numbers the integers have to stand for, and saturates what
lies outside. ``T`` is the largest magnitude that is represented, of symmetric scales:

- ``max``, ``nonoverflow``: ``T = max |x|``.
- ``percentile``: the percentile of ``|x|``.
- ``mse`` (``minmse``, ``diffs``): the ``T`` out of a grid up to ``max |x|`` with the least
  ``sum (x - quantized(x))**2``.
- ``entropy``: the ``T`` whose quantized distribution differs least from that of ``|x|``, by
  Kullback and Leibler's divergence (Migacz, "8-bit Inference with TensorRT", GTC 2017). Fewer
  values than bins are no distribution; they keep their range. What is not symmetric saturates at
  ``-T`` and ``T``, where its range goes so far.
"""

import dataclasses
import math

import numpy as np

from opendpu.ir import Array, Quantization
from opendpu.ops.formats import fake_quantize
from opendpu.quantize.scales.grid import OF_ZEROS
from opendpu.quantize.tensor_spec import TensorSpec

SHRINKING = np.exp2(-np.arange(0, 6, 1 / 12))
"""Parts of the whole range that are tried for the least squared error: six octaves."""

ENTROPY_BINS = 2048
"""Bins of the distribution of magnitudes; twice the levels, if these are more."""

ENTROPY_LEVELS = 1 << 10
"""Levels that are told apart at most."""

ENTROPY_TRIALS = 128
"""Ranges that are tried."""

_ERROR_METHODS = ("minmse", "mse", "diffs")


@dataclasses.dataclass(frozen=True)
class Rows:
    """Values, a row for each scale.

    Parameters
    ----------
    values
        ``[rows, n]``, float64 or float32.
    counts
        How often each occurs, in the same shape or one row for all; none for once.
    low, high
        Range of each row, which may be wider than that of ``values``.
    """

    values: Array
    counts: Array | None
    low: Array
    high: Array

    @classmethod
    def of(cls, values: Array) -> "Rows":
        """Return values that are all there are, ``[rows, n]``."""
        low, high = values.min(axis=1, initial=0), values.max(axis=1, initial=0)
        return cls(values, None, low.astype(np.float64), high.astype(np.float64))


def search(rows: Rows, spec: TensorSpec, template: Quantization) -> Quantization:
    """Return ``template`` with the scale, and zero point, of each row."""
    low, high = np.minimum(rows.low, 0), np.maximum(rows.high, 0)
    if spec.method == "percentile":
        low, high = _percentiles(rows, spec)
    elif spec.method in _ERROR_METHODS:
        low, high = _least_error(rows, low, high, spec, template)
    elif spec.method == "entropy":
        low, high = _least_divergence(rows, low, high, spec, template)
    return ranged(low, high, spec, template)


def ranged(low: Array, high: Array, spec: TensorSpec, template: Quantization) -> Quantization:
    """Return the quantization whose integers stand for ranges, one for each scale.

    A power of two is the smallest one that is enough, as the nearest integer goes.
    """
    least, most = template.limits
    if spec.symmetric:
        span = np.maximum(high, -low) if template.signed else np.maximum(high, 0)
        scale, room = span / most, (most + 0.5) / most
    else:
        scale, room = (high - low) / (most - least), 1.0
    unused = scale <= 0
    if spec.scale == "power_of_two":
        exponent = np.ceil(np.log2(np.where(unused, 1, scale / room)) - 1e-9)
        scale = np.where(unused, 2.0**-OF_ZEROS, np.exp2(exponent))
    else:
        scale = np.where(unused, 2.0**-OF_ZEROS, scale).astype(np.float32).astype(np.float64)
        scale = np.maximum(scale, float(np.finfo(np.float32).tiny))
    zero = np.zeros(scale.shape, np.int64)
    if not spec.symmetric:
        zero = np.clip(np.rint(least - low / scale), least, most).astype(np.int64)
    return dataclasses.replace(
        template, scale=tuple(map(float, scale)), zero_point=tuple(map(int, zero))
    )


def _percentiles(rows: Rows, spec: TensorSpec) -> tuple[Array, Array]:
    """Return the range of each row without its outliers."""
    ranges = []
    for values, counts in _each(rows):
        if spec.symmetric:
            high = _quantile(np.abs(values), counts, spec.percentile / 100)
            ranges.append((-high if values.min(initial=0) < 0 else 0.0, high))
        else:
            outside = (1 - spec.percentile / 100) / 2
            low, high = (_quantile(values, counts, part) for part in (outside, 1 - outside))
            ranges.append((min(low, 0.0), max(high, 0.0)))
    low, high = np.array(ranges).T
    return low, high


def _quantile(values: Array, counts: Array | None, part: float) -> float:
    """Return the smallest value that a part of all values does not exceed."""
    if not values.size:
        return 0.0
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(np.ones(values.size) if counts is None else counts[order])
    place = int(np.searchsorted(passed, part * passed[-1] * (1 - 1e-12)))
    return float(values[order[min(place, values.size - 1)]])


def _least_error(
    rows: Rows, low: Array, high: Array, spec: TensorSpec, template: Quantization
) -> tuple[Array, Array]:
    """Return the part of each range with the least squared error."""
    best = np.full(low.shape, np.inf)
    part = np.ones(low.shape)
    single = rows.values.astype(np.float32)
    factors = np.exp2(-np.arange(6)) if spec.scale == "power_of_two" else SHRINKING
    for factor in factors:
        found = ranged(low * factor, high * factor, spec, template)
        if low.size > 1:
            found = dataclasses.replace(found, axis=0)
        difference = np.square(fake_quantize(single, found) - single, dtype=np.float64)
        if rows.counts is not None:
            difference *= rows.counts
        error = difference.sum(axis=1)
        better = error < best
        best, part = np.where(better, error, best), np.where(better, factor, part)
    return low * part, high * part


def _least_divergence(
    rows: Rows, low: Array, high: Array, spec: TensorSpec, template: Quantization
) -> tuple[Array, Array]:
    """Return the part of each range after which the distribution of magnitudes differs least."""
    levels = min(template.limits[1] + 1, ENTROPY_LEVELS)
    bins = max(ENTROPY_BINS, 2 * levels)
    largest = np.maximum(high, -low)
    if spec.scale == "power_of_two":
        sizes = [bins >> shift for shift in range(6)]
    else:
        sizes = list(range(bins, levels, -max(1, (bins - levels) // ENTROPY_TRIALS)))
    part = []
    for index, (values, counts) in enumerate(_each(rows)):
        if largest[index] <= 0 or (values.size if counts is None else counts.sum()) < bins:
            part.append(1.0)  # too few to be a distribution
            continue
        if spec.scale == "power_of_two":  # so that every trial ends where one of its scales does
            reach = 2.0 ** math.ceil(math.log2(largest[index]))
        else:
            reach = float(largest[index])
        found, _ = np.histogram(np.abs(values), bins=bins, range=(0, reach), weights=counts)
        divergences = [divergence(found, size, levels) for size in sizes]
        part.append(sizes[int(np.argmin(divergences))] / bins * reach / largest[index])
    most = template.limits[1]
    ends = (most + 0.5) / (most + 1) if spec.scale == "power_of_two" else 1.0
    factor = np.minimum(np.array(part) * ends, 1.0)
    if spec.symmetric:
        return low * factor, high * factor
    reached = largest * factor
    return np.maximum(low, -reached), np.minimum(high, reached)


def divergence(counts: Array, size: int, levels: int) -> float:
    """Return how a distribution differs from what ``levels`` of its first ``size`` bins keep.

    What lies beyond is counted in the last of these bins; a level spreads what it holds over the
    bins of its own that hold something.
    """
    kept = counts[:size].astype(np.float64)
    reference = kept.copy()
    reference[-1] += counts[size:].sum()
    level = np.arange(size) * min(levels, size) // size
    filled = reference > 0
    sums = np.bincount(level, weights=kept)
    numbers = np.bincount(level, weights=filled)
    spread = np.where(filled, (sums / np.maximum(numbers, 1))[level], 0.0)
    if not spread.sum() or not reference.sum():
        return math.inf
    p, q = reference / reference.sum(), spread / spread.sum()
    both = filled & (q > 0)
    lost = float(p[filled & ~both].sum())
    return float(np.sum(p[both] * np.log(p[both] / q[both]))) + lost * math.log(1 / 1e-9)


def _each(rows: Rows) -> list[tuple[Array, Array | None]]:
    """Return values and counts of each row."""
    counts = rows.counts
    if counts is None:
        return [(row, None) for row in rows.values]
    wide = np.broadcast_to(counts, rows.values.shape)
    return list(zip(rows.values, wide, strict=True))
