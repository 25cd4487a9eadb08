# SPDX-License-Identifier: Apache-2.0
"""Geometry of dilated convolutions whose input rows are gathered.

*Rows.* CONV takes ``stride_h`` successive rows of a bank for an output row. Here these are the rows
that the kernel rows of this output row meet, however far apart they are in the feature map: LOAD
puts them there, each as often as it is needed, and zeros where a kernel row meets padding. The
kernel then looks like one without dilation whose stride is its height. Kernel rows that meet only
padding for all rows of an instruction are left out.

*Columns.* Output columns ``phase + n * phases`` meet input columns that are ``dilation_w`` apart,
so an instruction makes the columns of one phase. The input columns of a tile lie in the bank as in
the feature map, and are read in jumps; or, where jumps would be too long or rows too wide, phase by
phase (``phase_major``): then output columns are counted in that order, too.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """Output columns ``first``, ``first + step`` ..., made by one instruction."""

    first: int
    step: int
    count: int
    index: int
    """Place of the first one among the columns of the tile."""
    slot: int
    """Where the first window starts, in stored columns of the tile; negative in padding."""
    jump: int
    """Stored columns from tap to tap."""
    pad_left: int
    pad_right: int
    """Encoded as in CONV: taps less one, less those of the last window that meet padding."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Piece:
    """Input columns ``first``, ``first + step`` ..., stored from ``slot`` on."""

    first: int
    step: int
    count: int
    slot: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnTile:
    """Output columns that are made together, and the input columns they need."""

    column: int
    """First output column; its place in phase order if ``phase_major``."""
    columns: int
    slots: int
    """Input columns that are stored."""
    runs: tuple[Run, ...]
    pieces: tuple[Piece, ...]


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


def _taps(layer: DilatedConvLayer, height: int, row: int, rows: int) -> tuple[int, int]:
    """Return the first kernel row that meets the input, and how many there are to the last."""
    window, gap = layer.window, layer.dilation_h
    top, low = _start(row, window.stride_h, window.pad_top), window.kernel_h
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
        _start(r, window.stride_h, window.pad_top) + tap * layer.dilation_h
        for r in range(row, row + rows)
        for tap in range(first, first + taps)
    ]
    return RowBlock(
        row=row, rows=rows, first_tap=first, taps=taps,
        inputs=tuple(i if 0 <= i < height else None for i in inputs),
    )  # fmt: skip


def _start(output: int, stride: int, pad: int) -> int:
    return output * stride - pad


@functools.cache
def _cached_tiles(
    axis: "_Axis", outputs: int, columns: int, phase_major: bool
) -> tuple[ColumnTile, ...]:
    if not phase_major:
        return tuple(
            axis.dense_tile(column, min(columns, outputs - column))
            for column in range(0, outputs, columns)
        )
    sizes = [len(range(phase, outputs, axis.phases)) for phase in range(min(axis.phases, outputs))]
    found, column = [], 0
    for size in _whole_phases(sizes, columns):
        found.append(axis.phase_major_tile(column, size, outputs))
        column += size
    return tuple(found)


def _whole_phases(sizes: Sequence[int], most: int) -> Iterator[int]:
    """Yield tiles of at most ``most`` columns that cut a phase only if it is larger."""
    tile = 0
    for size in sizes:
        if tile and tile + size > most:
            yield tile
            tile = 0
        while size > most:
            yield most
            size -= most
        tile += size
    if tile:
        yield tile


def least_slots(layer: DilatedConvLayer, width: int, outputs: int, columns: int) -> int:
    """Return the input columns that a tile in the middle stores as they are in the feature map.

    No tiles of so many output columns have all of them fewer.
    """
    column = outputs // columns // 2 * columns
    axis = _axis_of(layer, width)
    low, high = axis.met(column, min(column + columns, outputs))
    return high - low + 1


def column_tiles(
    layer: DilatedConvLayer, width: int, outputs: int, columns: int, *, phase_major: bool
) -> tuple[ColumnTile, ...]:
    """Return the tiles of ``columns`` output columns each; ``width`` is that of the input."""
    return _cached_tiles(_axis_of(layer, width), outputs, columns, phase_major)


def _axis_of(layer: DilatedConvLayer, width: int) -> "_Axis":
    window = layer.window
    return _Axis(
        width=width, kernel=window.kernel_w, stride=window.stride_w, pad=window.pad_left,
        gap=layer.dilation_w, phases=layer.phases, tap_stride=layer.tap_stride,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Axis:
    """Columns of a dilated kernel."""

    width: int
    kernel: int
    stride: int
    pad: int
    gap: int
    phases: int
    tap_stride: int

    def dense_tile(self, column: int, columns: int) -> ColumnTile:
        """Return a tile whose input columns are stored as they are in the feature map."""
        low, high = self.met(column, column + columns)
        runs = []
        for phase in range(min(self.phases, columns)):
            made = range(column + phase, column + columns, self.phases)
            for first, count, left, right in self._segments(made):
                slot = _start(first, self.stride, self.pad) - low if count else 0
                runs.append(self._run(first, count, first - column, slot, self.gap, left, right))
        piece = Piece(first=low, step=1, count=high - low + 1, slot=0)
        return ColumnTile(
            column=column, columns=columns, slots=piece.count, runs=tuple(runs), pieces=(piece,)
        )

    def phase_major_tile(self, column: int, columns: int, outputs: int) -> ColumnTile:
        """Return a tile whose columns, of input and output, are stored phase by phase."""
        runs: list[Run] = []
        pieces: list[Piece] = []
        slots = index = 0
        short, longer = divmod(outputs, self.phases)
        skipped = min(column // (short + 1), longer)  # phases in front, those that have one more
        if skipped == longer and short:
            skipped += (column - longer * (short + 1)) // short
        place = skipped * short + min(skipped, longer)
        for phase in range(skipped, min(self.phases, outputs)):
            if place >= column + columns:
                break
            every = range(phase, outputs, self.phases)
            low, high = max(column - place, 0), min(column + columns - place, len(every))
            place += len(every)
            for first, count, left, right in self._segments(every[low:high]):
                if not count:
                    runs.append(self._run(first, 0, index, 0, 1, left, right))
                    index += 1
                    continue
                taps = (count - 1) * self.tap_stride + self.kernel
                stored = taps - left - (self.kernel - 1 - right)
                start = _start(first, self.stride, self.pad) + left * self.gap
                pieces.append(Piece(first=start, step=self.gap, count=stored, slot=slots))
                runs.append(self._run(first, count, index, slots - left, 1, left, right))
                slots += stored
                index += count
        return ColumnTile(
            column=column, columns=columns, slots=max(slots, 1), runs=tuple(runs),
            pieces=tuple(pieces),
        )  # fmt: skip

    def _run(
        self, first: int, count: int, index: int, slot: int, jump: int, left: int, right: int
    ) -> Run:
        return Run(
            first=first, step=self.phases, count=max(count, 1), index=index, slot=slot, jump=jump,
            pad_left=left, pad_right=right,
        )  # fmt: skip

    def met(self, begin: int, end: int) -> tuple[int, int]:
        """Return the first and the last column of the input that a range of outputs meets."""
        low, high = self.width, -1
        for tap in range(self.kernel):
            at = tap * self.gap - self.pad  # of output 0
            first = max(begin, -(at // self.stride))
            last = min(end - 1, (self.width - 1 - at) // self.stride)
            if first <= last:
                low, high = min(low, at + first * self.stride), max(high, at + last * self.stride)
        return (low, high) if high >= 0 else (0, 0)

    def _inside(self, made: range) -> tuple[int, int]:
        """Return the part of the outputs of a phase that meets no padding."""
        step, reach = made.step * self.stride, (self.kernel - 1) * self.gap
        at = _start(made.start, self.stride, self.pad)
        first = max(0, -(at // step))
        last = (self.width - 1 - reach - at) // step
        return first, max(first, min(len(made), last + 1))

    def _segments(self, made: range) -> Iterator[tuple[int, int, int, int]]:
        """Tiling columns of a phase into (first, count, left and right padding) of instructions.

        Windows that meet only padding come alone, with count 0 and everything padded.
        """
        begin, end = self._inside(made)
        start = index = 0
        while index <= len(made):
            if index == begin and begin < end:
                index = end  # none of them ends a run
                continue
            if index < len(made) and self._padding(made[index]) is not None:
                index += 1
                continue
            if start < index:
                first, last = self._padding(made[start]), self._padding(made[index - 1])
                assert first is not None and last is not None
                yield made[start], index - start, first[0], self.kernel - 1 - last[1]
            if index < len(made):
                yield made[index], 0, 1, 0
            index += 1
            start = index

    def _padding(self, output: int) -> tuple[int, int] | None:
        """Return the taps left and right of the map, or none if no tap meets it."""
        at = _start(output, self.stride, self.pad)
        left = max(0, -(at // self.gap))
        right = max(0, self.kernel - 1 - (self.width - 1 - at) // self.gap)
        return (left, right) if left + right < self.kernel else None
