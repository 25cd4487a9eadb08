# SPDX-License-Identifier: Apache-2.0
"""Weights of a cascade: they are on chip all at once."""

from collections.abc import Sequence

from opendpu.compiler.layers import ComputeLayer
from opendpu.compiler.network import Network
from opendpu_arch.target import Target


def weights_fit(network: Network, target: Target, layers: Sequence[ComputeLayer]) -> bool:
    """Tell whether weights and biases of all layers fit their banks."""
    words = [layer.weight_words(network.features, target) for layer in layers]
    most = max(sum(w.conv for w in words), sum(w.alu for w in words), sum(w.bias for w in words))
    return most <= target.bank_depth


def weight_cycles(target: Target, layers: Sequence[ComputeLayer]) -> int:
    """Return the cycles to load the weights of all layers."""
    return sum(layer.weight_cycles(target) for layer in layers)
