# SPDX-License-Identifier: Apache-2.0
"""Power-of-two scales: the DPU's integers, and the fix points that values can have."""

import math

import numpy as np

from opendpu.ir import Array, Quantization
from opendpu.ops.formats import fake_quantize

GRID = Quantization.power_of_two(0)
"""Bits and rounding of every tensor that is quantized; ``GRID.at(fix_point)`` has its scale."""

FIX_POINTS = range(-48, 49)
"""Fix points that are considered at all."""

CANDIDATES = 6
"""Fix points that are tried: from the largest without overflow to more, with saturation."""

MOST_ELEMENTS = 1 << 22
"""Elements of a constant that an error is measured on at most, spread evenly."""

OF_ZEROS = 7
"""Fix point of a tensor that is zero everywhere: from -1 to almost 1."""


def rounded(array: Array, fix_point: int, template: Quantization = GRID) -> Array:
    """Return float32 numbers as they are after ``fix``: rounded, saturated, real numbers."""
    return fake_quantize(array, template.at(fix_point))


def no_overflow(largest: float, template: Quantization = GRID) -> int:
    """Return the largest fix point at which a magnitude of ``largest`` does not saturate."""
    return max(no_overflow_at_all(largest, template), FIX_POINTS[0])


def no_overflow_at_all(largest: float, template: Quantization = GRID) -> int:
    """Return the same, however coarse it is: no tensor gets it, but values can be counted so."""
    if largest <= 0:
        return OF_ZEROS
    return min(math.floor(math.log2((template.limits[1] + 0.5) / largest)), FIX_POINTS[-1])


def squared_error(array: Array, fix_point: int, template: Quantization = GRID) -> float:
    """Return the sum of squared differences that rounding makes, inf if it is huge."""
    difference = (array - rounded(array, fix_point, template)).ravel()
    with np.errstate(over="ignore"):
        return float(np.dot(difference, difference))


def best_fix_point(array: Array, *, method: str = "minmse", template: Quantization = GRID) -> int:
    """Return the fix point of a constant: with the least squared error, or ``nonoverflow``."""
    start = no_overflow(float(np.abs(array).max(initial=0.0)), template)
    if method in ("nonoverflow", "max"):
        return start
    some = thinned(array)
    candidates = range(start, start + CANDIDATES)
    return min(candidates, key=lambda point: squared_error(some, point, template))


def thinned(array: Array) -> Array:
    """Return at most ``MOST_ELEMENTS`` elements of an array, at equal distances."""
    step = -(-array.size // MOST_ELEMENTS)
    return array if step <= 1 else array.ravel()[::step]
