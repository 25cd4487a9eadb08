# SPDX-License-Identifier: Apache-2.0
"""Pass: fold kernel columns of a first layer into its channels.

A convolution of a few channels leaves most lanes of the array empty. LOAD can read a pixel as the
bytes of several neighbours, so that pixels overlap; the kernel then has fewer columns, and the
lanes are full. With all of its columns in a pixel the kernel is one column wide; where that takes a
word more, some of them in each pixel may be as many steps, or fewer. LOAD zeroes what lies left and
right of a row, or makes it the zero point.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from opendpu.compiler.layers import ConvLayer, Feature, Int8Array
from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.limits import MAX_LOAD_PAD, MAX_PADDED_BYTES
from opendpu.compiler.network.alias import Alias
from opendpu.compiler.network.join_windows import windows_together
from opendpu.compiler.network.network import Network
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True, kw_only=True)
class Folding:
    """Kernel columns in a pixel, and from one pixel to the next; kernel columns that are left."""

    columns: int
    step: int
    taps: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Folded:
    """A layer whose kernel is folded, and the input that LOAD makes for it."""

    layer: ConvLayer
    source: Feature
    alias: Alias


def augment(network: Network, target: Target) -> Network:
    """Return ``network`` with the kernels of convolutions that read its inputs folded."""
    features, aliases = dict(network.features), dict(network.aliases)
    layers = list(network.layers)
    for number, layer in enumerate(network.layers):
        if isinstance(layer, ConvLayer) and foldable(layer, network):
            found = cheapest(layer, network, target)
            if found is not None:
                features[found.source.name] = found.source
                aliases[found.source.name] = found.alias
                layers[number] = found.layer
    return dataclasses.replace(network, features=features, layers=tuple(layers), aliases=aliases)


def foldable(layer: ConvLayer, network: Network) -> bool:
    """Tell whether a convolution alone reads an input, which nothing else is part of."""
    if layer.depthwise or not layer.WHOLE_KERNEL or layer.source in network.parts:
        return False
    given = layer.source in network.inputs and layer.source not in network.outputs
    return given and len(network.consumers[layer.source]) == 1


def cheapest(layer: ConvLayer, network: Network, target: Target) -> Folded | None:
    """Return a layer with the folding that takes the fewest cycles; none where it stays as it is.

    Of those that take as many, it is the one with the most columns in a pixel.
    """
    best, least = None, cycles_of(layer, network, target)
    for one in foldings(layer, network, target):
        made = _folded(layer, network, one)
        own = {**network.features, made.source.name: made.source}
        after = dataclasses.replace(
            network, features=own, aliases={**network.aliases, made.source.name: made.alias}
        )
        cycles = cycles_of(made.layer, after, target)
        if cycles < least:
            best, least = made, cycles
    return best


def cycles_of(layer: ConvLayer, network: Network, target: Target) -> int:
    """Return the cycles of array and LOAD side by side.

    LOAD may bring several windows of a kernel of one column together.
    """
    source, alias = network.features[layer.source], network.aliases.get(layer.source)
    out, width = network.features[layer.output], source.width
    jump = source.channels if alias is None else alias.pixel_bytes
    if alias is not None and layer.window.kernel_w == layer.window.stride_w == 1:
        width //= windows_together(network, layer, target)
    load = source.height * transfer_cycles(width, source.channels, jump, target.channel_parallel)
    array = _array_cycles(layer, network, target, out.height, out.width)
    if alias is None:  # a later pass may exchange rows and columns
        array = min(array, _array_cycles(layer, network, target, out.width, out.height))
    return max(load, array)


def _array_cycles(
    layer: ConvLayer, network: Network, target: Target, rows: int, columns: int
) -> int:  # fmt: skip
    times = -(-rows // layer.row_parallel(target))
    return times * layer.blocks_cycles(network.features, target, columns)


def foldings(layer: ConvLayer, network: Network, target: Target) -> Iterator[Folding]:
    """Yield how the kernel can be folded; all of its columns in a pixel come first."""
    if not target.channel_augmentation or layer.window.kernel_w == 1:
        return
    window, source = layer.window, network.features[layer.source]
    columns = min(max(window.kernel_w, window.stride_w), MAX_PADDED_BYTES // source.channels)
    strides = [step for step in range(window.stride_w, 0, -1) if window.stride_w % step == 0]
    for count in range(columns, 0, -1):
        for step in strides:
            if step <= count:  # LOAD zeroes nothing where pixels leave gaps
                taps = 1 + -(-max(0, window.kernel_w - count) // step)
                one = Folding(columns=count, step=step, taps=taps)
                if _can_pad(layer, network, one, target):
                    yield one


def _can_pad(layer: ConvLayer, network: Network, one: Folding, target: Target) -> bool:
    """Tell whether LOAD can zero what pixels have outside their row."""
    window, source = layer.window, network.features[layer.source]
    last = (network.features[layer.output].width - 1) * window.stride_w + (one.taps - 1) * one.step
    right = last + one.columns - window.pad_left - source.width
    slack = -(one.columns * source.channels) % target.input_channel_parallel
    return max(window.pad_left, right, 0) * source.channels + slack <= MAX_LOAD_PAD


def _folded(layer: ConvLayer, network: Network, one: Folding) -> Folded:
    source, out, window = (
        network.features[layer.source], network.features[layer.output], layer.window
    )  # fmt: skip
    channels, name = source.channels, f"{layer.name}/augmented"
    stride = window.stride_w // one.step
    return Folded(
        layer=dataclasses.replace(
            layer, source=name, weights=_weights(layer.weights, one),
            window=dataclasses.replace(
                window, kernel_w=one.taps, stride_w=stride,
                pad_left=0,
            ),
        ),
        source=Feature(
            name=name, height=source.height, width=(out.width - 1) * stride + one.taps,
            channels=one.columns * channels,
        ),
        alias=Alias(
            holder=layer.source, offset=-window.pad_left * channels,
            pixel_bytes=one.step * channels, row_bytes=source.width * channels, overlapping=True,
            padding=0 if layer.requantization is None else layer.requantization.padding,
        ),
    )  # fmt: skip


def _weights(weights: Int8Array, one: Folding) -> Int8Array:
    """Return OHWI weights of which every column is in the first pixel that has it."""
    outputs, height, width, channels = weights.shape
    made = np.zeros((outputs, height, one.taps, one.columns, channels), np.int8)
    for column in range(width):
        tap = min(column // one.step, one.taps - 1)
        made[:, :, tap, column - tap * one.step] = weights[:, :, column]
    return made.reshape(outputs, height, one.taps, one.columns * channels)
