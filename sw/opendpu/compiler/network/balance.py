# SPDX-License-Identifier: Apache-2.0
"""Pass: depthwise convolutions on the array, where the misc engine has more to do than that.

Layers that run as a cascade take as long as the busier engine. The array computes a depthwise
convolution too, a channel group at a time: of its weights all but a diagonal are zeros, so that
most lanes are wasted, but it makes twice as many rows at a time. Both engines give the same bytes.
"""

import dataclasses

from opendpu.compiler.layers import AluLayer, ComputeLayer, ConvLayer, Layer, diagonal_weights
from opendpu.compiler.layers.cost import conv_cycles
from opendpu.compiler.limits import MAX_CONV_KERNEL, MAX_CONV_STRIDE
from opendpu.compiler.network import Network
from opendpu_arch.isa import AluMode, Engine
from opendpu_arch.target import Target

NEAR = 5
"""Layers before and behind one that may run together with it."""
MARGIN = 0.02
"""Part of the cycles of those layers that a move has to save."""


def balance(network: Network, target: Target) -> Network:
    """Return ``network`` with depthwise convolutions on the engine that has less to do.

    Those that cost least on the array, compared with the misc engine, come first.
    """
    layers = list(network.layers)
    work = [_work(layer, network, target) for layer in layers]
    moved = {
        n: made
        for n, layer in enumerate(layers)
        if not network.aliases.keys() >= {*layer.operands, layer.output}  # from DDR to DDR: alone
        and (made := on_array(layer, target))
    }
    cost = {n: _cycles(made, network, target) for n, made in moved.items()}
    for number in sorted(moved, key=lambda n: cost[n] / max(1, work[n][1])):
        near = work[max(0, number - NEAR) : number + NEAR + 1]
        array, misc = (sum(both[engine] for both in near) for engine in (0, 1))
        own = work[number][1]
        if not array and misc == own:
            continue  # nothing runs beside it
        after = max(array + cost[number], misc - own)
        if after < max(array, misc) * (1 - MARGIN):
            layers[number], work[number] = moved[number], (cost[number], 0)
    return dataclasses.replace(network, layers=tuple(layers))


def _work(layer: Layer, network: Network, target: Target) -> tuple[int, int]:
    """Return the cycles of array and misc engine."""
    if isinstance(layer, ConvLayer):
        return _cycles(layer, network, target), 0
    if not isinstance(layer, ComputeLayer):
        return 0, 0
    cycles = layer.total_cycles(network.features, target)
    return (0, cycles) if layer.ENGINE == Engine.MISC else (cycles, 0)


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
    assert layer.weights is not None and layer.bias is not None
    return ConvLayer(
        name=layer.name, output=layer.output, op=layer.op, source=layer.source, window=window,
        weights=diagonal_weights(layer.weights, target.channel_parallel), bias=layer.bias,
        shifts=layer.shifts, shift_cut=layer.shift_cut, shift_bias=layer.shift_bias,
        act_type=layer.act_type, requantization=layer.requantization, depthwise=True,
        table=layer.table,
    )  # fmt: skip
