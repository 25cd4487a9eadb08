# SPDX-License-Identifier: Apache-2.0
"""Limits of ops that requantize with multipliers: the extension ``scaled``."""

import numpy as np

from opendpu.compiler.constraints.registry import constraint, inputs_of
from opendpu.compiler.fixed import LAYERS
from opendpu.ir import Graph, Node
from opendpu.ops.fixed.requantize import is_scaled
from opendpu_arch.scaled import SUM_BITS
from opendpu_arch.target import Target

QUANTIZATION = "XCOM_UNSUPPORT_QUANTIZATION"
POOL = "pool-fix"


@constraint(
    "With scales of their own (extension `scaled`), results have a scale above the product of the "
    "inputs' scales; above its mean for averages.", *LAYERS, "eltwise-fix", POOL,
    lift="a larger scale of the result", code=QUANTIZATION, scales=True,
)  # fmt: skip
def multiplier_below_one(node: Node, graph: Graph, target: Target) -> str | None:
    """Products are shifted right only; an ELEW of one input shifts that before."""
    if not is_scaled(node) or (node.kind == "eltwise-fix" and len(node.inputs["input"]) == 1):
        return None
    most = max(node.attrs["shift"], default=0)
    if most <= 0:
        return None
    return (
        f"DPU only supports factors below 1 between scales, but here one is 2**{most - 1} or more"
    )


@constraint(
    "With scales of their own, weights of transposed depthwise layers, and of depthwise ones and "
    "groups with dilated columns, have a zero point with which they fit into 8 bits.", *LAYERS,
    lift="weights that are quantized symmetrically", code=QUANTIZATION, scales=True,
)  # fmt: skip
def symmetric_weights(node: Node, graph: Graph, target: Target) -> str | None:
    """The array multiplies bytes; legalization has taken zero points off where it can."""
    if not is_scaled(node):
        return None
    for weights in inputs_of(node, graph, "weights"):
        if any(weights.quantization.zero_point):
            return (
                "DPU only supports weights with zero point 0, but they have "
                f"{weights.quantization.zero_point[0]}"
            )
    return None


@constraint(
    f"With scales of their own, sums and biases have at most {SUM_BITS} bits.", *LAYERS,
    lift="fewer input channels or smaller biases", code=QUANTIZATION, scales=True,
)  # fmt: skip
def sums_fit(node: Node, graph: Graph, target: Target) -> str | None:
    """The requantizer takes no more; channels without weights do not count."""
    if not is_scaled(node):
        return None
    (weights,) = inputs_of(node, graph, "weights")
    if weights.value is None:
        return None
    (source,) = inputs_of(node, graph)
    low, high = (limit - source.quantization.zero_point[0] for limit in source.quantization.limits)
    axis = weights.value.ndim - 1 if "depthwise" in node.kind else 0
    others = tuple(a for a in range(weights.value.ndim) if a != axis)
    magnitude = np.abs(weights.value.astype(np.int64)).sum(axis=others)
    largest = magnitude * max(abs(low), abs(high))
    for bias in inputs_of(node, graph, "bias"):
        assert bias.value is not None
        largest = largest + np.abs(bias.value.astype(np.int64)).ravel()
    most = int(largest[magnitude > 0].max(initial=0))
    if most < 1 << (SUM_BITS - 1):
        return None
    return f"DPU only supports sums below 2**{SUM_BITS - 1}, but here one may be {most}"
