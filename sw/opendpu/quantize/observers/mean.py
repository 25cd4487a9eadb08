# SPDX-License-Identifier: Apache-2.0
"""Means of channels, in one pass."""

from collections.abc import Iterable

import numpy as np

from opendpu.ir import Array

ROWS = 1024
"""Values of a channel that are added in float32, before float64 goes on."""


class Mean:
    """The mean of each channel."""

    def __init__(self) -> None:
        self._sum: Array | float = 0.0
        self._count = 0

    def add(self, array: Array) -> None:
        """Count an array; channels are its last axis."""
        channels = array.shape[-1]
        if array.ndim == 4 and array.transpose(0, 3, 1, 2).flags.c_contiguous:
            planes = array.transpose(0, 3, 1, 2).reshape(array.shape[0], channels, -1)
            self._sum = self._sum + planes.sum(axis=2).sum(axis=0, dtype=np.float64)
        else:
            rows = array.reshape(-1, channels)
            whole = len(rows) // ROWS * ROWS
            parts = rows[:whole].reshape(-1, ROWS, channels).sum(axis=1)
            rest = rows[whole:].sum(axis=0, dtype=np.float64)
            self._sum = self._sum + parts.sum(axis=0, dtype=np.float64) + rest
        self._count += array.size // channels

    def merge(self, other: "Mean") -> None:
        """Count what another observer has seen too."""
        self._sum, self._count = self._sum + other._sum, self._count + other._count

    @property
    def value(self) -> Array:
        """The means, float64."""
        return np.asarray(self._sum / max(self._count, 1))


class SampleMeans:
    """The mean of each channel over any of the samples."""

    def __init__(self) -> None:
        self._sums: list[Array] = []
        self._rows: list[int] = []

    def add(self, array: Array, count: int, pixels: int = 1) -> None:
        """Count an array of ``count`` samples, along its first axis; channels are its last one.

        Each value may be the mean of so many ``pixels``.
        """
        channels = array.shape[-1]
        planes = array.transpose(0, 3, 1, 2) if array.ndim == 4 else array
        if array.ndim == 4 and len(array) == count and planes.flags.c_contiguous:
            sums = planes.reshape(count, channels, -1).sum(axis=2).astype(np.float64)
        else:
            sums = array.reshape(count, -1, channels).sum(axis=1, dtype=np.float64)
        self._sums.extend(sums * pixels)
        self._rows.extend([array.size * pixels // max(1, channels * count)] * count)

    def __len__(self) -> int:
        """Return how many samples were counted."""
        return len(self._sums)

    def over(self, numbers: Iterable[int]) -> Array:
        """Return the means over some samples, float64."""
        chosen = list(numbers)
        rows = sum(self._rows[number] for number in chosen)
        total = np.sum([self._sums[number] for number in chosen], axis=0)
        return np.asarray(total / max(rows, 1))
