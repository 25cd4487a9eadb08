# SPDX-License-Identifier: Apache-2.0
"""The grid of the DPU's tensors: eight bits and a power of two."""

import math

import numpy as np

from opendpu.ir import Array, Quantization

GRID = Quantization.power_of_two(0)
"""Bits and rounding of every tensor that is quantized; ``GRID.at(fix_point)`` has its scale."""

FIX_POINTS = range(-24, 32)
"""Fix points that are considered at all."""

CANDIDATES = 6
"""Fix points that are tried: from the largest without overflow to more, with saturation."""

MOST_ELEMENTS = 1 << 22
"""Elements of a constant that an error is measured on at most, spread evenly."""

OF_ZEROS = 7
"""Fix point of a tensor that is zero everywhere: from -1 to almost 1."""


def rounded(array: Array, fix_point: int) -> Array:
    """Return float32 numbers as they are after ``fix``: rounded, saturated, real numbers."""
    low, high = GRID.limits
    made = np.multiply(array, np.float32(2.0**fix_point), dtype=np.float32)
    made += np.float32(0.5)
    np.floor(made, out=made)
    np.clip(made, low, high, out=made)
    made *= np.float32(2.0**-fix_point)
    return made


def no_overflow(largest: float) -> int:
    """Return the largest fix point at which a magnitude of ``largest`` does not saturate."""
    if largest <= 0:
        return OF_ZEROS
    found = math.floor(math.log2((GRID.limits[1] + 0.5) / largest))
    return min(max(found, FIX_POINTS[0]), FIX_POINTS[-1])


def squared_error(array: Array, fix_point: int) -> float:
    """Return the sum of squared differences that rounding makes, inf if it is huge."""
    difference = (array - rounded(array, fix_point)).ravel()
    with np.errstate(over="ignore"):
        return float(np.dot(difference, difference))


def best_fix_point(array: Array, *, method: str = "minmse") -> int:
    """Return the fix point of a constant: with the least squared error, or ``nonoverflow``."""
    start = no_overflow(float(np.abs(array).max(initial=0.0)))
    if method == "nonoverflow":
        return start
    some = thinned(array)
    return min(range(start, start + CANDIDATES), key=lambda point: squared_error(some, point))


def thinned(array: Array) -> Array:
    """Return at most ``MOST_ELEMENTS`` elements of an array, at equal distances."""
    step = -(-array.size // MOST_ELEMENTS)
    return array if step <= 1 else array.ravel()[::step]
