# SPDX-License-Identifier: Apache-2.0
"""Pass: where feature maps are in DDR, and the weight segment."""

from collections.abc import Collection, Sequence

import numpy as np

from opendpu.compiler.lifetime import during, first_fit, spans
from opendpu.compiler.plan import (
    INPUT_REG,
    OUTPUT_REG,
    WEIGHTS_REG,
    WORKSPACE_REG,
    AluLayer,
    Banks,
    ConvLayer,
    Memory,
    Network,
    Span,
    root_of,
)
from opendpu.compiler.view import Steps, seen_through
from opendpu_arch.errors import GraphError

CONSTANT_ALIGNMENT = 4096
"""Alignment of every constant in the weight segment."""
FEATURE_ALIGNMENT = 64
"""Alignment of every feature map in its segment, and room around one with overlapping pixels."""


def allocate_memory(
    network: Network,
    banks: Banks,
    together: Sequence[Span] = (),
    inside: Collection[str] = (),
) -> tuple[dict[str, Memory], dict[int, int]]:
    """Return where feature maps are in DDR, and the bytes of every feature segment.

    Layers of a chain run ``together``; feature maps ``inside`` one never get there.
    """
    every = {name: during(span, together) for name, span in spans(network).items()}
    streamed = {name for _, name in banks.streamed}
    placed: dict[str, Memory] = {}
    ends = {WORKSPACE_REG: 0, INPUT_REG: 0, OUTPUT_REG: 0}
    workspace: dict[str, tuple[int, int]] = {}
    overlapped = {a.holder for a in network.aliases.values() if a.overlapping}
    outputs = {root_of(network.aliases, name) for name in network.outputs}
    for name, feature in network.features.items():
        if name in network.aliases or name not in every:
            continue
        size = feature.height * feature.width * feature.channels
        if name in outputs and name not in network.inputs:
            reg_id = OUTPUT_REG
        elif name in network.inputs:
            reg_id = INPUT_REG
        elif name in inside or (name in banks.regions and name not in streamed):
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
        feature, whole = network.features[name], network.features[alias.holder]
        steps = seen_through(
            alias, feature, whole,
            Steps(
                offset=holder.address, pixel_bytes=holder.pixel_bytes, row_bytes=holder.row_bytes
            ),
        )  # fmt: skip
        if steps is None:
            raise GraphError(f"{name!r} is not at constant distances in {alias.holder!r}")
        placed[name] = Memory(
            reg_id=holder.reg_id, address=steps.offset, row_bytes=steps.row_bytes,
            pixel_bytes=steps.pixel_bytes, lead=-alias.offset if alias.overlapping else None,
        )  # fmt: skip
    return placed[name]


def allocate_constants(network: Network) -> tuple[dict[str, int], bytes]:
    """Return the address of every constant, and the weight segment (row-major int8).

    Layers that are parts of one op share their constants.
    """
    addresses: dict[str, int] = {}
    known: dict[bytes, int] = {}
    blob = bytearray()
    for layer in network.layers:
        if not isinstance(layer, (ConvLayer, AluLayer)):
            continue
        for part, values in (("bias", layer.bias), ("weights", layer.weights)):
            if values is None:
                continue
            data = np.ascontiguousarray(values, dtype=np.int8).tobytes()
            if data not in known:
                blob.extend(bytes(-len(blob) % CONSTANT_ALIGNMENT))
                known[data] = len(blob)
                blob.extend(data)
            addresses[f"{layer.name}/{part}"] = known[data]
    return addresses, bytes(blob)


REGISTERS = (WEIGHTS_REG, WORKSPACE_REG, INPUT_REG, OUTPUT_REG)
"""Address registers a program uses."""
