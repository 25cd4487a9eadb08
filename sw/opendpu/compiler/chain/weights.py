# SPDX-License-Identifier: Apache-2.0
"""Weights of a chain: they are on chip all at once."""

from collections.abc import Sequence

from opendpu.compiler.cost import transfer_cycles
from opendpu.compiler.plan import AluLayer, ComputeLayer, ConvLayer, EltwiseLayer, Network
from opendpu_arch.target import Target


def weights_fit(network: Network, target: Target, layers: Sequence[ComputeLayer]) -> bool:
    """Tell whether weights and biases of all layers fit their banks."""
    conv = alu = biases = 0
    for layer in layers:
        if isinstance(layer, EltwiseLayer):
            continue
        out = network.features[layer.output]
        biases += -(-out.channels // target.channel_parallel)
        if layer.weights is None:
            continue
        taps = layer.window.kernel_h * layer.window.kernel_w
        if isinstance(layer, ConvLayer):
            inputs = network.features[layer.source].channels
            blocks = -(-out.channels // target.output_channel_parallel)
            conv += taps * -(-inputs // target.input_channel_parallel) * blocks
        else:
            alu += taps * -(-out.channels // target.channel_parallel)
    return max(conv, alu, biases) <= target.bank_depth


def weight_cycles(target: Target, layers: Sequence[ComputeLayer]) -> int:
    """Return the cycles to load the weights of all layers."""
    parallel = target.channel_parallel
    total = 0
    for layer in layers:
        if isinstance(layer, ConvLayer):
            outputs, height, width, inputs = layer.weights.shape
            total += outputs * transfer_cycles(height * width, inputs, inputs, parallel)
        elif isinstance(layer, AluLayer) and layer.weights is not None:
            rows, columns, channels = layer.weights.shape
            total += transfer_cycles(rows * columns, channels, channels, parallel)
    return total
