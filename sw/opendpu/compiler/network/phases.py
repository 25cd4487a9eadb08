# SPDX-License-Identifier: Apache-2.0
"""Pass: pointwise convolutions read the phases of a transposed one, not the map that these fill.

A transposed convolution is several layers; each makes some rows of the result, its neighbouring
pixels as further channels. A convolution of one pixel behind it does not need the whole: it becomes
one layer a phase, whose weights stand once for each of these pixels, on a diagonal of blocks. The
enlarged map is then never assembled in DDR, and all of these layers can run in one cascade. So does
another transposed convolution whose kernel is its stride, as at the end of text detectors.
"""

import dataclasses
from typing import Any

import numpy as np

from opendpu.compiler.layers import ConvLayer, Feature, Int8Array, Window
from opendpu.compiler.limits import MAX_CHANNEL_GROUPS
from opendpu.compiler.network import Alias, Network
from opendpu_arch.target import Target

POINT = Window(kernel_h=1, kernel_w=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Phase:
    """A part of a feature map: ``rows`` apart from ``first`` on, ``pixels`` side by side."""

    name: str
    first: int
    rows: int
    pixels: int


def read_phases(network: Network, target: Target) -> Network:
    """Return ``network`` with pointwise convolutions of phases, where the array takes no longer."""
    for name in network.parts:
        found = _phases(network, name)
        if found:
            network = _split(network, name, found, target)
    return network


def _phases(network: Network, name: str) -> list[_Phase]:
    """Return the phases that fill a feature map and that nothing else reads; none if others do."""
    whole, readers, writers = network.features[name], network.consumers, network.writers
    ends = (network.inputs, network.outputs, writers, network.aliases)
    if any(name in names for names in ends) or whole.planes:
        return []
    found, line = [], whole.width * whole.channels
    for part, alias in network.parts.get(name, {}).items():
        feature, rest = network.features[part], alias.offset % line or alias.row_bytes % line
        pixels = feature.channels // whole.channels
        if rest or alias.overlapping or alias.repeats or readers[part] or part in network.outputs:
            return []
        if alias.pixel_bytes != pixels * whole.channels or pixels * feature.width != whole.width:
            return []
        if part in network.in_pieces or not isinstance(writers.get(part), ConvLayer):
            return []
        found.append(
            _Phase(name=part, first=alias.offset // line, rows=alias.row_bytes // line,
                   pixels=pixels)
        )  # fmt: skip
    made = sorted(
        row
        for phase in found
        for row in range(phase.first, whole.height, phase.rows)[
            : network.features[phase.name].height
        ]
    )
    return found if len(found) > 1 and made == list(range(whole.height)) else []


def _split(network: Network, name: str, phases: list[_Phase], target: Target) -> Network:
    """Let the readers of a feature map read its phases, if all of them can."""
    reading = [network.layers[number] for number in network.consumers[name]]
    if not reading or not all(_can_split(network, one, name, phases, target) for one in reading):
        return network
    features, aliases = dict(network.features), dict(network.aliases)
    layers = []
    for layer in network.layers:
        if layer not in reading or not isinstance(layer, ConvLayer):
            layers.append(layer)
            continue
        for phase in phases:
            made = _of_phase(layer, phase)
            source, result = features[phase.name], network.features[layer.output]
            features[made.output] = Feature(
                name=made.output, height=source.height, width=source.width,
                channels=phase.pixels * result.channels,
            )  # fmt: skip
            aliases[made.output] = _place(network, layer.output, phase)
            layers.append(made)
        if layer.output in aliases:
            del features[layer.output], aliases[layer.output]
    for phase in phases:
        del aliases[phase.name]
    del features[name]
    return dataclasses.replace(network, features=features, aliases=aliases, layers=tuple(layers))


def _can_split(
    network: Network, layer: object, name: str, phases: list[_Phase], target: Target
) -> bool:
    """Tell whether a layer can read phases, and the array is not longer at it then."""
    if type(layer) is not ConvLayer or layer.depthwise or layer.epilogue is not None:
        return False
    if layer.window != POINT or layer.source != name or _base(network, layer.output) is None:
        return False
    if layer.output in network.aliases and network.consumers[layer.output]:
        return False
    channels, results = network.features[name].channels, network.features[layer.output].channels
    old, new = _passes(channels, results, target), 0.0
    for phase in phases:
        if phase.pixels * max(channels, results) > MAX_CHANNEL_GROUPS * target.channel_parallel:
            return False
        new += _passes(phase.pixels * channels, phase.pixels * results, target) / phase.pixels
    return new <= old * len(phases)


def _passes(channels: int, results: int, target: Target) -> int:
    """Return how often the array passes a pixel."""
    return -(-channels // target.input_channel_parallel) * -(
        -results // target.output_channel_parallel
    )


def _base(network: Network, name: str) -> Alias | None:
    """Return where a feature map is in one with bytes of its own, if its rows have no gaps there.

    None too where something else reads it or is part of it.
    """
    feature = network.features[name]
    if name in network.in_pieces:
        return None
    if name not in network.aliases:
        size = feature.channels
        return Alias(holder=name, offset=0, pixel_bytes=size, row_bytes=size * feature.width)
    found = network.aliases[name]
    fixed = found.holder not in network.aliases and not (found.overlapping or found.repeats)
    return found if fixed and found.pixel_bytes == feature.channels else None


def _place(network: Network, name: str, phase: _Phase) -> Alias:
    """Return where the results of a phase are."""
    base = _base(network, name)
    assert base is not None
    return Alias(
        holder=base.holder, offset=base.offset + phase.first * base.row_bytes,
        pixel_bytes=phase.pixels * base.pixel_bytes, row_bytes=phase.rows * base.row_bytes,
    )  # fmt: skip


def _of_phase(layer: ConvLayer, phase: _Phase) -> ConvLayer:
    """Return the layer for one phase."""
    name = f"{layer.output}/{phase.first}"
    own: dict[str, Any] = {
        key: np.tile(values, phase.pixels) for key, values in layer.per_channel.items()
    }
    weights = _diagonal(layer.weights, phase.pixels)
    return dataclasses.replace(
        layer, name=name, source=phase.name, output=name, weights=weights, **own
    )


def _diagonal(weights: Int8Array, times: int) -> Int8Array:
    """Return weights OHWI of as many pixels, each of which meets its own channels only."""
    count, *_, channels = weights.shape
    made = np.zeros((times, count, 1, 1, times, channels), weights.dtype)
    for pixel in range(times):
        made[pixel, :, :, :, pixel] = weights
    return made.reshape(times * count, 1, 1, times * channels)
