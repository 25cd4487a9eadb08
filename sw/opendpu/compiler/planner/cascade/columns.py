# SPDX-License-Identifier: Apache-2.0
"""Columns of every layer of a cascade that is cut into tiles of columns.

A tile makes its share of the columns of every result that leaves the cascade, and of the others
what the layers behind them need; neighbouring tiles compute the columns between them twice (halo).
"""

from collections.abc import Sequence

from opendpu.compiler.banks.reach import columns_read
from opendpu.compiler.layers import ComputeLayer, Feature
from opendpu.compiler.network import Network

Columns = tuple[int, int]
"""First column and number of columns."""


def tile_columns(
    network: Network, layers: Sequence[ComputeLayer], leaving: set[str], count: int
) -> list[dict[str, Columns]] | None:
    """Return the columns of every feature map by tile, or none if a tile would be empty."""
    tiles = []
    for tile in range(count):
        found: dict[str, Columns] = {}
        for layer in reversed(layers):
            out = network.features[layer.output]
            if layer.output in leaving:
                low, high = out.width * tile // count, out.width * (tile + 1) // count
                if low == high:
                    return None
                found[layer.output] = _hull(found.get(layer.output), (low, high - low))
            columns = found[layer.output]
            if layer.intermediate is not None:
                found[layer.intermediate] = columns
            for name in layer.operands:
                need = reads(layer, name, network.features[name], columns)
                found[name] = _hull(found.get(name), need)
        tiles.append(found)
    return tiles


def reads(layer: ComputeLayer, name: str, feature: Feature, columns: Columns) -> Columns:
    """Return the columns of ``feature`` that ``layer`` needs for ``columns`` of its result."""
    if layer.repeats(name):
        return 0, 1
    window = layer.sliding_window(name)
    return columns if window is None else columns_read(layer, window, feature, *columns)


def _hull(one: Columns | None, other: Columns) -> Columns:
    if one is None:
        return other
    low = min(one[0], other[0])
    return low, max(one[0] + one[1], other[0] + other[1]) - low
