# SPDX-License-Identifier: Apache-2.0
"""Ranges of values in one pass: smallest and largest, and their moving average over batches."""

import dataclasses

import numpy as np

from opendpu.ir import Array

AVERAGING = 0.01
"""Weight of a new batch in a moving average, as onnxruntime's calibrator has it."""


@dataclasses.dataclass
class MinMax:
    """The smallest and the largest value, of each index of the last axis if ``channels``."""

    channels: bool = False
    low: Array | None = None
    high: Array | None = None

    def add(self, array: Array) -> None:
        """Look at an array."""
        if not array.size:
            return
        axes = tuple(range(array.ndim - 1)) if self.channels else None
        self._join(np.asarray(array.min(axis=axes)), np.asarray(array.max(axis=axes)))

    def merge(self, other: "MinMax") -> None:
        """Look at what another observer has seen too."""
        if other.low is not None and other.high is not None:
            self._join(other.low, other.high)

    def _join(self, low: Array, high: Array) -> None:
        self.low = low if self.low is None else np.minimum(self.low, low)
        self.high = high if self.high is None else np.maximum(self.high, high)


@dataclasses.dataclass
class MovingAverage:
    """A number a batch, averaged with exponentially falling weights; the first one starts it.

    ``average = (1 - weight) * average + weight * new``. Observers of consecutive batches merge in
    their order: what a second one does to any start is ``keep * start + rest``.
    """

    weight: float = AVERAGING
    first: float | None = None
    keep: float = 1.0
    rest: float = 0.0

    def add(self, value: float) -> None:
        """Take the number of the next batch."""
        if self.first is None:
            self.first = value
        else:
            self._then(1 - self.weight, self.weight * value)

    def merge(self, after: "MovingAverage") -> None:
        """Take what an observer of the batches behind these has seen."""
        if after.first is None:
            return
        self.add(after.first)
        self._then(after.keep, after.rest)

    @property
    def value(self) -> float:
        """The average; 0 of nothing."""
        return 0.0 if self.first is None else self.keep * self.first + self.rest

    def _then(self, keep: float, rest: float) -> None:
        self.keep, self.rest = self.keep * keep, self.rest * keep + rest
