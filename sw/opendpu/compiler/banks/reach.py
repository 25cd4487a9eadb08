# SPDX-License-Identifier: Apache-2.0
"""Which rows one instruction reaches, and the input and padding that it sees."""

import dataclasses
from collections.abc import Callable, Iterator

from opendpu.compiler.banks.layout import Layout
from opendpu.compiler.layers import Feature, Layer, Window
from opendpu.compiler.limits import ADDRESS_GROUPS, MAX_STRIDE_OUT
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True, kw_only=True)
class Footprint:
    """Input of one instruction: first row and column (padding counted) and encoded padding."""

    row: int
    rows: int
    column: int
    pad_left: int
    pad_right: int
    pad_top: int
    pad_bottom: int


def footprint(
    window: Window, feature: Feature, row: int, rows: int, column: int, columns: int
) -> Footprint:
    """Return what output rows ``row ..`` and columns ``column ..`` read of ``feature``."""
    top = row * window.stride_h - window.pad_top
    left = column * window.stride_w - window.pad_left
    height = (rows - 1) * window.stride_h + window.kernel_h
    width = (columns - 1) * window.stride_w + window.kernel_w
    below = max(0, top + height - feature.height)
    right = max(0, left + width - feature.width)
    return Footprint(
        row=top,
        rows=height,
        column=left,
        pad_left=max(0, -left),
        pad_right=max(0, window.kernel_w - 1 - right),
        pad_top=max(0, -top),
        pad_bottom=max(0, window.kernel_h - 1 - below),
    )


def rows_needed(window: Window, row: int, rows: int) -> Iterator[int]:
    """Yield the input rows (real or padding) that output rows ``row ..`` use, in order."""
    last = None
    for r in range(row, row + rows):
        top = r * window.stride_h - window.pad_top
        for need in range(top, top + window.kernel_h):
            if last is None or need > last:
                last = need
                yield need


def columns_needed(window: Window, feature: Feature, column: int, columns: int) -> tuple[int, int]:
    """Return first and number of the real input columns that a tile of output columns uses."""
    left = column * window.stride_w - window.pad_left
    right = left + (columns - 1) * window.stride_w + window.kernel_w
    first = max(0, left)
    return first, max(1, min(feature.width, right) - first)


def columns_read(
    layer: Layer, window: Window, feature: Feature, column: int, columns: int
) -> tuple[int, int]:
    """Return first and number of the input columns that a layer meets for some of its result."""
    if layer.columns_a_pixel > 1:
        first = column // layer.columns_a_pixel
        return first, -(-(column + columns) // layer.columns_a_pixel) - first
    return columns_needed(window, feature, column, columns)


def can_read(layout: Layout, feature: Feature, window: Window, row: int, rows: int) -> bool:
    """Tell whether one instruction can read the input of output rows ``row .. row + rows``."""
    if rows > 1 and layout.region.stride != window.stride_h:
        return False
    top = row * window.stride_h - window.pad_top
    height = (rows - 1) * window.stride_h + window.kernel_h
    if layout.groups_touched(top, height) > ADDRESS_GROUPS:
        return False
    first, last = max(0, top), min(feature.height, top + height) - 1
    return layout.groups_touched(first, max(1, last - first + 1)) <= layout.region.capacity


def can_write(layout: Layout, row: int, rows: int, *, max_jump: int) -> bool:
    """Tell whether one instruction can write output rows ``row .. row + rows``."""
    if rows == 1:
        return True
    if layout.region.stride > MAX_STRIDE_OUT or (
        layout.region.stride > 1 and layout.row_words > max_jump
    ):
        return False
    first, last = layout.address_group(row), layout.address_group(row + rows - 1)
    if first == last:
        return True
    inside = first % layout.region.capacity + last - first < layout.region.capacity
    return inside and layout.row_words <= max_jump


def chunks(first: int, last: int, most: int, fits: Callable[[int, int], bool]) -> Iterator[
    tuple[int, int]
]:  # fmt: skip
    """Cut rows ``first .. last`` into (row, rows) of at most ``most`` rows that ``fits``."""
    row = first
    while row < last:
        rows = min(most, last - row)
        while rows > 1 and not fits(row, rows):
            rows -= 1
        yield row, rows
        row += rows


def walks_round(window: Window, target: Target, columns: int, groups: int) -> bool:
    """Tell whether a row of input, padding counted, is more than a bank holds.

    Padding is zeroed after the read, so the results would be right, but nothing else would
    notice a walk that is wrong.
    """
    walked = (columns - 1) * window.stride_w + window.kernel_w
    return walked * groups > target.bank_depth
