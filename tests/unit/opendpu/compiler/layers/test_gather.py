# SPDX-License-Identifier: Apache-2.0
"""Geometry of gathered rows: every product of a dilated kernel, once, and nothing else."""

import numpy as np
import pytest

from opendpu.compiler.layers import DilatedConvLayer, Window, gather_columns
from opendpu.compiler.layers.gather import row_blocks
from opendpu.compiler.layers.gather_columns import column_tiles, least_slots

DRAWS = 200


def layer(kernel: int, stride: int, gap: int, pad: int, *, rows: bool) -> DilatedConvLayer:
    """Return a layer with this along rows or columns, and one tap along the other axis."""
    window = (
        Window(kernel_h=kernel, stride_h=stride, pad_top=pad)
        if rows
        else Window(kernel_w=kernel, stride_w=stride, pad_left=pad)
    )
    return DilatedConvLayer(
        name="c", source="x", output="y", window=window,
        weights=np.zeros((1, window.kernel_h, window.kernel_w, 1), np.int8),
        bias=np.zeros(1, np.int8), shift_cut=0, shift_bias=0,
        dilation_h=gap if rows else 1, dilation_w=1 if rows else gap,
    )  # fmt: skip


def draw(rng: np.random.Generator) -> tuple[int, int, int, int, int, int]:
    """Return size, kernel, stride, gap, padding (below zero too) and outputs of an axis."""
    size, kernel, stride, gap = (int(rng.integers(1, n)) for n in (50, 6, 6, 37))
    pad = int(rng.integers(-5, (kernel - 1) * gap + 1))
    after = int(rng.integers(0, (kernel - 1) * gap + 1))
    outputs = (size + pad + after - (kernel - 1) * gap - 1) // stride + 1
    return size, kernel, stride, gap, pad, max(1, outputs)


def products(
    size: int, kernel: int, stride: int, gap: int, pad: int, outputs: int
) -> set[tuple[int, int, int]]:
    """Return (output, tap, input) by the definition of a dilated convolution."""
    return {
        (o, tap, at)
        for o in range(outputs)
        for tap in range(kernel)
        if 0 <= (at := o * stride + tap * gap - pad) < size
    }


def test_rows(rng: np.random.Generator) -> None:
    for _ in range(DRAWS):
        size, kernel, stride, gap, pad, outputs = axis = draw(rng)
        blocks = row_blocks(layer(kernel, stride, gap, pad, rows=True), size, outputs, 4)
        found = [
            (block.row + n // block.taps, block.first_tap + n % block.taps, at)
            for block in blocks
            for n, at in enumerate(block.inputs)
            if at is not None
        ]
        assert len(found) == len(set(found)), axis
        assert set(found) == products(*axis), axis
        assert [b.row for b in blocks] == list(np.cumsum([0, *(b.rows for b in blocks)]))[:-1]
        assert all(1 <= b.rows <= 4 and b.first_tap + b.taps <= kernel for b in blocks), axis


def test_kernel_rows_in_padding_are_left_out() -> None:
    """Dilation 12 on 20 rows: the first and last 8 rows meet two kernel rows, the others one."""
    blocks = row_blocks(layer(3, 1, 12, 12, rows=True), 20, 20, 8)
    assert [(b.row, b.first_tap, b.taps) for b in blocks] == [(0, 1, 2), (8, 1, 1), (12, 0, 2)]


def test_rows_that_an_instruction_cannot_write_are_cut() -> None:
    blocks = row_blocks(layer(3, 1, 2, 2, rows=True), 20, 20, 8, lambda row, rows: rows <= 3)
    assert max(b.rows for b in blocks) <= 3
    assert sum(b.rows for b in blocks) == 20


@pytest.mark.parametrize(
    ("phase_major", "trimmed"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_columns(rng: np.random.Generator, phase_major: bool, trimmed: bool) -> None:
    """What an instruction reads: slots of the tile, from its start on, less what is padded."""
    for _ in range(DRAWS):
        size, kernel, stride, gap, pad, outputs = axis = draw(rng)
        made = layer(kernel, stride, gap, pad, rows=False)
        step, found, columns = made.tap_stride, [], []
        most = int(rng.integers(1, outputs + 1))
        for tile in column_tiles(
            made, size, outputs, most, phase_major=phase_major, trimmed=trimmed
        ):
            stored = {p.slot + n: p.first + n * p.step for p in tile.pieces for n in range(p.count)}
            assert tile.columns <= most and all(slot < tile.slots for slot in stored), axis
            indexes = []
            for run in tile.runs:
                taps = len(run.taps)
                right = (run.count - 1) * step + run.pad_right + 1
                for n in range(run.count):
                    output = run.first + n * run.step
                    columns.append(output)
                    indexes.append(run.index + n * (1 if phase_major else run.step))
                    for tap in range(taps):
                        at = n * step + tap
                        if run.pad_left <= at < right:
                            found.append((output, run.taps[tap], stored[run.slot + at * run.jump]))
                        elif trimmed:
                            assert run.count == 1, axis  # a window in padding, alone
            assert sorted(indexes) == list(range(tile.columns)), axis
        assert sorted(columns) == list(range(outputs)), axis
        assert len(found) == len(set(found)), axis
        assert set(found) == products(*axis), axis


def test_no_tiles_store_less_than_one_in_the_middle(rng: np.random.Generator) -> None:
    for _ in range(DRAWS):
        size, kernel, stride, gap, pad, outputs = axis = draw(rng)
        made = layer(kernel, stride, gap, pad, rows=False)
        columns = int(rng.integers(1, outputs + 1))
        tiles = column_tiles(made, size, outputs, columns, phase_major=False)
        most = max(tile.slots for tile in tiles)
        assert least_slots(made, size, outputs, columns) <= most, (axis, columns)


def test_kernel_columns_in_padding_are_left_out() -> None:
    """Dilation 12 on 20 columns: the first and last 8 meet two kernel columns, the others one."""
    (tile,) = column_tiles(
        layer(3, 1, 12, 12, rows=False), 20, 20, 20, phase_major=False, trimmed=True
    )
    met = {run.first + n * run.step: run.taps for run in tile.runs for n in range(run.count)}
    assert [met[column] for column in range(20)] == (
        8 * [range(1, 3)] + 4 * [range(1, 2)] + 8 * [range(2)]
    )


@pytest.mark.parametrize(
    ("phase_major", "trimmed"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_only_borders_of_long_maps_are_looked_at(
    phase_major: bool, trimmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A one-dimensional network of EEG, 7500 samples with gaps of 1024, took minutes a layer."""
    asked = []
    padding = gather_columns._Axis._padding
    monkeypatch.setattr(
        gather_columns._Axis,
        "_padding",
        lambda axis, output: asked.append(output) or padding(axis, output),
    )
    gather_columns._cached_tiles.cache_clear()
    made = layer(3, 1, 64, 64, rows=False)
    tiles = column_tiles(made, 7500, 7500, 1500, phase_major=phase_major, trimmed=trimmed)
    runs = sum(len(tile.runs) for tile in tiles)
    assert runs < 7500 // 10
    assert len(asked) <= 6 * runs
