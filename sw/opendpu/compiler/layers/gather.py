# SPDX-License-Identifier: Apache-2.0
"""Geometry of dilated convolutions whose input rows are gathered: rows.

CONV takes ``stride_h`` successive rows of a bank for an output row. Here these are the rows
that the kernel rows of this output row meet, however far apart they are in the feature map: LOAD
puts them there, each as often as it is needed, and zeros where a kernel row meets padding. The
kernel then looks like one without dilation whose stride is its height. Kernel rows that meet only
padding for all rows of an instruction are left out.
"""

import dataclasses
from collections.abc import Callable, Sequence

from opendpu.compiler.layers.dilated import DilatedConvLayer


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowBlock:
    """Output rows of one instruction, and what its kernel rows meet."""

    row: int
    rows: int
    first_tap: int
    """First kernel row that is used."""
    taps: int
    """Kernel rows that are used."""
    inputs: tuple[int | None, ...]
    """Input row of each kernel row of each output row; none: zeros."""


def row_blocks(
    layer: DilatedConvLayer,
    height: int,
    rows: int,
    most: int,
    fits: Callable[[int, int], bool] = lambda row, rows: True,
) -> tuple[RowBlock, ...]:
    """Tiling ``rows`` output rows into instructions of at most ``most`` rows with the fewest steps.

    ``height`` is that of the input; ``fits`` tells whether an instruction can make rows
    ``row .. row + rows``. One row alone always fits.
    """
    best: list[tuple[int, int, int]] = [(0, 0, 0)]
    for end in range(1, rows + 1):
        candidates = []
        for many in range(1, min(most, end) + 1):
            if many > 1 and not fits(end - many, many):
                continue
            _, taps = _taps(layer, height, end - many, many)
            steps, slots, _ = best[end - many]
            candidates.append((steps + taps, slots + taps * many, many))
        best.append(min(candidates))
    found, end = [], rows
    while end:
        many = best[end][2]
        found.append(_row_block(layer, height, end - many, many))
        end -= many
    return tuple(reversed(found))


def kernel_rows(blocks: Sequence[RowBlock]) -> range:
    """Return the kernel rows from the first that any of the instructions uses to the last."""
    return range(
        min(block.first_tap for block in blocks),
        max(block.first_tap + block.taps for block in blocks),
    )


def _taps(layer: DilatedConvLayer, height: int, row: int, rows: int) -> tuple[int, int]:
    """Return the first kernel row that meets the input, and how many there are to the last."""
    window, gap = layer.window, layer.dilation_h
    top, low = start_of(row, window.stride_h, window.pad_top), window.kernel_h
    high = 0
    for n in range(rows):
        at = top + n * window.stride_h
        first, last = max(0, -(at // gap)), min(window.kernel_h - 1, (height - 1 - at) // gap)
        if first <= last:
            low, high = min(low, first), max(high, last + 1)
    return (low, high - low) if high else (0, 1)


def _row_block(layer: DilatedConvLayer, height: int, row: int, rows: int) -> RowBlock:
    window = layer.window
    first, taps = _taps(layer, height, row, rows)
    inputs = [
        start_of(r, window.stride_h, window.pad_top) + tap * layer.dilation_h
        for r in range(row, row + rows)
        for tap in range(first, first + taps)
    ]
    return RowBlock(
        row=row, rows=rows, first_tap=first, taps=taps,
        inputs=tuple(i if 0 <= i < height else None for i in inputs),
    )  # fmt: skip


def start_of(output: int, stride: int, pad: int) -> int:
    """Return where the first tap of an output is; negative in padding."""
    return output * stride - pad
