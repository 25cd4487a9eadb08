# SPDX-License-Identifier: Apache-2.0
"""Activations that an op's engine applies before the only rounding."""

from opendpu.ir import Node

ACTIVATIONS = {"relu": "RELU", "relu6": "RELU6", "leaky-relu": "LEAKYRELU"}
FUSED = {
    "conv2d": ("relu", "relu6", "leaky-relu"),
    "inner-product": ("relu", "relu6", "leaky-relu"),
    "depthwise-conv2d": ("relu", "relu6"),
    "add": ("relu",),
}
"""Activations behind each kind of op that become part of it."""
RELU6_POINT = 4
"""Fractional bits at which the engine's bound 96 is six."""


def nonlinear(activation: Node | None, point: int) -> str | None:
    """Return the ``nonlinear`` attribute, or none if the engine has no such activation."""
    if activation is None:
        return "NONE"
    if activation.kind == "relu6" and point != RELU6_POINT:
        # Above, saturation at 127 comes before six; below, the engine's bound is wrong.
        return "RELU" if point > RELU6_POINT else None
    if activation.kind == "leaky-relu" and abs(activation.attrs["alpha"] - 26 / 256) > 1e-6:
        return None
    return ACTIVATIONS[activation.kind]
