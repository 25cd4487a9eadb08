# SPDX-License-Identifier: Apache-2.0
"""A histogram for each channel of a tensor, for scales per channel."""

import numpy as np
import numpy.typing as npt

from opendpu.ir import Array
from opendpu.quantize.observers.ranges import MinMax
from opendpu.quantize.scales.grid import FIX_POINTS, no_overflow_at_all

FINER = 3
"""Fractional bits beyond those at which nothing saturates with 8 bits."""

HALF = 1 << (7 + FINER)
"""Bins on either side of zero."""


class ChannelHistograms:
    """How often values occur in each index of the last axis, in bins that all have in common."""

    def __init__(self, channels: int) -> None:
        self.range = MinMax(channels=True)
        self.point = FIX_POINTS[-1] + FINER
        self.counts: npt.NDArray[np.int64] = np.zeros((channels, 2 * HALF + 1), np.int64)

    def add(self, array: Array) -> None:
        """Count the values of an array."""
        if not array.size:
            return
        self.range.add(array)
        self._coarsen(no_overflow_at_all(float(np.abs(array).max())) + FINER)
        channels, bins = self.counts.shape
        places = np.clip(np.rint(array * np.float32(2.0**self.point)), -HALF, HALF) + HALF
        rows = places.reshape(-1, channels).astype(np.int64) + np.arange(channels) * bins
        self.counts += np.bincount(rows.ravel(), minlength=self.counts.size).reshape(channels, bins)

    def merge(self, other: "ChannelHistograms") -> None:
        """Count what another observer has seen too."""
        self.range.merge(other.range)
        self._coarsen(other.point)
        counts = _joined(other.counts, self.point - other.point)
        self.counts = self.counts + counts

    def middles(self) -> Array:
        """Return what the bins stand for, float64."""
        return np.arange(-HALF, HALF + 1) * 2.0**-self.point

    def _coarsen(self, point: int) -> None:
        if point < self.point:
            self.counts, self.point = _joined(self.counts, point - self.point), point


def _joined(counts: npt.NDArray[np.int64], shift: int) -> npt.NDArray[np.int64]:
    """Return counts in bins that are ``2**-shift`` times as wide; half a bin goes to the even."""
    if not shift:
        return counts
    steps = np.rint(np.arange(-HALF, HALF + 1) * 2.0**shift).astype(np.int64) + HALF
    starts = np.flatnonzero(np.diff(steps, prepend=-1))
    made = np.zeros_like(counts)
    made[:, steps[starts]] = np.add.reduceat(counts, starts, axis=1)
    return made
