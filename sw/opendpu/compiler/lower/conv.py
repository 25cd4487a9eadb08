# SPDX-License-Identifier: Apache-2.0
"""Convolutions: layers of the CONV engine, depthwise ones of the misc engine."""

from opendpu.compiler.layers import Int8Array
from opendpu.compiler.limits import MAX_CHANNEL_GROUPS
from opendpu.compiler.lower.candidates import add_conv, add_depthwise
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.fields import layer_fields, of_channels
from opendpu.compiler.lower.grouped import block, channels_of, pack
from opendpu.compiler.lower.registry import lowers
from opendpu.ir import Node


@lowers("conv2d-fix")
def conv(context: LoweringContext, node: Node) -> None:
    """Add a layer of the CONV engine, or several if there are groups."""
    group = int(node.attrs.get("group") or 1)
    source = context.graph[node.inputs["input"][0]]
    weights = context.constant(node, "weights")
    if group == 1:
        _add_slices(context, node, weights)
        return
    whole, output = context.features[source.name], context.features[node.name]
    size = pack(whole, output, weights, group, context.target)
    for first in range(0, group, size):
        fields = layer_fields(context, node, node.name)
        if size < group:
            name = f"{node.name}/{first}"
            low, high = (n * output.channels // group for n in (first, first + size))
            channels = whole.channels // group
            channels_of(context, whole.name, f"{name}/input", first * channels, size * channels)
            channels_of(context, node.name, name, low, high - low)
            fields |= {"name": name, "source": f"{name}/input", "output": name}
            fields = of_channels(fields, slice(low, high))
        add_conv(context, node, fields, block(weights, group, first, size))


def _add_slices(context: LoweringContext, node: Node, weights: Int8Array) -> None:
    """Add a layer, or several that make as many output channels as a pixel can have on chip."""
    fields, target = layer_fields(context, node, node.name), context.target
    outputs, parallel = len(weights), target.channel_parallel
    layers = -(-outputs // (MAX_CHANNEL_GROUPS * parallel))
    if layers == 1:
        add_conv(context, node, fields, weights)
        return
    size = -(-outputs // (layers * parallel)) * parallel
    for first in range(0, outputs, size):
        name, many = f"{node.name}/{first}", min(size, outputs - first)
        channels_of(context, node.name, name, first, many)
        taken = slice(first, first + many)
        part = of_channels(fields, taken)
        add_conv(context, node, {**part, "name": name, "output": name}, weights[taken])


@lowers("depthwise-conv2d-fix")
def depthwise(context: LoweringContext, node: Node) -> None:
    """Add a layer of the misc engine."""
    fields = layer_fields(context, node, node.name)
    add_depthwise(context, node, fields, context.constant(node, "weights"))
