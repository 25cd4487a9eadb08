# SPDX-License-Identifier: Apache-2.0
"""Geometry of dilated convolutions whose input rows are gathered: columns.

Output columns ``phase + n * phases`` meet input columns that are ``dilation_w`` apart, so an
instruction makes the columns of one phase. The input columns of a tile lie in the bank as in the
feature map, and are read in jumps; or, where jumps would be too long or rows too wide, phase by
phase (``phase_major``): then output columns are counted in that order, too.

Kernel columns that meet padding take as long as others. Instructions that are ``trimmed`` do
without: each makes columns that meet the same ones, whose weights lie together.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence

from opendpu.compiler.layers.dilated import DilatedConvLayer
from opendpu.compiler.layers.gather import start_of


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
    taps: range
    """Kernel columns of the instruction."""


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


Segment = tuple[int, int, int, int]
"""First output column and count of an instruction, its left and its right padding, see Run."""


@functools.cache
def _cached_tiles(
    axis: "_Axis", outputs: int, columns: int, phase_major: bool, trimmed: bool
) -> tuple[ColumnTile, ...]:
    if not phase_major:
        return tuple(
            axis.dense_tile(column, min(columns, outputs - column), trimmed=trimmed)
            for column in range(0, outputs, columns)
        )
    sizes = [len(range(phase, outputs, axis.phases)) for phase in range(min(axis.phases, outputs))]
    found, column = [], 0
    for size in _whole_phases(sizes, columns):
        found.append(axis.phase_major_tile(column, size, outputs, trimmed=trimmed))
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
    layer: DilatedConvLayer, width: int, outputs: int, columns: int, *, phase_major: bool,
    trimmed: bool = False,
) -> tuple[ColumnTile, ...]:  # fmt: skip
    """Return the tiles of ``columns`` output columns each; ``width`` is that of the input."""
    return _cached_tiles(_axis_of(layer, width), outputs, columns, phase_major, trimmed)


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

    def dense_tile(self, column: int, columns: int, *, trimmed: bool) -> ColumnTile:
        """Return a tile whose input columns are stored as they are in the feature map."""
        low, high = self.met(column, column + columns)
        runs = []
        for phase in range(min(self.phases, columns)):
            made = range(column + phase, column + columns, self.phases)
            for first, count, left, right in self._segments_of(made, trimmed=trimmed):
                slot = start_of(first, self.stride, self.pad) - low if count else 0
                run = self._run(first, count, first - column, slot, self.gap, left, right)
                runs.append(_trimmed(run) if trimmed and count else run)
        piece = Piece(first=low, step=1, count=high - low + 1, slot=0)
        return ColumnTile(
            column=column, columns=columns, slots=piece.count, runs=tuple(runs), pieces=(piece,)
        )

    def phase_major_tile(
        self, column: int, columns: int, outputs: int, *, trimmed: bool
    ) -> ColumnTile:
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
            segments = list(self._segments_of(every[low:high], trimmed=trimmed))
            for stored in (segments,) if trimmed else ((one,) for one in segments):
                piece = self._piece(every, stored, slots)
                pieces += [piece] if piece else []
                for first, count, left, right in stored:
                    slot = 0
                    if piece and count:
                        begin = start_of(first, self.stride, self.pad)
                        slot = slots + (begin - piece.first) // self.gap
                    run = self._run(first, count, index, slot, 1, left, right)
                    runs.append(_trimmed(run) if trimmed and count else run)
                    index += run.count
                slots += piece.count if piece else 0
        return ColumnTile(
            column=column, columns=columns, slots=max(slots, 1), runs=tuple(runs),
            pieces=tuple(pieces),
        )  # fmt: skip

    def _piece(self, every: range, segments: Sequence[Segment], slot: int) -> Piece | None:
        """Return the input columns that segments of a phase meet, if there are any."""
        met = []
        for first, count, left, right in segments:
            if count:
                start = start_of(first, self.stride, self.pad)
                last = start + (count - 1) * every.step * self.stride
                met += [start + left * self.gap, last + right * self.gap]
        if not met:
            return None
        many = (max(met) - min(met)) // self.gap + 1
        return Piece(first=min(met), step=self.gap, count=many, slot=slot)

    def _run(
        self, first: int, count: int, index: int, slot: int, jump: int, left: int, right: int
    ) -> Run:
        return Run(
            first=first, step=self.phases, count=max(count, 1), index=index, slot=slot, jump=jump,
            pad_left=left, pad_right=right, taps=range(self.kernel),
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
        at = start_of(made.start, self.stride, self.pad)
        first = max(0, -(at // step))
        last = (self.width - 1 - reach - at) // step
        return first, max(first, min(len(made), last + 1))

    def _segments_of(self, made: range, *, trimmed: bool) -> Iterator[Segment]:
        return self._segments_alike(made) if trimmed else self._segments(made)

    def _segments(self, made: range) -> Iterator[Segment]:
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

    def _segments_alike(self, made: range) -> Iterator[Segment]:
        """Tiling columns of a phase as :meth:`_segments`, into such as have the same padding."""
        begin, end = self._inside(made)
        if begin >= end:
            begin = end = len(made)
        yield from self._alike(made[:begin])
        if begin < end:
            yield made[begin], end - begin, 0, self.kernel - 1
        yield from self._alike(made[end:])

    def _alike(self, made: range) -> Iterator[Segment]:
        for padding, found in itertools.groupby(made, self._padding):
            outputs = list(found)
            if padding is None:
                yield from ((output, 0, 1, 0) for output in outputs)
            else:
                yield outputs[0], len(outputs), padding[0], self.kernel - 1 - padding[1]

    def _padding(self, output: int) -> tuple[int, int] | None:
        """Return the taps left and right of the map, or none if no tap meets it."""
        at = start_of(output, self.stride, self.pad)
        left = max(0, -(at // self.gap))
        right = max(0, self.kernel - 1 - (self.width - 1 - at) // self.gap)
        return (left, right) if left + right < self.kernel else None


def _trimmed(run: Run) -> Run:
    """Return an instruction, all of whose windows have the same padding, without that."""
    taps = range(run.pad_left, run.pad_right + 1)
    slot = run.slot + taps.start * run.jump
    return dataclasses.replace(run, slot=slot, pad_left=0, pad_right=len(taps) - 1, taps=taps)
