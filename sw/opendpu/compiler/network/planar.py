# SPDX-License-Identifier: Apache-2.0
"""Pass: concatenated channels lie in DDR plane by plane.

The inputs of a concatenation are channels of its result. Where pixels lie one after the other, each
pixel of an input is a burst of its own to SAVE, however short. Plane by plane every input is as
dense as if it were alone, and LOAD puts the channels side by side in the banks. There every plane
starts a word, so that some lanes of the array may hold nothing.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from opendpu.compiler.layers import (
    ComputeLayer,
    ConvLayer,
    Feature,
    Int8Array,
    Layer,
    MoveLayer,
)
from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.network import Alias, Network
from opendpu_arch.target import Target


def planar(network: Network, target: Target) -> Network:
    """Return ``network`` with concatenated channels in planes where that costs less."""
    readers, written = network.consumers, {layer.output for layer in network.layers}
    features, aliases = dict(network.features), dict(network.aliases)
    layers = list(network.layers)
    ends = {*network.inputs, *network.outputs, *written}
    for name in network.parts:
        whole = network.features[name]
        parts = None if name in ends or name in aliases else _parts(network, name)
        if parts is None or not parts.keys() <= written:
            continue
        planes = tuple(network.features[part].channels for part in parts)
        reading = [layers[number] for number in readers[name]]
        if not _can_read(reading, name, planes, target):
            continue
        if _saved(network, parts, whole, target) <= _lost(reading, network, whole, planes, target):
            continue
        features[name] = dataclasses.replace(
            whole, channels=sum(_padded(planes, target)), planes=tuple(parts)
        )
        at = 0
        for part, size in zip(parts, planes, strict=True):
            aliases[part] = Alias(
                holder=name, offset=at, pixel_bytes=size, row_bytes=size * whole.width
            )
            at += size * whole.width * whole.height
        for number in readers[name]:
            layers[number] = _spread(layers[number], name, planes, target)
    return dataclasses.replace(network, features=features, layers=tuple(layers), aliases=aliases)


def _parts(network: Network, name: str) -> dict[str, Alias] | None:
    """Return the channels that fill a feature map without gaps, in order; none if others do."""
    whole = network.features[name]
    parts = network.parts[name]
    at = 0
    for part, alias in sorted(parts.items(), key=lambda item: item[1].offset):
        feature = network.features[part]
        steps = (alias.pixel_bytes, alias.row_bytes)
        same = (feature.height, feature.width) == (whole.height, whole.width)
        if not same or steps != (whole.channels, whole.width * whole.channels):
            return None
        if alias.offset != at or alias.overlapping:
            return None
        at += feature.channels
    if at != whole.channels:
        return None
    return dict(sorted(parts.items(), key=lambda item: item[1].offset))


def _can_read(reading: Sequence[Layer], name: str, planes: Sequence[int], target: Target) -> bool:
    """Tell whether all readers can have the channels so.

    Between planes that do not fill their words are channels that only a convolution can leave out.
    """
    filled = not any(size % target.channel_parallel for size in planes)
    for layer in reading:
        if isinstance(layer, ConvLayer) and not layer.depthwise and layer.WHOLE_KERNEL:
            if name in layer.operands[1:] and not filled:
                return False
        elif not filled or not isinstance(layer, ComputeLayer) or layer.reads_from_ddr(name):
            return False
    return bool(reading)


def _padded(planes: Sequence[int], target: Target) -> list[int]:
    """Return the channels of the words that each plane takes."""
    return [-(-size // target.channel_parallel) * target.channel_parallel for size in planes]


def _saved(network: Network, parts: Mapping[str, Alias], whole: Feature, target: Target) -> int:
    """Return the cycles of SAVE that planes save where nothing hides them."""
    parallel = target.channel_parallel
    saved = 0
    for layer in network.layers:
        if layer.output not in parts:
            continue
        size = network.features[layer.output].channels
        hidden = 0
        if isinstance(layer, ComputeLayer):
            rows = -(-whole.height // layer.row_parallel(target))
            hidden = rows * layer.row_cycles(network.features, target)
        apart, dense = (
            whole.height * transfer_cycles(whole.width, size, jump, parallel)
            for jump in (whole.channels, size)
        )
        if isinstance(layer, MoveLayer) and layer.only_repeats:
            dense = 0  # the pass ``repeat`` leaves it to LOAD
        saved += max(0, apart - hidden) - max(0, dense - hidden)
    return saved


def _lost(
    reading: Sequence[Layer], network: Network, whole: Feature, planes: Sequence[int],
    target: Target,
) -> int:  # fmt: skip
    """Return the cycles that LOAD loses, and the array to lanes that hold nothing."""
    more = sum(_padded(planes, target)) // target.channel_parallel
    more -= -(-whole.channels // target.channel_parallel)
    parallel = target.channel_parallel
    load = sum(transfer_cycles(whole.width, size, size, parallel) for size in planes)
    load -= transfer_cycles(whole.width, whole.channels, whole.channels, parallel)
    lost = len(reading) * whole.height * max(0, load)
    for layer in reading:
        if isinstance(layer, ConvLayer) and layer.source == whole.name and not layer.depthwise:
            out = network.features[layer.output]
            taps = more * layer.window.kernel_h * layer.window.kernel_w
            times = -(-out.height // target.pixel_parallel) * layer.blocks(network.features, target)
            lost += times * out.width * taps
    return lost


def _spread(layer: Layer, name: str, planes: Sequence[int], target: Target) -> Layer:
    """Return a layer with zeros for the channels between planes."""
    if not isinstance(layer, ConvLayer) or layer.depthwise or name != layer.source:
        return layer
    return dataclasses.replace(layer, weights=_spread_weights(layer.weights, planes, target))


def _spread_weights(weights: Int8Array, planes: Sequence[int], target: Target) -> Int8Array:
    pieces = []
    inputs = np.split(weights, np.cumsum(planes)[:-1], axis=3)
    for piece, size in zip(inputs, _padded(planes, target), strict=True):
        pieces.append(np.pad(piece, ((0, 0),) * 3 + ((0, size - piece.shape[3]),)))
    return np.concatenate(pieces, axis=3)
