# SPDX-License-Identifier: Apache-2.0
"""What the engines do for layers at least, however these are cut into cascades.

A cascade makes only those columns of a result that somebody needs: a window may leave out the last
ones, and tiles of columns leave out those between the strides of what reads them.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from opendpu.compiler.layers import ComputeLayer, Feature, Layer, Window
from opendpu.compiler.network import Network
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target

Needed = npt.NDArray[np.bool_]
"""Which columns of a feature map are needed."""


def least_work(network: Network, target: Target) -> list[tuple[int, int]]:
    """Return the cycles of CONV and of the misc engine for the layers before each, and for all."""
    needed = _needed_columns(network)
    sums = [(0, 0)]
    for layer in network.layers:
        conv, misc = sums[-1]
        if isinstance(layer, ComputeLayer):
            out = network.features[layer.output]
            narrow = dataclasses.replace(out, width=int(needed[layer.output].sum()))
            work = layer.engine_cycles({**network.features, layer.output: narrow}, target)
            conv, misc = conv + work.get(Engine.CONV, 0), misc + work.get(Engine.MISC, 0)
        sums.append((conv, misc))
    return sums


def _needed_columns(network: Network) -> dict[str, Needed]:
    """Return the columns of every feature map that results of the network depend on.

    All columns of what is an output, or bytes of another feature map.
    """
    whole = network.parts.keys() | network.aliases.keys()
    whole |= {*network.outputs, *network.in_pieces}
    whole |= {n.output for n in network.layers if not isinstance(n, ComputeLayer)}
    needed = {
        name: np.full(feature.width, name in whole) for name, feature in network.features.items()
    }
    for layer in reversed(network.layers):
        for name in layer.operands:
            for read in network.read_with(name):
                needed[read] |= _columns(layer, name, network.features[name], needed[layer.output])
    return needed


def _columns(layer: Layer, name: str, feature: Feature, made: Needed) -> Needed:
    """Return the columns of an operand that a layer reads to make those columns of its result.

    All of them where it is in no cascade: whoever makes the operand saves it whole.
    """
    if not isinstance(layer, ComputeLayer) or not layer.IN_CASCADES or layer.repeats(name):
        return np.ones(feature.width, dtype=np.bool_)
    if layer.columns_a_pixel > 1:
        return np.ones(feature.width, dtype=np.bool_)
    window = layer.sliding_window(name)
    return made if window is None else _read(window, feature, made)


def _read(window: Window, feature: Feature, columns: Needed) -> Needed:
    """Return the columns of ``feature`` that the window meets for ``columns`` of its result."""
    read = np.zeros(feature.width, dtype=np.bool_)
    for tap in range(window.kernel_w):
        places = np.flatnonzero(columns) * window.stride_w - window.pad_left + tap
        read[places[(places >= 0) & (places < feature.width)]] = True
    return read
