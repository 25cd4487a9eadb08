# SPDX-License-Identifier: Apache-2.0
"""Pass: products with a single pixel as depthwise convolutions, whose weights are that pixel.

The misc engine takes a step for each operand of a product, and one for a kernel of one pixel. The
pixel has to be saved and loaded first, which is worth it where there are many others.
"""

import dataclasses

from opendpu.compiler.layers import BroadcastLayer, ScaleLayer, Window, channel_groups
from opendpu.compiler.layers.cost import LATENCY
from opendpu.compiler.network import Network
from opendpu_arch.isa import ActType, AluMode, ElewType
from opendpu_arch.target import Target

WAIT = 16 * LATENCY
"""Cycles from the pixel's last channel to its use: SAVE and LOAD, with their latencies."""
RIGHT = 16
"""``shift_write`` from which on ELEW shifts to the right."""


def scale(network: Network, target: Target) -> Network:
    """Return ``network`` with kernels of one pixel for products with a pixel, where that pays."""
    layers = tuple(
        _scaled(layer)
        if type(layer) is BroadcastLayer and _is_scale(layer) and pays(layer, network, target)
        else layer
        for layer in network.layers
    )
    return dataclasses.replace(network, layers=layers)


def _is_scale(layer: BroadcastLayer) -> bool:
    """Tell whether a layer is a product, and shifts as the misc engine does it for kernels."""
    if layer.kind != ElewType.MULT or layer.requantization is not None:
        return False
    return not 0 < layer.shift_write < RIGHT and not any(layer.shift_read)


def pays(layer: BroadcastLayer, network: Network, target: Target) -> bool:
    """Tell whether a kernel saves more steps than it waits for the pixel."""
    out = network.features[layer.output]
    rows = -(-out.height // target.alu_pixel_parallel)
    return rows * out.width * channel_groups(out, target) > WAIT


def _scaled(layer: BroadcastLayer) -> ScaleLayer:
    source, factors = layer.sources
    return ScaleLayer(
        name=layer.name, output=layer.output, op=layer.op, source=source, factors=factors,
        window=Window(), mode=AluMode.DWCVB0, table=layer.table,
        shift_cut=max(0, layer.shift_write - RIGHT),
        act_type=ActType.RELU if layer.relu else ActType.NONE,
    )  # fmt: skip
