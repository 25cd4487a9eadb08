# SPDX-License-Identifier: Apache-2.0
"""A histogram of a tensor, in one pass, batch by batch, in room that does not grow."""

import functools
import math

import numpy as np
import numpy.typing as npt

from opendpu.ir import Array
from opendpu.quantize.scales.grid import FIX_POINTS, GRID, no_overflow
from opendpu_arch.errors import TensorError

FINER = 8
"""Fractional bits of the histogram beyond those at which nothing saturates: three more than the
finest candidate has."""

HALF = (GRID.limits[1] + 1) << FINER
"""Bins on either side of zero."""

BLOCK = 1 << 18
"""Values that are counted at a time, so that they stay in the cache."""


class Histogram:
    """How often values occur: bins whose width is a power of two, which doubles as data needs.

    Bin ``n`` stands for ``(n - HALF) * 2**-point``, so that zero and everything on a grid that is
    coarse enough is counted exactly.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.largest = 0.0
        self.point = FIX_POINTS[-1] + FINER
        self.counts: npt.NDArray[np.int64] = np.zeros(2 * HALF + 1, np.int64)

    def add(self, array: Array) -> None:
        """Count the values of an array.

        Raises
        ------
        TensorError
            A value is not finite.
        """
        if not array.size:
            return
        low, high = float(array.min()), float(array.max())
        if not math.isfinite(low) or not math.isfinite(high):
            raise TensorError(
                f"op {self.name!r} of the float network gives values that are not finite for the "
                "calibration data"
            )
        self._widen(max(-low, high, 0.0))
        flat = array.ravel(order="K")
        for start in range(0, flat.size, BLOCK):
            scaled = np.multiply(flat[start : start + BLOCK], np.float32(2.0**self.point))
            np.rint(scaled, out=scaled)
            scaled += np.float32(HALF)
            np.clip(scaled, 0, 2 * HALF, out=scaled)
            self.counts += np.bincount(scaled.astype(np.int64), minlength=self.counts.size)

    def merge(self, other: "Histogram") -> None:
        """Count what another observer has seen too."""
        if not other.counts.any():
            return
        self._widen(other.largest)
        other._coarsen(self.point)
        self._coarsen(other.point)
        self.counts += other.counts

    def squared_error(self, fix_point: int) -> float:
        """Return the sum of squared differences that rounding makes."""
        errors = self.counts * _errors_of_bins(fix_point - self.point)
        error = float(errors.sum()) * 4.0**-self.point
        if fix_point > self.point:  # rounding inside a bin: evenly spread
            error += float(self.counts.sum()) * 4.0**-fix_point / 12
        return error

    def _widen(self, largest: float) -> None:
        """Make room for a magnitude."""
        if largest > self.largest:
            self.largest = largest
            self._coarsen(no_overflow(largest) + FINER)

    def _coarsen(self, point: int) -> None:
        """Join bins until they are ``2**-point`` wide; half a bin goes to the even one."""
        if point >= self.point:
            return
        (places,) = self.counts.nonzero()
        steps = np.rint((places - HALF) * 2.0 ** (point - self.point)).astype(np.int64)
        joined = np.bincount(steps + HALF, weights=self.counts[places], minlength=2 * HALF + 1)
        self.counts, self.point = joined.astype(np.int64), point


@functools.lru_cache(maxsize=64)
def _errors_of_bins(shift: int) -> Array:
    """Return the squared error of each bin, in bins, with steps ``shift`` bits finer than bins."""
    steps, ratio = np.arange(-HALF, HALF + 1, dtype=np.float64), 2.0**shift
    made = np.clip(np.floor(steps * ratio + 0.5), *GRID.limits) / ratio
    return np.asarray((steps - made) ** 2)
