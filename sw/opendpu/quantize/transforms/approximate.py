# SPDX-License-Identifier: Apache-2.0
"""Activations replaced by the ones that the DPU has."""

import math

from opendpu.ir import Graph
from opendpu.quantize.scales.grid import GRID
from opendpu_arch.target import Target

LEAKY_SLOPE = 26 / 256
"""The slope of LeakyReLU that the DPU applies together with a convolution."""

DEPTHWISE = ("depthwise-conv2d", "transposed-depthwise-conv2d")
TOLERANCE = 0.005
"""How far a slope may be from it to be replaced."""

SLOPE_BITS = GRID.bits - 1
"""Significant bits of a slope that the DPU applies on its own."""
MAX_SHIFT = 31
"""Fractional bits of such a slope."""


def approximate(graph: Graph, target: Target | None = None) -> None:
    """Give every LeakyReLU a slope that the DPU has, in place.

    Those near 0.1 get 26/256, unless they are behind a depthwise convolution to which most targets
    cannot apply them; others the nearest product of 7 bits and a power of two, at most 1/128 of the
    slope away.
    """
    everywhere = target is not None and target.alu_leaky_relu
    for node in graph:
        if node.kind != "leaky-relu":
            continue
        alpha = float(node.attrs["alpha"])
        before = graph[node.inputs["input"][0]].kind
        together = everywhere or before not in DEPTHWISE
        near = together and abs(alpha - LEAKY_SLOPE) <= TOLERANCE
        node.attrs["alpha"] = LEAKY_SLOPE if near else nearest_slope(alpha)


def nearest_slope(alpha: float) -> float:
    """Return the number nearest to ``alpha`` that is 7 bits times a power of two."""
    if not alpha:
        return 0.0
    shift = min(SLOPE_BITS - math.frexp(alpha)[1], MAX_SHIFT)
    if shift < 0:
        return alpha
    low, high = GRID.limits
    factor = max(low, min(high, round(alpha * 2**shift)))
    return float(factor / 2**shift)
