# SPDX-License-Identifier: Apache-2.0
"""Element-wise layers of the misc engine."""

from opendpu.compiler.fixed import point_of
from opendpu.compiler.layers import BroadcastLayer, EltwiseLayer
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.registry import lowers
from opendpu.compiler.lower.scaled import eltwise_fields
from opendpu.ir import Node
from opendpu.ops.fixed.requantize import is_scaled
from opendpu_arch.isa import ElewType


@lowers("eltwise-fix")
def eltwise(context: LoweringContext, node: Node) -> None:
    """Add a layer that adds one to four feature maps, or multiplies two; one may be a pixel."""
    sources = tuple(node.inputs["input"])
    product = node.attrs["type"] == "MUL"
    sizes = [context.graph[s].shape[:-1] for s in sources]
    kind = BroadcastLayer if sizes[-1] != sizes[0] else EltwiseLayer
    if is_scaled(node):
        context.add(
            kind(
                name=node.name, sources=sources, output=node.name, shift_read=(0,) * len(sources),
                kind=ElewType.MULT if product else ElewType.ADD, shift_write=0,
                **eltwise_fields(context, node),
            )
        )  # fmt: skip
        return
    points = [point_of(context.graph[s]) for s in sources]
    right = (sum(points) if product else min(points)) - point_of(node)
    context.add(
        kind(
            name=node.name, sources=sources, output=node.name,
            shift_read=tuple(0 if product else p - min(points) for p in points),
            kind=ElewType.MULT if product else ElewType.ADD,
            shift_write=16 + right if right > 0 else -right,
            relu=node.attrs["nonlinear"] == "RELU",
        )
    )  # fmt: skip
