# SPDX-License-Identifier: Apache-2.0
"""Channels in another order: other weights of the convolution before, or one of one pixel."""

from collections.abc import Sequence

import numpy as np

from opendpu.compiler.legalize.context import Context
from opendpu.compiler.legalize.multipliers import Multipliers, clamp_of
from opendpu.compiler.legalize.registry import Call
from opendpu.ir import Node
from opendpu.ops.fixed.requantize import Halves

RESHAPES = ("reshape", "flatten", "squeeze")


def permuted(call: Call, source: str, order: Sequence[int]) -> str:
    """Return the channels ``order`` of ``source``, which has the fix point of the result."""
    context, node = call.context, call.context.result[source]
    if list(order) == list(range(node.shape[-1])):
        return source
    if folds(call, source):
        return _with_other_outputs(context, node, order)
    weights = np.eye(node.shape[-1], dtype=np.int8)[list(order)]
    inputs = {
        "input": [source],
        "weights": [
            context.constant(f"{call.node.name}_order", weights.reshape(len(order), 1, 1, -1), 0)
        ],
    }
    attrs = {
        "kernel": [1, 1], "stride": [1, 1], "dilation": [1, 1], "pad": [0, 0, 0, 0],
        "nonlinear": "NONE", "group": 1, "pad_mode": "FLOOR",
    }  # fmt: skip
    if context.scaled:
        clamp = clamp_of(None, call.fix.quantization)
        attrs |= Multipliers.ones(len(order)).attributes(Halves.ONCE, clamp)
    shape = (*node.shape[:-1], len(order))
    return context.add(call.node, call.fix, "conv2d-fix", inputs, attrs, shape=shape)


def folds(call: Call, source: str) -> bool:
    """Tell whether ``source`` is a convolution that can make its channels in another order."""
    node = call.context.result[source]
    return node.kind == "conv2d-fix" and _is_alone(call, node) and not call.context.scaled


def _is_alone(call: Call, node: Node) -> bool:
    """Tell whether nothing but ``call`` needs a convolution, reshapes between them not counted."""
    context, (tensor,) = call.context, call.node.inputs["input"]
    if int(node.attrs.get("group", 1)) != 1:
        return False
    while len(context.users[tensor]) == 1 and tensor not in context.graph.outputs:
        if context.fixed(tensor) == node.name:
            return True
        between = context.graph[context.graph[tensor].inputs["input"][0]]
        if between.kind not in RESHAPES or len(context.users[between.name]) != 1:
            return False
        (tensor,) = between.inputs["input"]
        if context.graph[tensor].kind != "fix":
            return False
    return False


def _with_other_outputs(context: Context, node: Node, order: Sequence[int]) -> str:
    """Return a convolution whose output channels are ``order`` of those of ``node``."""
    inputs = {"input": node.inputs["input"]}
    for arg in ("weights", "bias"):
        for name in node.inputs.get(arg, ()):
            constant = context.result[name]
            assert constant.value is not None
            values = constant.value.reshape(node.shape[-1], *constant.shape[1:])[list(order)]
            made = context.result[context.constant(f"{name}_ordered", values, 0)]
            points = np.broadcast_to(constant.fix_points, node.shape[-1:])[list(order)]
            ordered = constant.quantization.along(map(int, points), 0)
            made.type = made.type.with_quantization(ordered)
            inputs[arg] = [made.name]
    fewer = node.type.with_shape((*node.shape[:-1], len(order)))
    name = context.result.unique(f"{node.name}_ordered")
    return context.result.add(
        name, node.kind, fewer, inputs, node.attrs, origin=node.origin, tensor=node.tensor
    ).name
