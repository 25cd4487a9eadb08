# SPDX-License-Identifier: Apache-2.0
"""Convolutions: layers of the CONV engine, depthwise ones of the misc engine."""

from typing import Any

import numpy as np

from opendpu.compiler.fixed import point_of
from opendpu.compiler.lower.context import Context
from opendpu.compiler.lower.grouped import block, channels_of, pack
from opendpu.compiler.lower.registry import lowers
from opendpu.compiler.lower.window import spread, window_of
from opendpu.compiler.plan import AluLayer, ConvLayer, Int8Array
from opendpu.ir import Node
from opendpu_arch.isa import ActType, AluMode

ACTIVATIONS = {
    "NONE": ActType.NONE, "RELU": ActType.RELU, "RELU6": ActType.RELU6,
    "LEAKYRELU": ActType.LEAKYRELU,
}  # fmt: skip


@lowers("conv2d-fix")
def conv(context: Context, node: Node) -> None:
    """Add a layer of the CONV engine, or several if there are groups."""
    weights = spread(context.constant(node, "weights"), node)
    group, window = int(node.attrs.get("group") or 1), window_of(node)
    if group == 1:
        fields = layer_fields(context, node, node.name)
        context.layers.append(ConvLayer(**fields, window=window, weights=weights))
        return
    source, output = node.inputs["input"][0], context.features[node.name]
    size = pack(context.features[source], output, weights, group, context.target)
    for first in range(0, group, size):
        fields = layer_fields(context, node, node.name)
        if size < group:
            name = f"{node.name}/{first}"
            low, high = (n * output.channels // group for n in (first, first + size))
            channels = context.features[source].channels // group
            channels_of(context, source, f"{name}/input", first * channels, size * channels)
            channels_of(context, node.name, name, low, high - low)
            fields |= {"name": name, "source": f"{name}/input", "output": name}
            fields["bias"] = fields["bias"][low:high]
        context.layers.append(
            ConvLayer(**fields, window=window, weights=block(weights, group, first, size))
        )


@lowers("depthwise-conv2d-fix")
def depthwise(context: Context, node: Node) -> None:
    """Add a layer of the misc engine."""
    weights = spread(context.constant(node, "weights"), node)[0]
    fields = layer_fields(context, node, node.name)
    window = window_of(node)
    context.layers.append(AluLayer(**fields, window=window, mode=AluMode.DWCV, weights=weights))


def layer_fields(context: Context, node: Node, name: str) -> dict[str, Any]:
    """Return what layers of both engines have, for the feature map ``name`` as result."""
    cut, bias = _shifts(context, node)
    return {
        "name": name, "source": node.inputs["input"][0], "output": name,
        "bias": _bias(context, node), "shift_cut": cut, "shift_bias": bias,
        "act_type": ACTIVATIONS[node.attrs["nonlinear"]],
    }  # fmt: skip


def _shifts(context: Context, node: Node) -> tuple[int, int]:
    """Return the shifts of sum and bias."""
    draft = context.draft
    product = sum(point_of(draft[node.inputs[arg][0]]) for arg in ("input", "weights"))
    bias = node.inputs.get("bias")
    shift_bias = product - point_of(draft[bias[0]]) + 1 if bias else 0
    return product - point_of(node), shift_bias


def _bias(context: Context, node: Node) -> Int8Array:
    if node.inputs.get("bias"):
        return context.constant(node, "bias").reshape(-1)
    return np.zeros(node.shape[-1], dtype=np.int8)
