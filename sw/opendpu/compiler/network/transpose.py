# SPDX-License-Identifier: Apache-2.0
"""Pass: low maps are computed with their columns as rows.

An instruction makes several rows at a time. A map of a line of text, three rows of eighty columns,
leaves most of them idle, and one of sound, a single row, nearly all. With rows and columns
exchanged, kernels and maps, the same bytes are computed by full instructions. Where a map is
exchanged for one layer but not for another, it goes through DDR, where both are the same bytes at
exchanged distances. Which layers pay for that is a minimum cut.
"""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

from opendpu.compiler.layers import (
    AluLayer,
    ComputeLayer,
    ConvLayer,
    EltwiseLayer,
    Feature,
    Features,
    Layer,
    Window,
    channel_groups,
)
from opendpu.compiler.layers.cost import LATENCY, feature_cycles
from opendpu.compiler.limits import (
    ADDRESS_GROUPS,
    MAX_CONV_KERNEL,
    MAX_PIXEL_JUMP,
    MAX_STRIDE_OUT,
)
from opendpu.compiler.network import Alias, Network
from opendpu.compiler.network.min_cut import NEVER, cheapest_labels
from opendpu_arch.target import Target

LEAST_SHARE = 0.25
"""Part of its cycles that a layer has to save: what is planned around it may turn out dearer."""
BANK_SHARE = 2
"""A kernel's input takes at most this part of a bank, so that there is room for its results."""


def transpose(network: Network, target: Target) -> Network:
    """Return ``network`` with rows and columns of feature maps exchanged where that costs less."""
    chosen = _chosen(network, target)
    if not chosen:
        return network
    outside = _seen_outside(network, chosen)
    features, aliases = dict(network.features), dict(network.aliases)
    renamed: dict[str, str] = {}
    touched = (name for n in sorted(chosen) for name in _names(network.layers[n]))
    for name in dict.fromkeys(touched):
        feature = features[name]
        if _is_pixel(feature):
            continue
        renamed[name] = f"{name}/transposed"
        features[renamed[name]] = dataclasses.replace(
            _exchanged(feature), name=renamed[name]
        )  # fmt: skip
        if name in outside:
            aliases[renamed[name]] = _same_bytes(network, name)
        else:
            del features[name]
    layers = tuple(
        _transposed(layer, renamed) if number in chosen else layer
        for number, layer in enumerate(network.layers)
    )
    return dataclasses.replace(network, features=features, layers=layers, aliases=aliases)


def _chosen(network: Network, target: Target) -> set[int]:
    """Return the numbers of the layers whose rows and columns are exchanged."""
    in_ddr = network.in_ddr
    costs = [_costs(network, layer, in_ddr, target) for layer in network.layers]
    for number in _without_windows(network, in_ddr):
        costs[number] = 0, NEVER  # the pass ``rows`` has more shapes to choose from
    if all(first <= second for first, second in costs):
        return set()
    second_way = cheapest_labels(costs, _apart(network, in_ddr, target))
    return {number for number, way in enumerate(second_way) if way}


def _without_windows(network: Network, in_ddr: Collection[str]) -> Iterator[int]:
    """Yield the numbers of layers that are connected, other than through DDR, to no window."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    for layer in network.layers:
        for name in (name for name in _names(layer) if name not in in_ddr):
            leader[find(name)] = find(_group(layer, in_ddr))
    windows = {
        find(_group(layer, in_ddr)) for layer in network.layers if _has_window(layer)
    }  # fmt: skip
    for number, layer in enumerate(network.layers):
        if find(_group(layer, in_ddr)) not in windows:
            yield number


def _group(layer: Layer, in_ddr: Collection[str]) -> str:
    """Return the name of what a layer is connected to."""
    return next((name for name in _names(layer) if name not in in_ddr), f"{layer.name}/alone")


def _has_window(layer: Layer) -> bool:
    """Tell whether a layer computes a pixel from others than the one at its place."""
    return any(layer.sliding_window(name) not in (None, Window()) for name in layer.operands)


def _names(layer: Layer) -> tuple[str, ...]:
    """Return what a layer reads and writes."""
    return (*layer.operands, layer.output)


def _is_pixel(feature: Feature) -> bool:
    """Tell whether there is nothing to exchange."""
    return feature.height == feature.width == 1


def _exchanged(feature: Feature) -> Feature:
    return dataclasses.replace(feature, height=feature.width, width=feature.height)


def _costs(
    network: Network, layer: Layer, in_ddr: Collection[str], target: Target
) -> tuple[int, int]:  # fmt: skip
    """Return the cycles of a layer as it is, and with rows and columns exchanged."""
    if not isinstance(layer, ConvLayer | AluLayer | EltwiseLayer):
        return 0, NEVER
    if isinstance(layer, ConvLayer) and not layer.WHOLE_KERNEL:
        return 0, NEVER
    if not all(_can_exchange(network, name) for name in _names(layer)):
        return 0, NEVER
    every = network.features
    turned = {name: _exchanged(every[name]) for name in _names(layer)}
    other = _transposed(layer, {})
    if not _reaches(other, turned, target):
        return 0, NEVER
    more = sum(
        max(
            0,
            _transfer(turned[name], every[name].width, target) - _transfer(every[name], 1, target),
        )
        for name in _names(layer)
        if name in in_ddr
    )
    second = _cycles(other, turned, target)
    return _cycles(layer, every, target), int(second * (1 + LEAST_SHARE)) + more


def _can_exchange(network: Network, name: str) -> bool:
    """Tell whether the bytes of a feature map can be seen with rows and columns exchanged."""
    alias = network.aliases.get(name)
    if alias is None:
        return not network.features[name].planes
    plain = not alias.overlapping and not alias.repeats
    return plain and alias.holder not in network.aliases and alias.row_bytes <= MAX_PIXEL_JUMP


def _reaches(layer: Layer, features: Features, target: Target) -> bool:
    """Tell whether an instruction reaches the rows of a kernel, and a bank holds its columns."""
    if isinstance(layer, EltwiseLayer):
        return True
    assert isinstance(layer, ConvLayer | AluLayer)
    window = layer.window
    if window.stride_h > MAX_STRIDE_OUT:
        return False
    rows = window.stride_h * target.pixel_parallel
    spanned = -(-(window.kernel_h - 1) // rows) + 1
    if spanned > ADDRESS_GROUPS:
        return False
    groups = 1
    if isinstance(layer, ConvLayer):
        groups = channel_groups(features[layer.source], target)
        if max(window.kernel_h, window.kernel_w) > MAX_CONV_KERNEL:
            return False
    words = spanned * window.stride_h * window.kernel_w * groups
    return words <= target.bank_depth // BANK_SHARE


def _cycles(layer: ComputeLayer, features: Features, target: Target) -> int:
    """Return the cycles of a layer among others that run at the same time.

    They wait for its first rows, so that those take their time twice.
    """
    return layer.total_cycles(features, target) + layer.row_cycles(features, target)


def _transfer(feature: Feature, jump: int, target: Target) -> int:
    """Return the cycles to load or save a feature map whose pixels are ``jump`` pixels apart."""
    return feature_cycles(feature, target.channel_parallel, jump * feature.channels)


def _apart(network: Network, in_ddr: Collection[str], target: Target) -> dict[tuple[int, int], int]:
    """Return what it costs that one layer of a pair sees a feature map exchanged, the other not."""
    found: dict[tuple[int, int], int] = {}
    for one, other, name in _edges(network):
        feature = network.features[name]
        if name in in_ddr or _is_pixel(feature):
            continue
        cycles = _transfer(feature, 1, target) + LATENCY
        if feature.width * feature.channels > MAX_PIXEL_JUMP:
            cycles = NEVER
        else:
            cycles += _transfer(_exchanged(feature), feature.width, target)
        found[one, other] = found.get((one, other), 0) + cycles
    return found


def _edges(network: Network) -> Iterator[tuple[int, int, str]]:
    """Yield the numbers of maker and reader of feature maps."""
    made = {layer.output: number for number, layer in enumerate(network.layers)}
    for number, layer in enumerate(network.layers):
        for name in dict.fromkeys(layer.operands):
            if name in made:
                yield made[name], number, name


def _seen_outside(network: Network, chosen: set[int]) -> set[str]:
    """Return the feature maps that are not exchanged for everybody."""
    found = set(network.in_ddr)
    for number, layer in enumerate(network.layers):
        if number not in chosen:
            found |= set(_names(layer))
    return found


def _same_bytes(network: Network, name: str) -> Alias:
    """Return the bytes of a feature map with rows and columns exchanged."""
    alias, feature = network.aliases.get(name), network.features[name]
    if alias is None:
        row = feature.width * feature.channels
        return Alias(holder=name, offset=0, pixel_bytes=row, row_bytes=feature.channels)
    return dataclasses.replace(alias, pixel_bytes=alias.row_bytes, row_bytes=alias.pixel_bytes)


def _transposed(layer: Layer, renamed: Mapping[str, str]) -> ComputeLayer:
    """Return a layer with kernel rows and columns exchanged, and other names."""

    def of(name: str) -> str:
        return renamed.get(name, name)

    if isinstance(layer, EltwiseLayer):
        sources: Sequence[str] = [of(name) for name in layer.sources]
        return dataclasses.replace(layer, sources=tuple(sources), output=of(layer.output))
    assert isinstance(layer, ConvLayer | AluLayer)
    window = Window(
        kernel_h=layer.window.kernel_w, kernel_w=layer.window.kernel_h,
        stride_h=layer.window.stride_w, stride_w=layer.window.stride_h,
        pad_top=layer.window.pad_left, pad_left=layer.window.pad_top,
    )  # fmt: skip
    made = dataclasses.replace(
        layer, source=of(layer.source), output=of(layer.output), window=window
    )
    if isinstance(made, ConvLayer):
        return dataclasses.replace(made, weights=made.weights.transpose(0, 2, 1, 3))
    if made.weights is None:
        return made
    return dataclasses.replace(made, weights=made.weights.transpose(1, 0, 2))
