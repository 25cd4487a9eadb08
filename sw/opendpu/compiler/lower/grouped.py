# SPDX-License-Identifier: Apache-2.0
"""Convolutions with groups: several groups a layer, as many as is cheapest.

A layer of some groups reads a slice of the channels and writes one; weights between its groups are
zero. All groups in one layer need no slices, but multiply most zeros.
"""

import numpy as np

from opendpu.compiler.layers import Feature, Int8Array
from opendpu.compiler.layers.cost import conv_cycles, feature_cycles, transfer_cycles
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.network import Alias
from opendpu_arch.target import Target


def pack(source: Feature, output: Feature, weights: Int8Array, group: int, target: Target) -> int:
    """Return how many groups a layer had better have; ``weights`` are those of the whole op."""
    taps = weights.shape[1] * weights.shape[2]
    fitting = [
        size
        for size in range(1, group + 1)
        if group % size == 0
        and taps * _groups(source.channels // group * size, target) <= target.bank_depth
    ]
    return min(fitting, key=lambda size: (_cycles(source, output, taps, group, size, target), size))


def _groups(channels: int, target: Target) -> int:
    return -(-channels // target.channel_parallel)


def _cycles(
    source: Feature, output: Feature, taps: int, group: int, size: int, target: Target
) -> int:
    """Return the cycles of ``size`` groups a layer, by array or memory, whichever is longer."""
    inputs, outputs = source.channels // group * size, output.channels // group * size
    layers = group // size
    blocks = -(-outputs // target.output_channel_parallel)
    steps = -(-output.height // target.pixel_parallel) * blocks
    compute = steps * conv_cycles(output.width, taps * _groups(inputs, target))
    parallel = target.channel_parallel
    weights = outputs * transfer_cycles(1, taps * inputs, taps * inputs, parallel)
    move = whole = 0
    if layers > 1:  # slices are not kept on chip, so neither are the maps that they are of
        read = transfer_cycles(source.width, inputs, source.channels, parallel)
        write = transfer_cycles(output.width, outputs, output.channels, parallel)
        move = source.height * read + output.height * write
        whole = sum(feature_cycles(feature, parallel) for feature in (source, output))
    return layers * max(compute, weights + move) + whole


def block(weights: Int8Array, group: int, first: int, size: int) -> Int8Array:
    """Return the weights of ``size`` groups from ``first`` on, zero between them."""
    outputs, inputs = weights.shape[0] // group, weights.shape[3]
    made = np.zeros((size * outputs, *weights.shape[1:3], size * inputs), dtype=np.int8)
    for n in range(size):
        at = (first + n) * outputs
        made[n * outputs : (n + 1) * outputs, :, :, n * inputs : (n + 1) * inputs] = weights[
            at : at + outputs
        ]
    return made


def channels_of(context: LoweringContext, holder: str, name: str, first: int, count: int) -> None:
    """Add feature map ``name``: ``count`` channels of ``holder``."""
    whole = context.features[holder]
    context.features[name] = Feature(
        name=name, height=whole.height, width=whole.width, channels=count
    )
    alias = Alias(
        holder=holder, offset=first, pixel_bytes=whole.channels,
        row_bytes=whole.width * whole.channels,
    )  # fmt: skip
    if not context.alias(name, alias):
        copy = context.copy(holder, f"{name}/copy")
        context.alias(name, Alias(**{**vars(alias), "holder": copy}))
