# SPDX-License-Identifier: Apache-2.0
"""A histogram of a tensor, in one pass, batch by batch, in room that does not grow."""

import copy
import functools
import math

import numpy as np
import numpy.typing as npt

from opendpu.ir import Array, Quantization
from opendpu.ops.formats import fake_quantize
from opendpu.quantize.observers.sampling import Stride
from opendpu.quantize.scales.grid import FIX_POINTS, no_overflow_at_all
from opendpu_arch.errors import TensorError

FINER = 8
"""Fractional bits of the histogram beyond those at which nothing saturates with 8 bits: three more
than the finest candidate has."""

HALF = 1 << (7 + FINER)
"""Bins on either side of zero."""

BLOCK = 1 << 18
"""Values that are counted at a time, so that they stay in the cache."""


class Histogram:
    """How often values occur: bins whose width is a power of two, which doubles as data needs.

    Bin ``n`` stands for ``(n - HALF) * 2**-point``, so that zero and everything on a grid that is
    coarse enough is counted exactly. The range is that of all values; of large tensors, some values
    of each sample are counted (:class:`~opendpu.quantize.observers.sampling.Stride`).
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.low = 0.0
        self.high = 0.0
        self.point = FIX_POINTS[-1] + FINER
        self.counts: npt.NDArray[np.int64] = np.zeros(2 * HALF + 1, np.int64)
        self._stride = Stride()

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        return max(-self.low, self.high)

    @property
    def total(self) -> int:
        """How many values were counted."""
        return int(self.counts.sum())

    def add(self, array: Array) -> None:
        """Count the values of an array, whose first axis is that of samples.

        Raises
        ------
        TensorError
            A value is not finite.
        """
        if not array.size:
            return
        flat = array.ravel(order="K")
        low, high = float(flat.min()), float(flat.max())
        if not math.isfinite(low) or not math.isfinite(high):
            raise TensorError(
                f"op {self.name!r} of the float network gives values that are not finite for the "
                "calibration data"
            )
        self._widen(low, high)
        flat = self._stride.some(flat, array.shape[0] if array.ndim else 1)
        for start in range(0, flat.size, BLOCK):
            scaled = np.multiply(flat[start : start + BLOCK], np.float32(2.0**self.point))
            np.rint(scaled, out=scaled)
            scaled += np.float32(HALF)
            np.clip(scaled, 0, 2 * HALF, out=scaled)
            first, last = int(scaled.min()), int(scaled.max())
            scaled -= np.float32(first)
            found = np.bincount(scaled.astype(np.int64), minlength=last - first + 1)
            self.counts[first : last + 1] += found

    def merge(self, other: "Histogram") -> None:
        """Count what another observer has seen too."""
        if not other.total:
            return
        other = copy.copy(other)
        self._widen(other.low, other.high)
        other._coarsen(self.point)
        self._coarsen(other.point)
        self.counts = self.counts + other.counts

    def values(self) -> tuple[Array, Array]:
        """Return the middles of bins, float64, and how many values are in each; none is empty."""
        (places,) = self.counts.nonzero()
        return (places - HALF) * 2.0**-self.point, self.counts[places]

    def coarser(self, bits: int) -> "Histogram":
        """Return the same values in bins that are ``2**bits`` times as wide."""
        found = copy.copy(self)
        found._coarsen(self.point - bits)
        return found

    def squared_error(self, quantization: Quantization) -> float:
        """Return the sum of squared differences that a quantization makes."""
        if not quantization.is_power_of_two:
            middles, counts = self.values()
            difference = fake_quantize(middles, quantization) - middles
            return float((np.square(difference) * counts).sum())  # not dot: threads would spin
        shift = quantization.fix_point - self.point
        errors = self.counts * _errors_of_bins(shift, quantization.at(0))
        error = float(errors.sum()) * 4.0**-self.point
        if shift > 0:  # rounding inside a bin: evenly spread
            error += self.total * 4.0**-quantization.fix_point / 12
        return error

    def squares(self) -> float:
        """Return the sum of squares of what was counted."""
        middles, counts = self.values()
        return float((np.square(middles) * counts).sum())

    def saturation(self, quantization: Quantization) -> float:
        """Return the part of the values that lie outside of what the integers stand for."""
        middles, counts = self.values()
        if not counts.size:
            return 0.0
        scale, zero = quantization.scale[0], quantization.zero_point[0]
        low, high = ((limit - zero) * scale for limit in quantization.limits)
        outside = (middles < low - scale / 2) | (middles >= high + scale / 2)
        return float(counts[outside].sum() / counts.sum())

    def _widen(self, low: float, high: float) -> None:
        """Make room for values."""
        before = self.largest
        self.low, self.high = min(self.low, low), max(self.high, high)
        if self.largest > before:
            self._coarsen(no_overflow_at_all(self.largest) + FINER)

    def _coarsen(self, point: int) -> None:
        """Join bins until they are ``2**-point`` wide; half a bin goes to the even one."""
        if point >= self.point:
            return
        (places,) = self.counts.nonzero()
        steps = np.rint((places - HALF) * 2.0 ** (point - self.point)).astype(np.int64)
        joined = np.bincount(steps + HALF, weights=self.counts[places], minlength=2 * HALF + 1)
        self.counts, self.point = joined.astype(np.int64), point


def joined(histograms: list[Histogram]) -> Histogram:
    """Return the histogram of all values of several tensors."""
    if len(histograms) == 1:
        return histograms[0]
    found = copy.copy(histograms[0])
    for other in histograms[1:]:
        found.merge(other)
    return found


@functools.lru_cache(maxsize=64)
def _errors_of_bins(shift: int, unit: Quantization) -> Array:
    """Return the squared error of each bin, in bins, with steps ``shift`` bits finer than bins."""
    steps, ratio = np.arange(-HALF, HALF + 1, dtype=np.float64), 2.0**shift
    made = np.clip(np.floor(steps * ratio + 0.5), *unit.limits) / ratio
    return np.asarray((steps - made) ** 2)
