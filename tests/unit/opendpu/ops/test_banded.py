# SPDX-License-Identifier: Apache-2.0
"""Runs of a matrix's rows: together they are the matrix, and as few as its numbers repeat."""

import numpy as np
import pytest

from opendpu.ops.banded import Block, blocks_of, span_of


def matrix_of(blocks: list[Block], size: int) -> np.ndarray:
    """The matrix that some blocks stand for."""
    rows = []
    for block in blocks:
        for turn in range(block.runs[0].count):
            for run in block.runs:
                row, first = np.zeros(size, int), run.first + turn * run.step
                row[first : first + len(run.numbers)] = run.numbers
                rows.append(row)
    return np.array(rows)


def stretched(size: int, made: int, factor: float, start: float) -> np.ndarray:
    places = np.clip(np.arange(made) * factor + start, 0, size - 1)
    first = np.floor(places).astype(int)
    share = np.round((places - first) * 64).astype(int)
    matrix = np.zeros((made, size), int)
    matrix[np.arange(made), first] = 64 - share
    matrix[np.arange(made), np.minimum(first + 1, size - 1)] += share
    return matrix


@pytest.mark.parametrize(
    ("matrix", "runs"),
    [
        (stretched(20, 40, 19 / 39, 0), 40), (stretched(13, 20, 0.65, -0.175), 21),
        (stretched(12, 36, 1 / 3, -1 / 3), 6), (stretched(28, 14, 2, 0.5), 1),
        (np.zeros((4, 6), int), 4), (np.full((1, 1), 7), 1), (np.eye(9, dtype=int), 1),
        (np.tril(np.ones((5, 5), int)), 5),
    ],
)  # fmt: skip
def test_blocks_are_the_matrix(matrix, runs):
    blocks = blocks_of(matrix, 8)
    np.testing.assert_array_equal(matrix_of(blocks, matrix.shape[1]), matrix)
    assert sum(block.size for block in blocks) == len(matrix)
    assert sum(len(block.runs) for block in blocks) <= runs


def test_steps_are_no_longer_than_allowed():
    matrix = np.zeros((4, 40), int)
    matrix[np.arange(4), 9 * np.arange(4)] = 3
    assert len(blocks_of(matrix, 8)) == 4
    assert len(blocks_of(matrix, 9)) == 1


def test_span():
    assert [span_of(np.array(row)) for row in ([0, 2, 0, 1], [0, 0], [5, 0])] == [3, 1, 1]
