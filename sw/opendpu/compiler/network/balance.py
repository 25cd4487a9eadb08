# SPDX-License-Identifier: Apache-2.0
"""Pass: depthwise convolutions on the array, where the misc engine has more to do than that.

Layers that run as a cascade take as long as the busier engine. The array computes a depthwise
convolution too, a channel group at a time: of its weights all but a diagonal are zeros, so that
most lanes are wasted, but it makes twice as many rows at a time. Both engines give the same bytes,
so that they can also share the channels of one layer, where the misc engine still has more to do.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from opendpu.compiler.layers import (
    AluLayer,
    ArrayLayer,
    ComputeLayer,
    ConvLayer,
    Layer,
    SharedDepthwiseLayer,
    array_layer,
    channel_groups,
    fields_of,
)
from opendpu.compiler.layers.cost import conv_cycles
from opendpu.compiler.limits import MAX_CONV_KERNEL, MAX_CONV_STRIDE
from opendpu.compiler.network import Network
from opendpu_arch.isa import AluMode, Engine
from opendpu_arch.target import Target

NEAR = 5
"""Layers before and behind one that may run together with it."""
MARGIN = 0.02
"""Part of the cycles of those layers that a move has to save."""
MOST_ON_ARRAY = 2
"""Times the cycles of the misc engine that the array may take for a layer that both share."""


def balance(network: Network, target: Target) -> Network:
    """Return ``network`` with depthwise convolutions on the engine that has less to do.

    Those that cost least on the array, compared with the misc engine, come first.
    """
    layers = list(network.layers)
    work = [_work(layer, network, target) for layer in layers]
    alone = list(work)
    made = {n: one for n, layer in enumerate(layers) if (one := on_array(layer, target))}
    apart = {n for n in made if network.aliases.keys() >= set(_names(layers[n]))}  # DDR to DDR
    cost = {n: _cycles(one, network, target) for n, one in made.items()}
    moved = {n: one for n, one in made.items() if n not in apart}
    for number in sorted(moved, key=lambda n: cost[n] / max(1, work[n][1])):
        array, misc = _near(network, work, number, target)
        own = work[number][1]
        if not array and misc == own:
            continue  # nothing runs beside it
        after = max(array + cost[number], misc - own)
        if after < max(array, misc) * (1 - MARGIN):
            layers[number], work[number] = moved[number], (cost[number], 0)
    left = {n: cost[n] for n, one in moved.items() if layers[n] is not one}
    _share_left(network, layers, work, left, target)
    for number in moved.keys() - left.keys():
        _share_moved(network, layers, work, number, alone[number][1], target)
    for number in apart:
        _share_alone(network, layers, work, number, cost[number], target)
    return dataclasses.replace(network, layers=tuple(layers))


def _names(layer: Layer) -> tuple[str, ...]:
    """Return what a layer reads and writes."""
    return (*layer.operands, layer.output)


def _beside(network: Network, number: int, target: Target) -> Iterator[tuple[int, float]]:
    """Yield layers near one, itself too, and the part of each that can run beside it.

    A convolution reads all channels of its input, so that its first rows come behind those of the
    layer before: what is made in one stripe of rows overlaps with nothing before it.
    """
    yield number, 1.0
    last = len(network.layers) - 1
    for step in (-1, 1):
        part = 1.0
        for n in range(number + step, min(max(number + step * NEAR, 0), last) + step, step):
            part *= _overlap(network, max(n, n - step), target)
            if part:
                yield n, part


def _overlap(network: Network, number: int, target: Target) -> float:
    """Return the part of a layer that can run beside the one before it."""
    layer = network.layers[number]
    if not isinstance(layer, ArrayLayer) or layer.depthwise:
        return 1.0
    return 1 - 1 / -(-network.features[layer.output].height // target.pixel_parallel)


def _near(
    network: Network, work: Sequence[tuple[int, int]], number: int, target: Target
) -> tuple[float, float]:
    """Return the cycles of both engines in which layers can run beside one, its own included."""
    array = misc = 0.0
    for n, part in _beside(network, number, target):
        array, misc = array + part * work[n][0], misc + part * work[n][1]
    return array, misc


def _share_left(
    network: Network, layers: list[Layer], work: list[tuple[int, int]], cost: Mapping[int, int],
    target: Target,
) -> None:  # fmt: skip
    """Let both engines share the layers numbered in ``cost``, cycles on the array, where it helps.

    What the misc engine has to do too much is taken from all of them nearby alike.
    """
    for number in sorted(cost, key=lambda n: cost[n] / max(1, work[n][1])):
        array, misc = _near(network, work, number, target)
        pending = sum(
            work[n][1] * part
            for n, part in _beside(network, number, target)
            if n in cost and not isinstance(layers[n], SharedDepthwiseLayer)
        )
        ahead = int((misc - array) * work[number][1] / max(1, pending))
        found = _share(network, layers[number], (cost[number], work[number][1]), ahead, target)
        if found is None:
            continue
        own = _work(found, network, target)
        after = max(array + own[0], misc - work[number][1] + own[1])
        if after < max(array, misc) * (1 - MARGIN):
            layers[number], work[number] = found, own


def _share_alone(
    network: Network, layers: list[Layer], work: list[tuple[int, int]], number: int, cost: int,
    target: Target,
) -> None:  # fmt: skip
    """Let both engines share a layer that nothing runs beside; the array would take ``cost``."""
    misc = work[number][1]
    found = _share(network, layers[number], (cost, misc), misc, target)
    if found is None:
        return
    own = _work(found, network, target)
    if max(own) < misc * (1 - MARGIN):
        layers[number], work[number] = found, own


def _share_moved(
    network: Network, layers: list[Layer], work: list[tuple[int, int]], number: int, misc_own: int,
    target: Target,
) -> None:  # fmt: skip
    """Let both engines share a layer of the array, where the misc engine has less to do.

    It would take ``misc_own`` cycles for all of it.
    """
    array, misc = _near(network, work, number, target)
    cost = work[number][0]
    ahead = int(misc + misc_own - (array - cost))
    found = _share(network, network.layers[number], (cost, misc_own), ahead, target)
    if found is None:
        return
    own = _work(found, network, target)
    if max(array - cost + own[0], misc + own[1]) < max(array, misc) * (1 - MARGIN):
        layers[number], work[number] = found, own


def _share(
    network: Network, layer: Layer, costs: tuple[int, int], ahead: int, target: Target
) -> SharedDepthwiseLayer | None:
    """Return a layer of which the array makes some channels, if that can help.

    Array and misc engine take ``costs`` cycles for all of it, each; the misc engine has ``ahead``
    more to do nearby.
    """
    assert isinstance(layer, AluLayer)
    if layer.requantization is not None:
        return None
    array, misc = costs
    many = channel_groups(network.features[layer.output], target)
    on_array = min(many - 1, ahead * many // (array + misc))
    if on_array < 1 or array > misc * MOST_ON_ARRAY:
        return None
    return SharedDepthwiseLayer(
        **fields_of(layer), array_groups=on_array, parallel=target.channel_parallel
    )


def _work(layer: Layer, network: Network, target: Target) -> tuple[int, int]:
    """Return the cycles of array and misc engine."""
    if isinstance(layer, ConvLayer):
        return _cycles(layer, network, target), 0
    if not isinstance(layer, ComputeLayer):
        return 0, 0
    cycles = layer.engine_cycles(network.features, target)
    return cycles.get(Engine.CONV, 0), cycles.get(Engine.MISC, 0)


def _cycles(layer: ConvLayer, network: Network, target: Target) -> int:
    """Return the cycles of a convolution."""
    out = network.features[layer.output]
    rows = -(-out.height // target.pixel_parallel)
    steps = layer.column_cycles(network.features, target)
    return rows * layer.blocks(network.features, target) * conv_cycles(out.width, steps)


def on_array(layer: Layer, target: Target) -> ConvLayer | None:
    """Return a depthwise convolution as a layer of the array, if it can be one."""
    if not isinstance(layer, AluLayer) or layer.mode != AluMode.DWCV:
        return None
    window = layer.window
    if max(window.kernel_h, window.kernel_w) > MAX_CONV_KERNEL:
        return None
    if max(window.stride_h, window.stride_w) > MAX_CONV_STRIDE:
        return None
    return array_layer(layer, layer.name, target.channel_parallel)
