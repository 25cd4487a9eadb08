# SPDX-License-Identifier: Apache-2.0
"""Reshapes and concatenations: aliases, behind copies where bytes cannot stay in place."""

from opendpu.compiler.lower.context import Context
from opendpu.compiler.lower.registry import lowers
from opendpu.compiler.plan import Alias
from opendpu.ir import Node


@lowers("reshape-fix")
def reshape(context: Context, node: Node) -> None:
    """Make the result the bytes of its input, if those have no gaps."""
    source = node.inputs["input"][0]
    if not context.is_dense(source) or context.is_served(source, node.name):
        source = context.copy(source, f"{node.name}/copy")
    channels = context.features[node.name].channels
    context.aliases[node.name] = Alias(holder=source, offset=0, pixel_bytes=channels)


@lowers("concat-fix")
def concat(context: Context, node: Node) -> None:
    """Make the inputs bytes of the result; copy those that have another place already."""
    holder = context.features[node.name]
    along_rows = int(node.attrs["axis"]) == 1
    offset = 0
    made = {layer.output for layer in context.layers}
    for number, source in enumerate(node.inputs["input"]):
        feature = context.features[source]
        free = source in made and source not in context.aliases and source not in context.outputs
        if not free or source in {a.holder for a in context.aliases.values()}:
            source = context.copy(source, f"{node.name}/{number}")
        context.aliases[source] = Alias(
            holder=node.name, offset=offset, pixel_bytes=holder.channels
        )
        pixels = feature.height * feature.width if along_rows else 1
        offset += feature.channels * pixels
