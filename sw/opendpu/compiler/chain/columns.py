# SPDX-License-Identifier: Apache-2.0
"""Columns of every layer of a chain that is cut into tiles of columns.

A tile makes its share of the columns of every result that leaves the chain, and of the others what
the layers behind them need; neighbouring tiles compute the columns between them twice.
"""

from collections.abc import Sequence

from opendpu.compiler.emission.geometry import columns_needed
from opendpu.compiler.plan import (
    ComputeLayer,
    ConvLayer,
    EltwiseLayer,
    Feature,
    Network,
    sources_of,
)

Columns = tuple[int, int]
"""First column and number of columns."""


def tile_columns(
    network: Network, layers: Sequence[ComputeLayer], leaving: set[str], parts: int
) -> list[dict[str, Columns]] | None:
    """Return the columns of every feature map by tile, or none if a tile would be empty."""
    tiles = []
    for part in range(parts):
        found: dict[str, Columns] = {}
        for layer in reversed(layers):
            out = network.features[layer.output]
            if layer.output in leaving:
                low, high = out.width * part // parts, out.width * (part + 1) // parts
                if low == high:
                    return None
                found[layer.output] = _hull(found.get(layer.output), (low, high - low))
            columns = found[layer.output]
            if isinstance(layer, ConvLayer) and layer.epilogue is not None:
                found[layer.epilogue.tile] = columns
            for name in sources_of(layer):
                need = reads(layer, name, network.features[name], columns)
                found[name] = _hull(found.get(name), need)
        tiles.append(found)
    return tiles


def reads(layer: ComputeLayer, name: str, feature: Feature, columns: Columns) -> Columns:
    """Return the columns of ``feature`` that ``layer`` needs for ``columns`` of its result."""
    if isinstance(layer, EltwiseLayer) or name != layer.source:
        return columns
    return columns_needed(layer.window, feature, *columns)


def _hull(one: Columns | None, other: Columns) -> Columns:
    if one is None:
        return other
    low = min(one[0], other[0])
    return low, max(one[0] + one[1], other[0] + other[1]) - low
