# SPDX-License-Identifier: Apache-2.0
"""Pass: pixels that a resize repeats are repeated by LOAD, for every layer that reads them.

The enlarged feature map is then nowhere in DDR. Behind ``planar``, so that it may be one of the
planes of a concatenation.
"""

import dataclasses

from opendpu.compiler.layers import ComputeLayer, MoveLayer, channel_groups
from opendpu.compiler.limits import MAX_WORD_JUMP
from opendpu.compiler.network import Alias, Network
from opendpu_arch.target import Target


def repeat(network: Network, target: Target) -> Network:
    """Return ``network`` without the copies that only repeat pixels, where their readers can."""
    aliases = dict(network.aliases)
    layers = [
        layer
        for layer in network.layers
        if not (isinstance(layer, MoveLayer) and _becomes_alias(network, layer, aliases, target))
    ]
    return dataclasses.replace(network, layers=tuple(layers), aliases=aliases)


def _becomes_alias(
    network: Network, layer: MoveLayer, aliases: dict[str, Alias], target: Target
) -> bool:
    """Make the result of a copy its source with repeated pixels; tell whether that is possible."""
    name, source = layer.output, layer.source
    if source is None or not layer.only_repeats or name in network.outputs:
        return False
    if any(alias.holder == name for alias in aliases.values()):
        return False
    if source in aliases and aliases[source].overlapping:
        return False
    planar = [whole for whole, f in network.features.items() if name in f.planes]
    if name in aliases and [aliases[name].holder] != planar:
        return False
    readers = network.consumers
    numbers = [number for read in (name, *planar) for number in readers[read]]
    words = max(channel_groups(network.features[read], target) for read in (name, *planar))
    for number in numbers:
        reader = network.layers[number]
        if not isinstance(reader, ComputeLayer) or reader.reads_from_ddr(name):
            return False
    if not numbers or layer.repeat_w * words > MAX_WORD_JUMP:
        return False
    feature = network.features[source]
    aliases[name] = Alias(
        holder=source, offset=0, pixel_bytes=feature.channels,
        row_bytes=feature.width * feature.channels, repeat_h=layer.repeat_h,
        repeat_w=layer.repeat_w,
    )  # fmt: skip
    return True
