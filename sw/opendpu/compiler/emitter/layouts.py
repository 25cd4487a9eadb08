# SPDX-License-Identifier: Apache-2.0
"""Where the tiles of layers lie in their regions."""

import dataclasses

from opendpu.compiler.banks.layout import Layout
from opendpu.compiler.emitter.recorder import Operand, Recorder
from opendpu.compiler.emitter.transfer import Tile
from opendpu.compiler.layers import channel_groups


def tile_layout(recorder: Recorder, operand: Operand, tile: Tile) -> Layout:
    """Return where a tile is: inside the whole feature map, or alone."""
    if operand.region.whole:
        tile = whole_tile(recorder, operand)
    return Layout(
        target=recorder.target, region=operand.region, columns=tile.columns, groups=tile.groups,
        first_column=tile.column, first_group=tile.group,
    )  # fmt: skip


def whole_tile(recorder: Recorder, operand: Operand) -> Tile:
    """Return all columns and channels of a feature map."""
    feature = operand.feature
    return Tile(
        column=0, columns=feature.width, group=0, groups=channel_groups(feature, recorder.target)
    )


def rotated(recorder: Recorder, operand: Operand, used: int) -> Operand:
    """Return an operand whose circular buffer starts where earlier tiles left it.

    ``used`` counts the address groups that those have gone through.
    """
    region = operand.region
    if region.whole:
        return operand
    first_row = -(used % region.capacity) * recorder.target.pixel_parallel
    return dataclasses.replace(operand, region=dataclasses.replace(region, first_row=first_row))


def is_run(layout: Layout, row: int, rows: int) -> bool:
    """Tell whether rows are in successive banks with at most one constant step at a wrap."""
    if rows == 1:
        return True
    first, last = layout.address_group(row), layout.address_group(row + rows - 1)
    inside = first % layout.region.capacity + last - first < layout.region.capacity
    return layout.region.stride == 1 and inside
