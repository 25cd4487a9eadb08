# SPDX-License-Identifier: Apache-2.0
"""Activations that an op's engine applies before the only rounding."""

import math

from opendpu.compiler.legalize.refusal import Refusal
from opendpu.ir import Node

ACTIVATIONS = {"relu": "RELU", "relu6": "RELU6", "leaky-relu": "LEAKYRELU"}
RELU6_POINT = 4
"""Fractional bits at which the engine's bound 96 is six."""
LEAKY_SLOPE = 26 / 256
"""The slope that the engines of layers have."""


def is_leaky_slope(alpha: float) -> bool:
    """Tell whether a slope is the one of the engines, as float32 may hold it."""
    return math.isclose(alpha, LEAKY_SLOPE, abs_tol=1e-6)


def nonlinear(activation: Node | None, point: int) -> str:
    """Return the ``nonlinear`` attribute; Refusal if the engine has no such activation."""
    if activation is None:
        return "NONE"
    if activation.kind == "relu6" and point != RELU6_POINT:
        # Above, saturation at 127 comes before six; below, the engine's bound is wrong.
        if point > RELU6_POINT:
            return "RELU"
        raise Refusal(
            f'DPU only supports relu6 with a result of "fix_point"({point}) at least '
            f"{RELU6_POINT}; more fractional bits there would lift it",
            "XCOM_UNSUPPORT_QUANTIZATION",
        )
    if activation.kind == "leaky-relu" and not is_leaky_slope(activation.attrs["alpha"]):
        raise Refusal(
            f'DPU only supports "alpha"({activation.attrs["alpha"]:g}) {LEAKY_SLOPE:g} (26/256) '
            "in the leaky-relu of a layer; a fix op between them would lift it",
            "XCOM_UNSUPPORT_NONLINEAR_TYPE",
        )
    return ACTIVATIONS[activation.kind]
