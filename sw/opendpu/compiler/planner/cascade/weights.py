# SPDX-License-Identifier: Apache-2.0
"""Weights of a cascade: they are on chip all at once. Terms of ``scaled`` are, if they fit."""

from collections.abc import Sequence

from opendpu.compiler.layers import ComputeLayer, EltwiseLayer
from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.network import Network
from opendpu_arch.scaled import SLOT_TERMS, TERM_BYTES, TERM_SLOTS
from opendpu_arch.target import Target


def weights_fit(network: Network, target: Target, layers: Sequence[ComputeLayer]) -> bool:
    """Tell whether weights and biases of all layers fit their banks."""
    words = [layer.weight_words(network.features, target) for layer in layers]
    most = max(sum(w.conv for w in words), sum(w.alu for w in words), sum(w.bias for w in words))
    return most <= target.bank_depth


def weight_cycles(target: Target, layers: Sequence[ComputeLayer]) -> int:
    """Return the cycles to load the weights of all layers."""
    return sum(layer.weight_cycles(target) for layer in layers)


def term_cycles(target: Target, layers: Sequence[ComputeLayer], stripes: Sequence[int]) -> int:
    """Return the cycles to load the terms of all layers, which are made in so many stripes each.

    If there are more than slots, every stripe loads its own again.
    """
    each = transfer_cycles(SLOT_TERMS, TERM_BYTES, TERM_BYTES, target.channel_parallel)
    own = [
        {terms.tobytes() for part in (layer, *layer.inner) if isinstance(part, EltwiseLayer)
         for terms in part.terms}
        for layer in layers
    ]  # fmt: skip
    different = len(set[bytes]().union(*own))
    if different <= TERM_SLOTS:
        return each * different
    return each * sum(len(terms) * many for terms, many in zip(own, stripes, strict=True))
