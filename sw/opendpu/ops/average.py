# SPDX-License-Identifier: Apache-2.0
"""Factor and shift that stand for the division of average pooling."""

import math

FACTORS = {3: (7, 6), 5: (10, 8), 6: (7, 8), 7: (21, 10), 14: (21, 12)}
"""(factor, right shift) of square kernels that AMD's tools fix."""
MAX_FACTOR = 127
"""The factor is a signed byte."""


def average_factor(*, kernel_h: int, kernel_w: int) -> tuple[int, int]:
    """Return (factor, right shift) nearest to one over the pixels of a kernel.

    The smallest shift wins among equally good ones.
    """
    if kernel_h == kernel_w and kernel_h in FACTORS:
        return FACTORS[kernel_h]
    pixels = kernel_h * kernel_w
    best = (1, 0)
    error = abs(1.0 - 1 / pixels)
    for shift in range(math.ceil(math.log2(pixels * 128))):
        factor = math.floor((1 << shift) / pixels + 0.5)
        found = abs(factor / (1 << shift) - 1 / pixels)
        if 0 < factor <= MAX_FACTOR and found < error:
            best, error = (factor, shift), found
    return best
