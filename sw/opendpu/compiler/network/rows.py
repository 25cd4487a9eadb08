# SPDX-License-Identifier: Apache-2.0
"""Pass: layers without a window see low maps with as many rows as the array has.

An instruction makes several rows at a time, so a map of three rows leaves most of the array idle,
and one of a single row (a sequence of tokens) nearly all. Where pixels do not meet each other it
does not matter where they are: layers that only compute with pixels at the same place, and the
feature maps between them, get another number of rows. At its borders such a part reads and writes
the bytes of the original maps in DDR, where both shapes are the same.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from opendpu.compiler.layers import (
    AluLayer,
    ComputeLayer,
    ConvLayer,
    EltwiseLayer,
    Feature,
    Features,
    Layer,
    Window,
)
from opendpu.compiler.layers.cost import LATENCY, feature_cycles
from opendpu.compiler.network import Alias, Network
from opendpu_arch.target import Target

TRANSFERS = 2
"""Times the transfers of its borders that a part has to save: its neighbours wait for them."""
LEAST_SHARE = 0.15
"""Part of its cycles that it has to save besides: it no longer overlaps with its neighbours."""


def fill_rows(network: Network, target: Target) -> Network:
    """Return ``network`` with other numbers of rows where that costs less."""
    features, aliases = dict(network.features), dict(network.aliases)
    layers = list(network.layers)
    for part in _parts(network):
        shape = _best_shape(network, part, target)
        if shape is None:
            continue
        renamed = {}
        for name in part.features:
            feature = dataclasses.replace(features[name], height=shape[0], width=shape[1])
            if name not in part.borders:
                features[name] = feature
                continue
            renamed[name] = f"{name}/rows"
            features[renamed[name]] = dataclasses.replace(feature, name=renamed[name])
            aliases[renamed[name]] = _same_bytes(network, name, feature)
        for number in part.layers:
            layers[number] = _with_names(layers[number], renamed)
    return dataclasses.replace(network, features=features, layers=tuple(layers), aliases=aliases)


@dataclasses.dataclass(frozen=True)
class _Part:
    """Connected layers without windows, their feature maps, and those that others know too."""

    layers: tuple[int, ...]
    features: tuple[str, ...]
    borders: frozenset[str]


def _is_pointwise(layer: Layer, features: Features) -> bool:
    """Tell whether a layer computes every pixel from those at the same place, and leaves out none.

    A phase of a transposed convolution may have fewer pixels than its input.
    """
    names = (*_whole_operands(layer), layer.output)
    if len({(features[name].height, features[name].width) for name in names}) > 1:
        return False
    if isinstance(layer, EltwiseLayer):
        return True
    if not isinstance(layer, ConvLayer | AluLayer):
        return False
    return layer.window == Window() and getattr(layer, "epilogue", None) is None


def _whole_operands(layer: Layer) -> tuple[str, ...]:
    """Return the operands that have as many pixels as the result."""
    return tuple(name for name in layer.operands if not layer.repeats(name))


def _parts(network: Network) -> Iterator[_Part]:
    """Yield the parts of a network whose feature maps may change their shape."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    every = network.features
    inside = [n for n, layer in enumerate(network.layers) if _is_pointwise(layer, every)]
    for number in inside:
        layer = network.layers[number]
        for name in _whole_operands(layer):
            leader[find(name)] = find(layer.output)
    borders = _borders(network, inside)
    together: dict[str, list[int]] = {}
    for number in inside:
        together.setdefault(find(network.layers[number].output), []).append(number)
    for numbers in together.values():
        names = dict.fromkeys(
            name
            for number in numbers
            for name in (*_whole_operands(network.layers[number]), network.layers[number].output)
        )
        part = _Part(tuple(numbers), tuple(names), frozenset(borders & names.keys()))
        if all(_is_even(network, name) for name in part.borders):
            yield part


def _borders(network: Network, inside: Sequence[int]) -> set[str]:
    """Return the feature maps that are known outside of parts, or share bytes with others."""
    found = {*network.inputs, *network.outputs, *network.aliases}
    found |= network.parts.keys()
    members = set(inside)
    for number, layer in enumerate(network.layers):
        if number not in members:
            found |= {*layer.operands, layer.output}
        else:
            found |= {name for name in layer.operands if layer.repeats(name)}
    return found


def _is_even(network: Network, name: str) -> bool:
    """Tell whether the pixels of a feature map are at one distance in DDR, across rows too."""
    alias, feature = network.aliases.get(name), network.features[name]
    if alias is None:
        return True
    even = feature.height == 1 or alias.row_bytes == feature.width * alias.pixel_bytes
    return even and not alias.overlapping and alias.holder not in network.aliases


def _same_bytes(network: Network, name: str, feature: Feature) -> Alias:
    """Return ``feature``, which has another number of rows, as the bytes of ``name``."""
    alias = network.aliases.get(name)
    if alias is None:
        alias = Alias(holder=name, offset=0, pixel_bytes=feature.channels, row_bytes=0)
    return dataclasses.replace(alias, row_bytes=feature.width * alias.pixel_bytes)


def _best_shape(network: Network, part: _Part, target: Target) -> tuple[int, int] | None:
    """Return rows and columns that cost least, or none if those of the part are best."""
    every = network.features
    layers = [network.layers[number] for number in part.layers]
    first = every[part.features[0]]
    pixels = first.height * first.width
    now = _cycles(layers, every, target)
    moved = sum(_transfer(network, name, target) for name in part.borders)
    best, shape = now * (1 - LEAST_SHARE) - TRANSFERS * moved, None
    for rows in (n for n in range(1, pixels + 1) if pixels % n == 0):
        columns = pixels // rows
        changed = {
            name: dataclasses.replace(every[name], height=rows, width=columns)
            for name in part.features
        }
        cycles = _cycles(layers, {**every, **changed}, target)
        if cycles < best:
            best, shape = cycles, (rows, columns)
    return shape


def _cycles(layers: Sequence[Layer], features: Features, target: Target) -> int:
    """Return the cycles of the instructions of all layers."""
    total = 0
    for layer in layers:
        assert isinstance(layer, ComputeLayer)
        total += layer.total_cycles(features, target)
    return total


def _transfer(network: Network, name: str, target: Target) -> int:
    """Return the cycles to bring a feature map to DDR and back, if it could stay on chip."""
    ends = (network.inputs, network.outputs, network.aliases)
    if any(name in names for names in ends) or not network.consumers[name]:
        return 0
    return 2 * (feature_cycles(network.features[name], target.channel_parallel) + LATENCY)


def _with_names(layer: Layer, renamed: Mapping[str, str]) -> Layer:
    """Return a layer that reads and writes feature maps under other names."""

    def of(name: str) -> str:
        return renamed.get(name, name)

    if isinstance(layer, EltwiseLayer):
        sources = tuple(n if layer.repeats(n) else of(n) for n in layer.sources)
        return dataclasses.replace(layer, sources=sources, output=of(layer.output))
    assert isinstance(layer, ConvLayer | AluLayer)
    return dataclasses.replace(layer, source=of(layer.source), output=of(layer.output))
