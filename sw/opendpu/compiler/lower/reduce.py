# SPDX-License-Identifier: Apache-2.0
"""Largest channel of every pixel, by SAVE."""

from opendpu.compiler.layers import Feature, MoveLayer, Reduction
from opendpu.compiler.lower.context import ELEMENT_BYTES, LoweringContext
from opendpu.compiler.lower.registry import lowers
from opendpu.compiler.network import Alias
from opendpu.ir import Node


@lowers("reduction_max-fix")
def reduction_max(context: LoweringContext, node: Node) -> None:
    """Add a move that keeps the largest channel."""
    (source,) = node.inputs["input"]
    context.add(
        MoveLayer(name=node.name, source=source, output=node.name, reduction=Reduction.VALUE)
    )


@lowers("argmax-fix")
def argmax(context: LoweringContext, node: Node) -> None:
    """Add moves that write zeros, and the index as the low byte of each int32."""
    (name,) = node.inputs["input"]
    source, size = context.features[name], ELEMENT_BYTES[node.kind]
    context.add(MoveLayer(name=f"{node.name}/zeros", source=None, output=node.name, value=0))
    low = f"{node.name}/low"
    context.features[low] = Feature(name=low, height=source.height, width=source.width, channels=1)
    alias = Alias(holder=node.name, offset=0, pixel_bytes=size, row_bytes=source.width * size)
    assert context.alias(low, alias)
    context.add(MoveLayer(name=node.name, source=name, output=low, reduction=Reduction.INDEX))
