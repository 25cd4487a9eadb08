# SPDX-License-Identifier: Apache-2.0
"""Activations on their own: layers of the misc engine."""

from opendpu.compiler.fixed import point_of
from opendpu.compiler.layers import AluLayer, Window
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.registry import lowers
from opendpu.ir import Node
from opendpu_arch.isa import AluMode

SIGMOID_BITS = 14
"""Fractional bits of the engine's 1/6."""


@lowers("leaky-relu-fix")
def leaky_relu(context: LoweringContext, node: Node) -> None:
    """Add a layer that multiplies negative values by one slope."""
    right = _right(context, node)
    context.add(
        AluLayer(
            name=node.name, source=node.inputs["input"][0], output=node.name, window=Window(),
            mode=AluMode.LEAKYRELU, multi_factor=int(node.attrs["factor"]),
            shift_prelu_p=_either_way(right),
            shift_prelu_n=_either_way(right + int(node.attrs["shift"])),
        )
    )  # fmt: skip


@lowers("prelu-fix")
def prelu(context: LoweringContext, node: Node) -> None:
    """Add a layer that multiplies negative values by one slope a channel."""
    right = _right(context, node)
    slope = context.graph[node.inputs["weight"][0]]
    context.add(
        AluLayer(
            name=node.name, source=node.inputs["input"][0], output=node.name, window=Window(),
            mode=AluMode.PRELU, weights=context.constant(node, "weight").reshape(1, 1, -1),
            shift_prelu_p=_either_way(right), shift_prelu_n=_either_way(right + point_of(slope)),
        )
    )  # fmt: skip


@lowers("hard-sigmoid-fix")
def hard_sigmoid(context: LoweringContext, node: Node) -> None:
    """Add a layer of the engine's hard-sigmoid."""
    point = point_of(context.graph[node.inputs["input"][0]])
    context.add(
        AluLayer(
            name=node.name, source=node.inputs["input"][0], output=node.name, window=Window(),
            mode=AluMode.HSIGMOID, shift_bias=point,
            shift_cut=SIGMOID_BITS + point - point_of(node),
        )
    )  # fmt: skip


def _right(context: LoweringContext, node: Node) -> int:
    """Return how far the result is right of the input."""
    return point_of(context.graph[node.inputs["input"][0]]) - point_of(node)


def _either_way(right: int) -> int:
    """Return the field for a shift to the right, or to the left if negative."""
    return 32 + right if right >= 0 else -right
