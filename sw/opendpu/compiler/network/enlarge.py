# SPDX-License-Identifier: Apache-2.0
"""Pass: a convolution of pixels that were put into channels is one of the pixels, with a stride.

Focus, SpaceToDepth and the merging of patches copy each square of pixels into the channels of one.
A convolution of that is one of the original map: its kernel is larger by the sides of the square,
which are its strides. The copies are no longer made, and the first layer of a network then has so
few channels that LOAD can fold its kernel (:mod:`opendpu.compiler.network.augment`).
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from opendpu.compiler.layers import (
    ConvLayer,
    Feature,
    Features,
    Int8Array,
    Layer,
    MoveLayer,
    Window,
)
from opendpu.compiler.layers.cost import LATENCY, feature_cycles
from opendpu.compiler.limits import MAX_CONV_KERNEL, MAX_CONV_STRIDE, MAX_PAD_BEFORE
from opendpu.compiler.network.alias import root_of
from opendpu.compiler.network.augment import cheapest, foldable
from opendpu.compiler.network.network import Network
from opendpu.compiler.network.strides import Strides, dense, strides_through
from opendpu_arch.target import Target

CyclesAlone = Callable[[Layer, Features, Target], int | None]
"""Cycles that a layer takes alone; none where it has no room."""
Place = tuple[int, int, int]
"""Row and column in a square of pixels, and channel."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Squares:
    """A feature map whose pixels are squares of another, what reads it, and the copies."""

    name: str
    pixels: str
    """The other feature map."""
    rows: int
    columns: int
    """Sides of a square."""
    places: tuple[Place, ...]
    """Where each channel comes from."""
    copies: frozenset[str]
    """Results of the layers that copy."""
    readers: tuple[ConvLayer, ...]


def enlarge(network: Network, target: Target, cycles_alone: CyclesAlone) -> Network:
    """Return ``network`` with larger kernels instead of copies, where that takes less."""
    for name in network.features:
        found = _squares(network, name) if name in network.features else None
        if found is not None:
            network = _enlarged(network, found, target, cycles_alone)
    return network


def _squares(network: Network, name: str) -> _Squares | None:
    """Return where the channels of a feature map come from, if only convolutions read it."""
    whole, root = network.features[name], root_of(network.aliases, name)
    readers = [network.layers[number] for number in network.consumers[name]]
    if not readers or whole.planes or _strides(network, name) != dense(whole):
        return None
    family = {one for one in network.features if root_of(network.aliases, one) == root}
    if family & {*network.inputs, *network.outputs, *network.constants}:
        return None
    if any(network.consumers[one] for one in family - {name}):
        return None
    copies = [layer for layer in network.layers if layer.output in family]
    found = _origins(network, whole, copies)
    kernels = tuple(one for one in readers if isinstance(one, ConvLayer) and _is_plain(one, name))
    if found is None or len(kernels) < len(readers):
        return None
    pixels, places = found
    given = network.features[pixels]
    rows, columns = given.height // whole.height, given.width // whole.width
    if (rows, columns) == (1, 1):
        return None
    return _Squares(
        name=name, pixels=pixels, rows=rows, columns=columns, places=places, readers=kernels,
        copies=frozenset(layer.output for layer in copies),
    )  # fmt: skip


def _is_plain(layer: ConvLayer, name: str) -> bool:
    """Tell whether a convolution of a feature map may have another kernel."""
    return (
        type(layer) is ConvLayer
        and not layer.depthwise
        and layer.epilogue is None
        and layer.source == name
    )


def _strides(network: Network, name: str, root: str | None = None) -> Strides | None:
    """Return where a feature map is in the one whose bytes it is, or in ``root``."""
    feature, alias = network.features[name], network.aliases.get(name)
    if alias is None or name == root:
        return dense(feature)
    placed = _strides(network, alias.holder, root)
    if placed is None or alias.overlapping or alias.repeats:
        return None
    return strides_through(alias, feature, network.features[alias.holder], placed)


def _origins(
    network: Network, whole: Feature, copies: Sequence[Layer]
) -> tuple[str, tuple[Place, ...]] | None:
    """Return a feature map, and the place in its squares that each channel is copied from."""
    if not copies:
        return None
    for pixels in _holders(network, copies[0]):
        places: dict[int, Place] = {}
        for copy in copies:
            places |= _copied(network, whole, network.features[pixels], copy)
        every = tuple(places[n] for n in range(whole.channels) if n in places)
        if len(every) == whole.channels == len({*every}):
            return pixels, every
    return None


def _holders(network: Network, copy: Layer) -> Iterator[str]:
    """Yield what a layer copies, and the feature maps that this is part of."""
    name = copy.source if isinstance(copy, MoveLayer) else None
    while name is not None:
        yield name
        name = network.aliases[name].holder if name in network.aliases else None


def _copied(network: Network, whole: Feature, pixels: Feature, copy: Layer) -> Mapping[int, Place]:
    """Return the channels that a layer writes, and where they come from; none if not whole."""
    if not isinstance(copy, MoveLayer) or copy.source is None or copy.only_repeats:
        return {}
    made, source = network.features[copy.output], network.features[copy.source]
    to = _strides(network, copy.output)
    if copy.reduction is not None or to is None:
        return {}
    if pixels.name not in {*_holders(network, copy)}:
        return {}
    origin = _strides(network, copy.source, pixels.name)
    line = dense(whole)
    if origin is None or (made.height, made.width) != (whole.height, whole.width):
        return {}
    if (to.pixel_bytes, to.row_bytes) != (line.pixel_bytes, line.row_bytes):
        return {}
    rows, columns = pixels.height // whole.height, pixels.width // whole.width
    if (rows * whole.height, columns * whole.width) != (pixels.height, pixels.width):
        return {}
    row = pixels.width * pixels.channels
    if (origin.pixel_bytes, origin.row_bytes) != (columns * pixels.channels, rows * row):
        return {}
    found = {}
    for number in range(source.channels):
        down, rest = divmod(origin.offset + number, row)
        across, channel = divmod(rest, pixels.channels)
        if down < rows and across < columns:
            found[to.offset + number] = (down, across, channel)
    return found


def _enlarged(
    network: Network, found: _Squares, target: Target, cycles_alone: CyclesAlone
) -> Network:
    """Return the network without the copies, if that takes fewer cycles."""
    made = {}
    for layer in found.readers:
        larger = _larger(layer, found, network.features[found.pixels])
        if larger is None:
            return network
        made[layer.output] = larger
    layers = tuple(
        made.get(layer.output, layer)
        for layer in network.layers
        if layer.output not in found.copies
    )
    after = _without_unused(dataclasses.replace(network, layers=layers))
    old = _cycles(found.readers, network, target, cycles_alone)
    new = _cycles(list(made.values()), after, target, cycles_alone)
    if old is not None and new is not None:
        return after if new < old + copying_cycles(network, found, old, target) else network
    return network if new is None else after


def _cycles(
    layers: Sequence[ConvLayer], network: Network, target: Target, cycles_alone: CyclesAlone
) -> int | None:
    """Return the cycles of layers one after the other, with kernels folded where LOAD can."""
    total = 0
    for layer in layers:
        features = network.features
        folded = cheapest(layer, network, target) if foldable(layer, network) else None
        if folded is not None:
            layer, features = folded.layer, {**features, folded.source.name: folded.source}
        cycles = cycles_alone(layer, features, target)
        if cycles is None:
            return None
        total += cycles
    return total


def copying_cycles(network: Network, found: _Squares, reading: int, target: Target) -> int:
    """Return the cycles that copies take, and those that ``reading`` them takes more than alone.

    Copies lie beside each other, and SAVE jumps from pixel to pixel; or they are planes
    (:mod:`opendpu.compiler.network.planar`), of which each takes whole words of the banks.
    """
    whole, parallel = network.features[found.name], target.channel_parallel
    made = [network.features[name] for name in found.copies]
    jumps = sum(feature_cycles(one, parallel, whole.channels) for one in made)
    planes = sum(feature_cycles(one, parallel) for one in made)
    words = sum(-(-one.channels // parallel) for one in made)
    more = reading * words // -(-whole.channels // parallel) - reading
    return 2 * LATENCY + min(jumps, planes + more)


def _larger(layer: ConvLayer, found: _Squares, pixels: Feature) -> ConvLayer | None:
    """Return a convolution of the pixels; none where no instruction has such a kernel."""
    old = layer.window
    window = Window(
        kernel_h=old.kernel_h * found.rows, kernel_w=old.kernel_w * found.columns,
        stride_h=old.stride_h * found.rows, stride_w=old.stride_w * found.columns,
        pad_top=old.pad_top * found.rows, pad_left=old.pad_left * found.columns,
    )  # fmt: skip
    if max(window.kernel_h, window.kernel_w) > MAX_CONV_KERNEL:
        return None
    if max(window.stride_h, window.stride_w) > MAX_CONV_STRIDE:
        return None
    if max(window.pad_top, window.pad_left) > MAX_PAD_BEFORE:
        return None
    return dataclasses.replace(
        layer, source=found.pixels, window=window, weights=_spread(layer.weights, found, pixels)
    )


def _spread(weights: Int8Array, found: _Squares, pixels: Feature) -> Int8Array:
    """Return OHWI weights whose channels are where they come from, zeros elsewhere."""
    outputs, height, width, _ = weights.shape
    made = np.zeros((outputs, height, found.rows, width, found.columns, pixels.channels), np.int8)
    for number, (row, column, channel) in enumerate(found.places):
        made[:, :, row, :, column, channel] = weights[..., number]
    return made.reshape(outputs, height * found.rows, width * found.columns, pixels.channels)


def _without_unused(network: Network) -> Network:
    """Return the network without feature maps that nothing makes, reads or is part of any more."""
    used = {*network.inputs, *network.outputs, *network.constants}
    for layer in network.layers:
        used |= {*layer.operands, layer.output}
        used |= {one.output for one in layer.inner}
    waiting = list(used)
    while waiting:
        name = waiting.pop()
        near = list(network.features[name].planes) if name in network.features else []
        if name in network.aliases:
            near.append(network.aliases[name].holder)
        waiting += [one for one in near if one not in used]
        used.update(near)
    features = {name: one for name, one in network.features.items() if name in used}
    aliases = {name: one for name, one in network.aliases.items() if name in used}
    return dataclasses.replace(network, features=features, aliases=aliases)
