# SPDX-License-Identifier: Apache-2.0
"""Pass: a convolution whose channels are split is one convolution for each part.

A slice of channels is bytes of the whole in DDR: what reads it waits until the whole was saved, and
loads it again, though it is in the banks. Where each part has feature maps and banks of its own, it
is read from there. The array takes the same steps where parts are whole blocks of its lanes.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from opendpu.compiler.layers import ConvLayer, Layer
from opendpu.compiler.network.network import Network
from opendpu_arch.target import Target

PlanCycles = Callable[[Network, Target], int]
"""Cycles that a whole network is expected to take."""


def split_channels(network: Network, target: Target, plan_cycles: PlanCycles) -> Network:
    """Return ``network`` with a convolution for each part of channels that are split.

    All of them or none, whichever takes less.
    """
    apart = _apart(network, target)
    if apart is None or plan_cycles(apart, target) >= plan_cycles(network, target):
        return network
    return apart


def _apart(network: Network, target: Target) -> Network | None:
    """Return the network with every such convolution in parts; none if there is none."""
    features, aliases = dict(network.features), dict(network.aliases)
    layers: list[Layer] = []
    for layer in network.layers:
        parts = _parts(network, layer, target)
        if not isinstance(layer, ConvLayer) or not parts:
            layers.append(layer)
            continue
        whole = aliases.pop(layer.output, None)
        del features[layer.output]
        for name, start in parts:
            layers.append(_part(layer, name, start, features[name].channels))
            del aliases[name]
            if whole is not None:
                aliases[name] = dataclasses.replace(whole, offset=whole.offset + start)
    if len(layers) == len(network.layers):
        return None
    return dataclasses.replace(network, features=features, aliases=aliases, layers=tuple(layers))


def _parts(network: Network, layer: Layer, target: Target) -> Sequence[tuple[str, int]]:
    """Return the parts of a result and where each begins; none if they cannot be made so.

    Nothing else may know the result, and some layer has to read a part as it is.
    """
    if type(layer) is not ConvLayer or layer.depthwise or layer.epilogue is not None:
        return ()
    name, readers = layer.output, network.consumers
    parts, whole = network.parts.get(name, {}), network.features[layer.output]
    if readers[name] or name in network.outputs or not any(readers[part] for part in parts):
        return ()
    if name in network.aliases and network.aliases[name].overlapping:
        return ()
    found, at = [], 0
    for part, alias in sorted(parts.items(), key=lambda item: item[1].offset):
        feature = network.features[part]
        same = (feature.height, feature.width) == (whole.height, whole.width)
        steps = (alias.pixel_bytes, alias.row_bytes)
        if not same or steps != (whole.channels, whole.width * whole.channels):
            return ()
        if alias.offset != at or alias.overlapping or alias.repeats:
            return ()
        found.append((part, at))
        at += feature.channels
    blocks = target.output_channel_parallel
    if at != whole.channels or any(start % blocks for _, start in found):
        return ()
    return found if len(found) > 1 else ()


def _part(layer: ConvLayer, name: str, start: int, channels: int) -> ConvLayer:
    """Return the convolution that makes some of the channels."""
    own = slice(start, start + channels)
    values: dict[str, Any] = {key: value[own] for key, value in layer.per_channel.items()}
    return dataclasses.replace(
        layer, name=f"{layer.name}/{start}", output=name, weights=layer.weights[own], **values
    )
