# SPDX-License-Identifier: Apache-2.0
"""Pass: which feature maps stay on chip and where; where the others are in DDR; the weights."""

from collections.abc import Collection, Mapping

import numpy as np

from opendpu.compiler.layout import ADDRESS_GROUPS, Layout, address_groups
from opendpu.compiler.lifetime import consumers, first_fit, spans
from opendpu.compiler.plan import (
    INPUT_REG,
    OUTPUT_REG,
    WEIGHTS_REG,
    WORKSPACE_REG,
    AluLayer,
    ConvLayer,
    Feature,
    Layer,
    Memory,
    Network,
    Region,
    sources_of,
)
from opendpu_arch.target import Target

MAX_CONV_STRIDE = 8
"""Rows a bank that CONV can read."""
MAX_CONV_JUMP = 1024
"""Words between two rows of a bank that CONV can read."""
CONSTANT_ALIGNMENT = 4096
"""Alignment of every constant in the weight segment."""
FEATURE_ALIGNMENT = 64
"""Alignment of every feature map in its segment, and room around one with overlapping pixels."""


def allocate_banks(network: Network, target: Target, spilled: Collection[str]) -> dict[str, Region]:
    """Return the regions of the feature maps that stay on chip whole, ``spilled`` excluded."""
    every, readers = spans(network), consumers(network)
    holders = {alias.holder for alias in network.aliases.values()}
    regions: dict[str, Region] = {}
    for layer in network.layers:
        for name in (*sources_of(layer), layer.output):
            if name in regions or name in spilled or name in holders or name in network.aliases:
                continue
            wanted = name in network.inputs and len(readers[name]) > 1
            if not wanted and not (name == layer.output and readers[name]):
                continue
            feature = network.features[name]
            stride = _stride(feature, [network.layers[i] for i in readers[name]], target)
            if stride is None:
                continue
            ring = address_groups(target, stride, feature.height)
            groups = -(-feature.channels // target.channel_parallel)
            words = ring * stride * feature.width * groups
            near = [regions[s].bank_group for s in sources_of(layer) if s in regions]
            for bank_group in sorted(range(target.bank_groups), key=lambda g: (near.count(g), g)):
                taken = [
                    (r.base, r.base + r.words)
                    for other, r in regions.items()
                    if r.bank_group == bank_group and every[other].overlaps(every[name])
                ]
                base = first_fit(words, taken, target.bank_depth)
                if base is not None:
                    regions[name] = Region(
                        bank_group=bank_group, base=base, words=words, stride=stride, ring=ring,
                        whole=True,
                    )  # fmt: skip
                    break
    return regions


def _stride(feature: Feature, readers: list[Layer], target: Target) -> int | None:
    """Return the rows a bank that suit the readers best, or none if some cannot read any."""
    wishes: dict[int, int] = {}
    weight: int
    for layer in readers:
        wish = 1
        weight = feature.height
        if isinstance(layer, (ConvLayer, AluLayer)):
            wish = layer.window.stride_h
            if isinstance(layer, ConvLayer):
                weight *= layer.weights.size // layer.weights.shape[-1]
        wishes[wish] = wishes.get(wish, 0) + weight
    liked = sorted(wishes, key=lambda s: -wishes[s])
    strides: list[int] = [*liked, *range(1, MAX_CONV_STRIDE + 1)]
    for stride in strides:
        if all(_readable(feature, layer, stride, target) for layer in readers):
            return stride
    return None


def _readable(feature: Feature, layer: Layer, stride: int, target: Target) -> bool:
    """Tell whether ``layer`` can make one output row at a time of ``feature`` so stored."""
    if not isinstance(layer, (ConvLayer, AluLayer)):
        return True
    groups = -(-feature.channels // target.channel_parallel)
    row_words = feature.width * groups
    if isinstance(layer, ConvLayer) and (
        stride > MAX_CONV_STRIDE or (stride > 1 and row_words > MAX_CONV_JUMP)
    ):
        return False
    ring = address_groups(target, stride, feature.height)
    region = Region(bank_group=0, base=0, words=0, stride=stride, ring=ring, whole=True)
    layout = Layout(target=target, region=region, columns=feature.width, groups=groups)
    window = layer.window
    tops = range(-window.pad_top, feature.height, window.stride_h)
    return all(layout.groups_touched(top, window.kernel_h) <= ADDRESS_GROUPS for top in tops)


def allocate_memory(
    network: Network, whole: Mapping[str, Region]
) -> tuple[dict[str, Memory], dict[int, int]]:
    """Return where feature maps are in DDR, and the bytes of every feature segment."""
    every = spans(network)
    placed: dict[str, Memory] = {}
    ends = {WORKSPACE_REG: 0, INPUT_REG: 0, OUTPUT_REG: 0}
    workspace: dict[str, tuple[int, int]] = {}
    overlapped = {a.holder for a in network.aliases.values() if a.row_bytes}
    for name, feature in network.features.items():
        if name in network.aliases or name not in every:
            continue
        size = feature.height * feature.width * feature.channels
        if name in network.outputs:
            reg_id = OUTPUT_REG
        elif name in network.inputs:
            reg_id = INPUT_REG
        elif name in whole:
            continue
        else:
            reg_id = WORKSPACE_REG
        aligned = -(-size // FEATURE_ALIGNMENT) * FEATURE_ALIGNMENT
        overhang = FEATURE_ALIGNMENT if name in overlapped else 0
        address = ends[reg_id] + overhang
        if reg_id == WORKSPACE_REG:
            taken = [r for other, r in workspace.items() if every[other].overlaps(every[name])]
            found = first_fit(aligned, taken, None)
            assert found is not None
            address = found
            workspace[name] = (address, address + aligned)
        ends[reg_id] = max(ends[reg_id], address + aligned + overhang)
        placed[name] = Memory(
            reg_id=reg_id, address=address, row_bytes=feature.width * feature.channels,
            pixel_bytes=feature.channels,
        )  # fmt: skip
    for name in network.aliases:
        if name in every:
            _place_alias(network, name, placed)
    return placed, ends


def _place_alias(network: Network, name: str, placed: dict[str, Memory]) -> Memory:
    """Add the bytes of an alias, which may itself be bytes of an alias."""
    if name not in placed:
        alias = network.aliases[name]
        holder = _place_alias(network, alias.holder, placed)
        placed[name] = Memory(
            reg_id=holder.reg_id,
            address=holder.address + alias.offset,
            row_bytes=alias.row_bytes or network.features[name].width * alias.pixel_bytes,
            pixel_bytes=alias.pixel_bytes,
            lead=-alias.offset if alias.row_bytes else None,
        )
    return placed[name]


def allocate_constants(network: Network) -> tuple[dict[str, int], bytes]:
    """Return the address of every constant, and the weight segment (row-major int8)."""
    addresses: dict[str, int] = {}
    blob = bytearray()
    for layer in network.layers:
        if not isinstance(layer, (ConvLayer, AluLayer)):
            continue
        for part, values in (("bias", layer.bias), ("weights", layer.weights)):
            if values is None:
                continue
            blob.extend(bytes(-len(blob) % CONSTANT_ALIGNMENT))
            addresses[f"{layer.name}/{part}"] = len(blob)
            blob.extend(np.ascontiguousarray(values, dtype=np.int8).tobytes())
    return addresses, bytes(blob)


REGISTERS = (WEIGHTS_REG, WORKSPACE_REG, INPUT_REG, OUTPUT_REG)
"""Address registers a program uses."""
