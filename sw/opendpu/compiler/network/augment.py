# SPDX-License-Identifier: Apache-2.0
"""Pass: fold the kernel width of a first layer into its channels.

A convolution of a few channels leaves most lanes of the array empty. LOAD can read a pixel as the
bytes that a whole kernel row covers, so that neighbours overlap; the kernel is then one column wide
and the lanes are full. LOAD zeroes what lies left and right of a row, or makes it the zero point.
"""

import dataclasses

from opendpu.compiler.layers import ConvLayer, Feature
from opendpu.compiler.limits import MAX_LOAD_PAD
from opendpu.compiler.network import Alias, Network
from opendpu_arch.target import Target

MAX_CHANNELS = 64
"""Bytes of a pixel up to which LOAD zeroes what is outside its row."""


def augment(network: Network, target: Target) -> Network:
    """Return ``network`` with the kernels of convolutions that read its inputs folded."""
    readers = network.consumers
    features, aliases = dict(network.features), dict(network.aliases)
    layers = list(network.layers)
    held = {alias.holder for alias in aliases.values()}
    for number, layer in enumerate(network.layers):
        if not isinstance(layer, ConvLayer) or layer.depthwise or not layer.WHOLE_KERNEL:
            continue
        if layer.source not in network.inputs:
            continue
        if len(readers[layer.source]) > 1 or layer.source in held:
            continue
        if layer.source in network.outputs or not _pays(layer, network, target):
            continue
        source, out, window = features[layer.source], features[layer.output], layer.window
        outputs, kernel_h, kernel_w, channels = layer.weights.shape
        name = f"{layer.name}/augmented"
        features[name] = Feature(
            name=name, height=source.height, width=out.width, channels=kernel_w * channels
        )
        aliases[name] = Alias(
            holder=layer.source, offset=-window.pad_left * channels,
            pixel_bytes=window.stride_w * channels, row_bytes=source.width * channels,
            overlapping=True,
            padding=0 if layer.requantization is None else layer.requantization.padding,
        )  # fmt: skip
        layers[number] = dataclasses.replace(
            layer, source=name,
            window=dataclasses.replace(window, kernel_w=1, stride_w=1, pad_left=0),
            weights=layer.weights.reshape(outputs, kernel_h, 1, kernel_w * channels),
        )  # fmt: skip
    return dataclasses.replace(network, features=features, layers=tuple(layers), aliases=aliases)


def _pays(layer: ConvLayer, network: Network, target: Target) -> bool:
    """Tell whether the target can fold the kernel, and needs fewer steps if it does."""
    source, out, window = (
        network.features[layer.source], network.features[layer.output], layer.window
    )  # fmt: skip
    parallel = target.input_channel_parallel
    channels = source.channels
    folded = window.kernel_w * channels
    if not target.channel_augmentation or folded > min(2 * parallel, MAX_CHANNELS):
        return False
    if window.kernel_w < window.stride_w:
        return False  # LOAD zeroes nothing where pixels leave gaps
    slack = -folded % parallel
    right = (out.width - 1) * window.stride_w + window.kernel_w - window.pad_left - source.width
    if max(window.pad_left, right, 0) * channels + slack > MAX_LOAD_PAD:
        return False
    steps = window.kernel_w * -(-channels // parallel)
    return -(-folded // parallel) < steps
