# SPDX-License-Identifier: Apache-2.0
"""Which values of a large tensor are counted: some of every sample, evenly spread."""

import math

from opendpu.ir import Array

PER_SAMPLE = 1 << 15
"""Values of a tensor of one sample that are counted, about, where it has more than twice that."""


class Stride:
    """Takes values at equal distances that share no factor with the tensor's size.

    So every row, column and channel has its turn. Where it begins moves on from call to call.
    """

    def __init__(self) -> None:
        self._calls = 0

    def some(self, flat: Array, samples: int) -> Array:
        """Return some values of several samples, which follow each other."""
        size = flat.size // max(samples, 1)
        step = size // PER_SAMPLE
        if step <= 1:
            return flat
        while math.gcd(step, size) > 1:
            step += 1
        self._calls += 1
        return flat[self._calls % step :: step]
