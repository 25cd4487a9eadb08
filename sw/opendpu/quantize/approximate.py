# SPDX-License-Identifier: Apache-2.0
"""Activations replaced by the ones that the DPU has."""

from opendpu.ir import Draft

LEAKY_SLOPE = 26 / 256
"""The only slope of LeakyReLU on the DPU."""

TOLERANCE = 0.005
"""How far a slope may be from it to be replaced."""


def approximate(draft: Draft) -> None:
    """Give every LeakyReLU with a slope near 0.1 the slope 26/256 of the DPU, in place."""
    for node in draft:
        if node.kind == "leaky-relu" and abs(node.attrs["alpha"] - LEAKY_SLOPE) <= TOLERANCE:
            node.attrs["alpha"] = LEAKY_SLOPE
