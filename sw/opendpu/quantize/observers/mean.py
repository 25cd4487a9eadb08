# SPDX-License-Identifier: Apache-2.0
"""Means of channels, in one pass."""

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
