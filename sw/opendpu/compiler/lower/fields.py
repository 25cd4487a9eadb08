# SPDX-License-Identifier: Apache-2.0
"""What layers with weights have, on either engine."""

from typing import Any

import numpy as np

from opendpu.compiler.fixed import point_of
from opendpu.compiler.layers import Int8Array
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.scaled import layer_channels, requantization
from opendpu.ir import Node
from opendpu.ops.fixed.requantize import is_scaled
from opendpu_arch.isa import ActType

ACTIVATIONS = {
    "NONE": ActType.NONE, "RELU": ActType.RELU, "RELU6": ActType.RELU6,
    "LEAKYRELU": ActType.LEAKYRELU,
}  # fmt: skip


def layer_fields(context: LoweringContext, node: Node, name: str) -> dict[str, Any]:
    """Return what layers of both engines have, for the feature map ``name`` as result."""
    if is_scaled(node):
        return {
            "name": name, "source": node.inputs["input"][0], "output": name,
            "bias": layer_channels(context, node), "shift_cut": 0, "shift_bias": 0,
            "requantization": requantization(context, node),
        }  # fmt: skip
    cut, bias = _shifts(context, node)
    return {
        "name": name, "source": node.inputs["input"][0], "output": name,
        "bias": _bias(context, node), "shift_cut": cut, "shift_bias": bias,
        "act_type": ACTIVATIONS[node.attrs["nonlinear"]],
    }  # fmt: skip


def _shifts(context: LoweringContext, node: Node) -> tuple[int, int]:
    """Return the shifts of sum and bias."""
    graph = context.graph
    product = sum(point_of(graph[node.inputs[arg][0]]) for arg in ("input", "weights"))
    bias = node.inputs.get("bias")
    shift_bias = product - point_of(graph[bias[0]]) + 1 if bias else 0
    return product - point_of(node), shift_bias


def _bias(context: LoweringContext, node: Node) -> Int8Array:
    if node.inputs.get("bias"):
        return context.constant(node, "bias").reshape(-1)
    return np.zeros(node.shape[-1], dtype=np.int8)
