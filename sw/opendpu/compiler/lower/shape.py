# SPDX-License-Identifier: Apache-2.0
"""Reshapes and concatenations: aliases, behind copies where bytes cannot stay in place."""

import dataclasses

from opendpu.compiler.lower.context import Context
from opendpu.compiler.lower.registry import lowers
from opendpu.compiler.plan import Alias
from opendpu.compiler.view import dense
from opendpu.ir import Node


@lowers("reshape-fix")
def reshape(context: Context, node: Node) -> None:
    """Make the result the bytes of its input, if those have no gaps."""
    source, feature = node.inputs["input"][0], context.features[node.name]
    steps = dense(feature)
    alias = Alias(holder=source, offset=0, pixel_bytes=steps.pixel_bytes, row_bytes=steps.row_bytes)
    if context.is_served(source, node.name) or not context.alias(node.name, alias):
        copy = context.copy(source, f"{node.name}/copy")
        context.alias(node.name, dataclasses.replace(alias, holder=copy))


@lowers("concat-fix")
def concat(context: Context, node: Node) -> None:
    """Make the inputs bytes of the result; copy those that have another place already."""
    steps = dense(context.features[node.name])
    axis = int(node.attrs["axis"]) - len(node.shape)
    offset = 0
    for number, source in enumerate(node.inputs["input"]):
        alias = Alias(
            holder=node.name, offset=offset, pixel_bytes=steps.pixel_bytes,
            row_bytes=steps.row_bytes,
        )  # fmt: skip
        if not _is_free(context, source) or not context.alias(source, alias):
            context.alias(context.copy(source, f"{node.name}/{number}"), alias)
        feature = context.features[source]
        size = {-3: feature.height, -2: feature.width, -1: feature.channels}[axis]
        offset += size * {-3: steps.row_bytes, -2: steps.pixel_bytes, -1: 1}[axis]


def _is_free(context: Context, name: str) -> bool:
    """Tell whether a feature map can be made at another place, with all that is bytes of it."""
    fixed = {*context.inputs, *map(context.root, context.outputs & context.features.keys())}
    return name in context.inside and name not in context.aliases and name not in fixed
