# SPDX-License-Identifier: Apache-2.0
"""Pass: channels are made several times, where an enlarged map then takes half of the steps.

A depthwise layer on the array whose output channels are pixels side by side (the phases of a
resize) has blocks of output channels that begin anywhere among the channels of a pixel. With 21
channels, nearly every block of 16 meets both words of an input pixel, and takes twice the steps.
Where the convolution in front makes its channels again and again, until they end with a word, each
block meets one word: the channels of the result and those of the input then lie alike.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from opendpu.compiler.layers import BlockwiseConvLayer, ConvLayer, Feature, Layer, MoveLayer
from opendpu.compiler.layers.cost import feature_cycles
from opendpu.compiler.limits import MAX_CHANNEL_GROUPS
from opendpu.compiler.network.alias import Alias, root_of
from opendpu.compiler.network.network import Network
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Family:
    """A feature map and those that are some pixels of it, what makes and what enlarges them."""

    name: str
    members: frozenset[str]
    maker: ConvLayer
    readers: tuple[BlockwiseConvLayer, ...]


class _Index:
    """Who has to do with which feature map, gathered once: repeating channels keeps that."""

    def __init__(self, network: Network) -> None:
        planes = (part for feature in network.features.values() for part in feature.planes)
        self.ends = {*network.inputs, *network.outputs, *network.constants, *planes}
        self.members: dict[str, set[str]] = {}
        for one in network.features:
            self.members.setdefault(root_of(network.aliases, one), set()).add(one)

        self._numbers = {name: set(numbers) for name, numbers in network.consumers.items()}
        for number, layer in enumerate(network.layers):
            self._numbers[layer.output].add(number)

    def layers(self, network: Network, members: set[str]) -> list[Layer]:
        """Return the layers that make or read some of ``members``, in their order."""
        numbers = {number for one in members for number in self._numbers[one]}
        return [network.layers[number] for number in sorted(numbers)]


def repeat_channels(network: Network, target: Target) -> Network:
    """Return ``network`` with channels made several times, where that saves cycles."""
    index = _Index(network)
    for name, feature in network.features.items():
        if feature.channels % target.channel_parallel and name not in network.aliases:
            family = _family(network, name, index)
            if family is not None:
                network = _repeated(network, family, target)
    return network


def _family(network: Network, name: str, index: _Index) -> _Family | None:
    """Return who has to do with a feature map, if it is one that can have more channels."""
    channels = network.features[name].channels
    members = index.members[name]
    if members & index.ends or any(network.features[one].planes for one in members):
        return None
    if any(network.features[one].channels != channels for one in members):
        return None
    if not all(_is_of_pixels(network.aliases[one], channels) for one in members - {name}):
        return None
    makers: list[ConvLayer] = []
    readers: list[BlockwiseConvLayer] = []
    for layer in index.layers(network, members):
        made, read = layer.output in members, not members.isdisjoint(layer.operands)
        if made and read and isinstance(layer, MoveLayer) and layer.reduction is None:
            continue  # a copy among them
        if made and not read and type(layer) is ConvLayer and layer.epilogue is None:
            makers.append(layer)
        elif read and not made and isinstance(layer, BlockwiseConvLayer):
            readers.append(layer)
        elif made or read:
            return None
    alike = all(_is_depthwise(layer, network.features, channels) for layer in readers)
    if len(makers) != 1 or makers[0].depthwise or not readers or not alike:
        return None
    return _Family(name=name, members=frozenset(members), maker=makers[0], readers=tuple(readers))


def _is_of_pixels(alias: Alias, channels: int) -> bool:
    """Tell whether the pixels of a part are those of the whole."""
    places = (alias.offset, alias.pixel_bytes, alias.row_bytes)
    whole = all(place % channels == 0 for place in places)
    return whole and not alias.overlapping and not alias.repeats


def _is_depthwise(
    layer: BlockwiseConvLayer, features: Mapping[str, Feature], channels: int
) -> bool:
    """Tell whether every output channel meets the input channel of its number alone."""
    outputs = len(layer.weights)
    if layer.epilogue is not None or outputs % channels:
        return False
    if features[layer.output].channels != outputs:
        return False
    every = np.arange(outputs)
    own = layer.weights[every, :, :, every % channels]
    return bool(np.count_nonzero(own) == np.count_nonzero(layer.weights))


def _repeated(network: Network, family: _Family, target: Target) -> Network:
    """Return the network with the channels of a family repeated, if that saves cycles."""
    features, parallel = network.features, target.channel_parallel
    channels = features[family.name].channels
    pixels = min(len(layer.weights) // channels for layer in family.readers)
    times = min(pixels, parallel // math.gcd(channels, parallel))
    if times < 2 or times * channels > MAX_CHANNEL_GROUPS * parallel:
        return network
    made: dict[str, ConvLayer] = {
        layer.output: _enlarging(layer, channels, times) for layer in family.readers
    }
    maker = family.maker
    own: dict[str, Any] = {k: np.tile(values, times) for k, values in maker.per_channel.items()}
    made[maker.output] = dataclasses.replace(
        maker, weights=np.tile(maker.weights, (times, 1, 1, 1)), **own
    )
    deeper = {
        one: dataclasses.replace(features[one], channels=times * channels) for one in family.members
    }
    after = {**features, **deeper}
    saved = sum(
        old.total_cycles(features, target) - made[old.output].total_cycles(after, target)
        for old in (maker, *family.readers)
    )
    moved = feature_cycles(after[family.name], parallel) - feature_cycles(
        features[family.name], parallel
    )
    if saved <= 2 * moved:
        return network
    aliases = {
        one: _scaled(alias, times) if one in family.members else alias
        for one, alias in network.aliases.items()
    }
    layers = tuple(made.get(layer.output, layer) for layer in network.layers)
    return dataclasses.replace(network, features=after, aliases=aliases, layers=layers)


def _enlarging(layer: BlockwiseConvLayer, channels: int, times: int) -> BlockwiseConvLayer:
    """Return a layer that meets the channels of the number of its own, counted through."""
    outputs, height, width, _ = layer.weights.shape
    every, many = np.arange(outputs), times * channels
    weights = np.zeros((outputs, height, width, many), np.int8)
    weights[every, :, :, every % many] = layer.weights[every, :, :, every % channels]
    parts = tuple(
        dataclasses.replace(part, group=block * layer.parallel % many // layer.parallel, groups=1)
        for block, part in enumerate(layer.parts)
    )
    return dataclasses.replace(layer, weights=weights, parts=parts)


def _scaled(alias: Alias, times: int) -> Alias:
    return dataclasses.replace(
        alias, offset=alias.offset * times, pixel_bytes=alias.pixel_bytes * times,
        row_bytes=alias.row_bytes * times,
    )  # fmt: skip
