# SPDX-License-Identifier: Apache-2.0
"""Convolutions: layers of the CONV engine, depthwise ones of the misc engine."""

import numpy as np

from opendpu.compiler.fixed import point_of
from opendpu.compiler.lower.context import Context
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
    """Add a layer of the CONV engine."""
    cut, bias = _shifts(context, node)
    context.layers.append(
        ConvLayer(
            name=node.name, source=node.inputs["input"][0], output=node.name,
            window=window_of(node), weights=spread(context.constant(node, "weights"), node),
            bias=_bias(context, node), shift_cut=cut, shift_bias=bias,
            act_type=ACTIVATIONS[node.attrs["nonlinear"]],
        )
    )  # fmt: skip


@lowers("depthwise-conv2d-fix")
def depthwise(context: Context, node: Node) -> None:
    """Add a layer of the misc engine."""
    cut, bias = _shifts(context, node)
    context.layers.append(
        AluLayer(
            name=node.name, source=node.inputs["input"][0], output=node.name,
            window=window_of(node), mode=AluMode.DWCV,
            weights=spread(context.constant(node, "weights"), node)[0],
            bias=_bias(context, node), shift_cut=cut, shift_bias=bias,
            act_type=ACTIVATIONS[node.attrs["nonlinear"]],
        )
    )  # fmt: skip


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
