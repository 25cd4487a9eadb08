# SPDX-License-Identifier: Apache-2.0
"""Pass: neighbouring windows of a first layer become one pixel, where LOAD takes longest.

After ``augment``, a pixel that LOAD writes is the part of a row which one result meets: nine bytes
of three by three pixels with three channels, in a word of 16. Two such windows that are two pixels
apart are 15 bytes, so that half as many words bring all of them. The array takes the same steps;
each result has its own weights, at its place among these bytes.
"""

import dataclasses

from opendpu.compiler.layers import ConvLayer, FoldedConvLayer, Layer, fields_of
from opendpu.compiler.layers.cost import conv_cycles, transfer_cycles
from opendpu.compiler.limits import MAX_LOAD_PAD, MAX_PADDED_BYTES
from opendpu.compiler.network.network import Network
from opendpu_arch.target import Target

MOST_PIXELS = 4
"""Windows that become one pixel at most."""


def join_windows(network: Network, target: Target) -> Network:
    """Return ``network`` with the windows of first layers joined."""
    for number, layer in enumerate(network.layers):
        if type(layer) is ConvLayer and _is_folded(network, layer):
            pixels = (
                windows_together(network, layer, target) if waits(network, layer, target) else 1
            )
            if pixels > 1:
                network = _joined(network, number, layer, pixels, target)
    return network


def _is_folded(network: Network, layer: ConvLayer) -> bool:
    """Tell whether ``augment`` made the input of a layer, which alone reads it."""
    alias = network.aliases.get(layer.source)
    folded = (
        alias is not None
        and alias.overlapping
        and layer.window.kernel_w == layer.window.stride_w == 1
    )
    return folded and len(network.consumers[layer.source]) == 1


def waits(network: Network, layer: ConvLayer, target: Target) -> bool:
    """Tell whether LOAD takes longer than the array."""
    alias, source = network.aliases[layer.source], network.features[layer.source]
    out = network.features[layer.output]
    steps = layer.column_cycles(network.features, target)
    compute = layer.blocks(network.features, target) * conv_cycles(out.width, steps)
    row = transfer_cycles(source.width, source.channels, alias.pixel_bytes, target.channel_parallel)
    return target.pixel_parallel * layer.window.stride_h * row > compute


def windows_together(network: Network, layer: ConvLayer, target: Target) -> int:
    """Return the windows that fit one word together, and into what LOAD can pad."""
    alias, source = network.aliases[layer.source], network.features[layer.source]
    holder, out = network.features[alias.holder], network.features[layer.output]
    parallel, best = target.channel_parallel, 1
    for pixels in range(2, MOST_PIXELS + 1):
        channels = source.channels + (pixels - 1) * alias.pixel_bytes
        if (
            -(-channels // parallel) > -(-source.channels // parallel)
            or channels > MAX_PADDED_BYTES
        ):
            break
        end = (-(-out.width // pixels) - 1) * pixels * alias.pixel_bytes + channels + alias.offset
        beyond = max(end - holder.width * holder.channels, 0) + -channels % parallel
        if out.width % pixels == 0 and beyond <= MAX_LOAD_PAD:
            best = pixels
    return best


def _joined(
    network: Network, number: int, layer: ConvLayer, pixels: int, target: Target
) -> Network:
    alias, source = network.aliases[layer.source], network.features[layer.source]
    step = alias.pixel_bytes
    features, aliases = dict(network.features), dict(network.aliases)
    features[source.name] = dataclasses.replace(
        source, width=source.width // pixels, channels=source.channels + (pixels - 1) * step
    )
    aliases[source.name] = dataclasses.replace(alias, pixel_bytes=pixels * step)
    layers: list[Layer] = list(network.layers)
    layers[number] = FoldedConvLayer(
        **fields_of(layer), pixels=pixels, step=step, parallel=target.output_channel_parallel
    )
    return dataclasses.replace(network, features=features, aliases=aliases, layers=tuple(layers))
