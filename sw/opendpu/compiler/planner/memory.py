# SPDX-License-Identifier: Apache-2.0
"""Pass: where feature maps are in DDR, and the weight segment."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from opendpu.compiler.layers import Feature
from opendpu.compiler.network import LayerRange, Network, root_of
from opendpu.compiler.network.live_range import live_ranges, widened
from opendpu.compiler.network.strides import Strides, strides_through
from opendpu.compiler.plan import (
    INPUT_REG,
    OUTPUT_REG,
    WEIGHTS_REG,
    WORKSPACE_REG,
    Memory,
    Plan,
)
from opendpu.compiler.planner.cascade.costs import internal_features
from opendpu.compiler.planner.first_fit import first_fit
from opendpu.compiler.planner.proposal import Residency, Tiled
from opendpu_arch.errors import GraphError
from opendpu_arch.target import Target

CONSTANT_ALIGNMENT = 4096
"""Alignment of every constant in the weight segment."""
FEATURE_ALIGNMENT = 64
"""Alignment of every feature map, and bytes kept free around one with overlapping pixels."""


def allocate_memory(tiled: Tiled, target: Target) -> Plan:
    """Return the plan with places in DDR for feature maps and constants."""
    constants, blob = allocate_constants(tiled.network)
    memory, segment_bytes = feature_memory(tiled.residency, constants)
    return Plan(
        network=tiled.network, layers=tiled.layers, cascades=tiled.cascades, memory=memory,
        constants=constants, segment_bytes={WEIGHTS_REG: len(blob), **segment_bytes}, blob=blob,
    )  # fmt: skip


def feature_memory(
    residency: Residency, constants: Mapping[str, int]
) -> tuple[dict[str, Memory], dict[int, int]]:
    """Return where feature maps are in DDR, and the bytes of every feature segment.

    ``constants`` has the addresses of those that are known when compiling. What is on chip whole,
    or only inside a cascade, never gets there.
    """
    network = residency.network
    every = _live_ranges(residency)
    on_chip = _on_chip(residency)
    placed: dict[str, Memory] = {}
    ends = {WORKSPACE_REG: 0, INPUT_REG: 0, OUTPUT_REG: 0}
    workspace: dict[str, tuple[int, int]] = {}
    overlapped = {a.holder for a in network.aliases.values() if a.overlapping}
    outputs = {root_of(network.aliases, name) for name in network.outputs}
    for name, feature in network.features.items():
        if name in network.aliases or name not in every:
            continue
        reg_id = WORKSPACE_REG
        if name in network.inputs:
            reg_id = INPUT_REG
        elif name in outputs:
            reg_id = OUTPUT_REG
        elif name in network.constants:
            placed[name] = _dense(feature, WEIGHTS_REG, constants[name])
            continue
        elif name in on_chip:
            continue
        size = feature.height * feature.width * feature.channels
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
        placed[name] = _dense(feature, reg_id, address)
    for name in network.aliases:
        if name in every:
            _place_alias(network, name, placed)
    return placed, ends


def _dense(feature: Feature, reg_id: int, address: int) -> Memory:
    """Return the place of a feature map without gaps."""
    return Memory(
        reg_id=reg_id, address=address, row_bytes=feature.width * feature.channels,
        pixel_bytes=feature.channels,
    )  # fmt: skip


def _live_ranges(residency: Residency) -> Mapping[str, LayerRange]:
    """Return live ranges, with the whole of the cascades at their ends."""
    together = [cascade.layers for cascade in residency.proposal.cascades]
    found = live_ranges(residency.network)
    return {name: widened(alive, together) for name, alive in found.items()}


def _on_chip(residency: Residency) -> set[str]:
    """Return the feature maps that no layer reads from DDR."""
    network = residency.network
    streamed = {name for _, name in residency.streamed}
    held = network.parts.keys() | network.aliases.keys()
    internal = internal_features(network, network.consumers, residency.proposal.cascades)
    return (internal - held - set(network.outputs)) | (residency.regions.keys() - streamed)


def _place_alias(network: Network, name: str, placed: dict[str, Memory]) -> Memory:
    """Add the bytes of an alias, which may itself be bytes of an alias."""
    if name not in placed:
        alias = network.aliases[name]
        holder = _place_alias(network, alias.holder, placed)
        if alias.repeats:
            placed[name] = dataclasses.replace(
                holder, repeat_h=alias.repeat_h * holder.repeat_h,
                repeat_w=alias.repeat_w * holder.repeat_w,
            )  # fmt: skip
            return placed[name]
        feature, whole = network.features[name], network.features[alias.holder]
        strides = strides_through(
            alias, feature, whole,
            Strides(
                offset=holder.address, pixel_bytes=holder.pixel_bytes, row_bytes=holder.row_bytes
            ),
        )  # fmt: skip
        if strides is None:
            raise GraphError(f"{name!r} is not at constant distances in {alias.holder!r}")
        placed[name] = Memory(
            reg_id=holder.reg_id, address=strides.offset, row_bytes=strides.row_bytes,
            pixel_bytes=strides.pixel_bytes, lead=-alias.offset if alias.overlapping else None,
            padding=alias.padding,
        )  # fmt: skip
    return placed[name]


def allocate_constants(network: Network) -> tuple[dict[str, int], bytes]:
    """Return the address of every constant, and the weight segment (row-major int8).

    Feature maps that are constant are under their own name. Layers that are parts of one op share
    their constants.
    """
    addresses: dict[str, int] = {}
    known: dict[bytes, int] = {}
    blob = bytearray()
    for name, values in (*network.layer_constants().items(), *network.constants.items()):
        data = np.ascontiguousarray(values, dtype=np.int8).tobytes()
        if data not in known:
            blob.extend(bytes(-len(blob) % CONSTANT_ALIGNMENT))
            known[data] = len(blob)
            blob.extend(data)
        addresses[name] = known[data]
    return addresses, bytes(blob)
