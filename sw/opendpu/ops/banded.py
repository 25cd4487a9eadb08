# SPDX-License-Identifier: Apache-2.0
"""Matrices whose rows have their numbers side by side: which rows are the same, but for the place.

As maps along an axis of a feature map, results whose numbers repeat after every so many of them are
one convolution with a stride.
"""

import dataclasses

import numpy as np

from opendpu.ir import Array


@dataclasses.dataclass(frozen=True)
class Run:
    """``count`` results in even distances: what they read first, the step between, the numbers."""

    first: int
    step: int
    count: int
    numbers: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Block:
    """Runs of as many results, which take turns."""

    runs: tuple[Run, ...]

    @property
    def size(self) -> int:
        """How many results they are together."""
        return len(self.runs) * self.runs[0].count


def blocks_of(matrix: Array, most: int) -> list[Block]:
    """Return the results of a matrix in as few runs as possible, in order.

    Runs have steps of at most ``most`` inputs.
    """
    single = [_single(row) for row in np.asarray(matrix, int)]
    best = [Block((run,)) for run in single]
    least = len(best)
    for period in range(1, len(single) // 2 + 1):
        start, end, step = _repeated(single, period, most)
        count = (end - start) // period
        layers = len(single) - (count - 1) * period
        if count > 1 and layers < least:
            least = layers
            middle = Block(
                tuple(
                    dataclasses.replace(run, step=step, count=count)
                    for run in single[start : start + period]
                )
            )
            rest = [Block((run,)) for run in single]
            best = [*rest[:start], middle, *rest[start + count * period :]]
    return best


def span_of(row: Array) -> int:
    """Return how many neighbours a row of a matrix reaches over."""
    used = np.flatnonzero(row)
    return int(used[-1] - used[0]) + 1 if used.size else 1


def _single(row: Array) -> Run:
    """Return a row of a matrix as what it reads first, and the numbers from there on."""
    first = int(np.argmax(row != 0))
    return Run(first, 1, 1, tuple(int(n) for n in row[first : first + span_of(row)]))


def _repeated(single: list[Run], period: int, most: int) -> tuple[int, int, int]:
    """Return the longest part in which numbers repeat after ``period`` results, and its step."""
    best, start, step = (0, 0, 1), 0, 0
    for place in range(len(single) - period):
        one, next_one = single[place], single[place + period]
        moved = next_one.first - one.first
        fits = one.numbers == next_one.numbers and 1 <= moved <= most
        if not fits or moved != step:
            start, step = (place, moved) if fits else (place + 1, 0)
        if fits and place + period + 1 - start > best[1] - best[0]:
            best = (start, place + period + 1, step)
    return best
