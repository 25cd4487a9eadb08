# SPDX-License-Identifier: Apache-2.0
"""Means of channels, in one pass."""

import numpy as np

from opendpu.ir import Array


class Mean:
    """The mean of each channel."""

    def __init__(self) -> None:
        self._sum: Array | float = 0.0
        self._count = 0

    def add(self, array: Array) -> None:
        """Count an array; channels are its last axis."""
        axes = tuple(range(array.ndim - 1))
        self._sum = self._sum + array.sum(axis=axes, dtype=np.float64)
        self._count += array.size // array.shape[-1]

    @property
    def value(self) -> Array:
        """The means, float64."""
        return np.asarray(self._sum / max(self._count, 1))
