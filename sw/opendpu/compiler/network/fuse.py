# SPDX-License-Identifier: Apache-2.0
"""Pass: give convolutions the element-wise operation that follows them.

The results of the convolution then wait in the banks, a tile at a time, until the misc engine has
combined them with the other operands; they never travel to DDR, whatever their size.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from opendpu.compiler.layers import ConvLayer, EltwiseLayer, Epilogue
from opendpu.compiler.network import Network
from opendpu_arch.target import Target


def fuse(network: Network, target: Target) -> Network:
    """Return ``network`` with additions and products fused to the last convolution before them."""
    layers = list(network.layers)
    gone: set[int] = set()
    made = {layer.output: n for n, layer in enumerate(network.layers)}
    readers = network.consumers
    for number, layer in enumerate(network.layers):
        if isinstance(layer, EltwiseLayer) and not any(map(layer.repeats, layer.sources)):
            host = _host(network, layer, made, readers)
            if host is not None:
                fused = layers[host]
                assert isinstance(fused, ConvLayer)
                layers[host] = dataclasses.replace(
                    fused, output=layer.output,
                    epilogue=Epilogue(layer=layer, tile=fused.output),
                )  # fmt: skip
                gone.add(number)
    return dataclasses.replace(
        network, layers=tuple(x for n, x in enumerate(layers) if n not in gone)
    )


def _host(
    network: Network,
    layer: EltwiseLayer,
    made: Mapping[str, int],
    readers: Mapping[str, Sequence[int]],
) -> int | None:
    """Return the convolution that can take ``layer``: all other operands are there before it."""
    if len(set(layer.sources)) != len(layer.sources) or len(layer.sources) < 2:
        return None
    held = network.parts
    for name in layer.sources:
        pieces = name in held and name not in made and name not in network.inputs
        if name in network.aliases or pieces:
            return None
    host = max(made.get(name, -1) for name in layer.sources)
    if host < 0:
        return None
    tile = network.layers[host].output
    alone = readers[tile] == [made[layer.output]] and tile not in network.outputs
    if not alone or tile in held or not isinstance(network.layers[host], ConvLayer):
        return None
    return host
