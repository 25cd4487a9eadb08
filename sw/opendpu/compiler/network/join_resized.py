# SPDX-License-Identifier: Apache-2.0
"""Pass: resized inputs of a concatenation are joined before they are resized.

Each input of a concatenation may start a word of its own in the banks: two of 24 channels then take
four words of 16, where their 48 channels side by side are three. At the size of the result, joining
them would cost a short burst a pixel. Two neighbours that only repeat pixels can be joined where
they are small: at the size of the larger one, which is made in its place there.
"""

import dataclasses
from collections.abc import Iterator

from opendpu.compiler.layers import ConvLayer, Feature, Layer, MoveLayer
from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.network import Alias, Network
from opendpu_arch.target import Target

SHARE = 2
"""A join has to save so many times the cycles of SAVE that it costs."""


def join_resized(network: Network, target: Target) -> Network:
    """Return ``network`` with resized maps joined where convolutions then read fewer words."""
    while (pair := next(_pairs(network, target), None)) is not None:
        network = _joined(network, *pair)
    return network


def _pairs(network: Network, target: Target) -> Iterator[tuple[MoveLayer, MoveLayer]]:
    """Yield resizes that make neighbouring channels and can be joined, the first channels first."""
    resizes = [
        layer
        for layer in network.layers
        if isinstance(layer, MoveLayer) and layer.only_repeats and layer.output in network.aliases
    ]
    for first in resizes:
        for second in resizes:
            coarse, fine = sorted((first, second), key=lambda one: -one.repeat_w)
            if _are_neighbours(network, first, second) and _can_join(network, coarse, fine):
                whole = network.aliases[first.output].holder
                saved = _words_saved(network, first, second, target)
                work = saved * _cycles_a_word(network, whole, target)
                if work > SHARE * _cost(network, coarse, fine, target):
                    yield first, second


def _are_neighbours(network: Network, first: MoveLayer, second: MoveLayer) -> bool:
    """Tell whether the results are channels side by side of one feature map."""
    one, other = (network.aliases[layer.output] for layer in (first, second))
    channels = network.features[first.output].channels
    return other == dataclasses.replace(one, offset=one.offset + channels)


def _can_join(network: Network, coarse: MoveLayer, fine: MoveLayer) -> bool:
    """Tell whether the source of ``fine`` can be made in a larger map, and nobody else sees it."""
    if coarse.repeat_h % fine.repeat_h or coarse.repeat_w % fine.repeat_w:
        return False
    source, readers = fine.source, network.consumers
    if source is None or source in network.in_ddr or source == coarse.source:
        return False
    moved = any(isinstance(layer, MoveLayer) for layer in network.layers if layer.output == source)
    return len(readers[source]) == 1 and not moved and fine.repeat_w > 1


def _words_saved(network: Network, first: MoveLayer, second: MoveLayer, target: Target) -> int:
    """Return how many words of a pixel fewer both are together."""
    sizes = [network.features[layer.output].channels for layer in (first, second)]
    parallel = target.channel_parallel
    return sum(-(-size // parallel) for size in sizes) - -(-sum(sizes) // parallel)


def _cycles_a_word(network: Network, whole: str, target: Target) -> int:
    """Return the cycles that the readers of a feature map take for a word of its pixels."""
    cycles = 0
    for number in network.consumers[whole]:
        layer = network.layers[number]
        if not isinstance(layer, ConvLayer) or layer.depthwise or layer.source != whole:
            return 0  # what else reads it has to have it as it is
        out = network.features[layer.output]
        times = -(-out.height // target.pixel_parallel) * layer.blocks(network.features, target)
        cycles += times * out.width * layer.window.kernel_h * layer.window.kernel_w
    return cycles


def _cost(network: Network, coarse: MoveLayer, fine: MoveLayer, target: Target) -> int:
    """Return the cycles of SAVE for both in one map, a burst a pixel."""
    assert fine.source is not None
    source = network.features[fine.source]
    sizes = [network.features[layer.output].channels for layer in (coarse, fine)]
    return source.height * sum(
        transfer_cycles(source.width, size, sum(sizes), target.channel_parallel) for size in sizes
    )


def _joined(network: Network, first: MoveLayer, second: MoveLayer) -> Network:
    """Return the network with two resizes joined."""
    coarse, fine = sorted((first, second), key=lambda one: -one.repeat_w)
    assert fine.source is not None
    features, aliases = dict(network.features), dict(network.aliases)
    small, large = features[fine.source], features[first.output]
    channels = large.channels + features[second.output].channels
    both, result = f"{fine.source}/joined", f"{first.output}/joined"
    features[both] = dataclasses.replace(small, name=both, channels=channels)
    features[result] = dataclasses.replace(large, name=result, channels=channels)
    aliases[result] = aliases[first.output]
    placed = f"{coarse.output}/placed"
    features[placed] = Feature(
        name=placed, height=small.height, width=small.width,
        channels=features[coarse.output].channels,
    )  # fmt: skip
    for name, layer in ((placed, coarse), (fine.source, fine)):
        offset = 0 if layer is first else large.channels
        aliases[name] = Alias(
            holder=both, offset=offset, pixel_bytes=channels, row_bytes=channels * small.width
        )
    for layer in (first, second):
        del features[layer.output], aliases[layer.output]
    resize = dataclasses.replace(fine, source=both, output=result)
    place = dataclasses.replace(
        coarse, output=placed, repeat_h=coarse.repeat_h // fine.repeat_h,
        repeat_w=coarse.repeat_w // fine.repeat_w,
    )  # fmt: skip
    later = max(first, second, key=lambda one: _position(network, one))
    layers: list[Layer] = []
    for one in network.layers:
        layers += [place] if one is coarse else [] if one is fine else [one]
        layers += [resize] if one is later else []
    return dataclasses.replace(network, features=features, aliases=aliases, layers=tuple(layers))


def _position(network: Network, wanted: MoveLayer) -> int:
    return next(number for number, layer in enumerate(network.layers) if layer is wanted)
