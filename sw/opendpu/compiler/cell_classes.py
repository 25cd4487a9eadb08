# SPDX-License-Identifier: Apache-2.0
"""Cells of memory that all areas of some commands have either all or none of, as one."""

from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.compiler.accesses import Areas, Int64Array

KEPT = np.iinfo(np.int32).min
"""Stands for the value that a cell has."""


class CellClasses:
    """Classes of cells, and those that every area has.

    Where areas begin and end cuts the cells into intervals. All cells of an interval are one class,
    unless areas have only every few of them: then there is a class for each remainder by the
    least common multiple of these distances.

    Parameters
    ----------
    areas
        What has a say in it.
    told_apart
        A value for every cell, which is the same in all cells of a class; or none.
    """

    def __init__(self, areas: Areas, told_apart: npt.NDArray[Any] | None = None) -> None:
        owner, low, high = _ranges(areas)
        step = areas.step[owner]
        bounds = np.unique(np.concatenate((low, high)))
        if told_apart is not None:
            bounds = np.union1d(bounds, _changes(told_apart, low, high))
        self._first, self._size = bounds[:-1], np.diff(bounds)
        begin, end = np.searchsorted(bounds, low), np.searchsorted(bounds, high)
        self._period = self._periods(begin, end, step)
        covered = _depth(begin, end, bounds.size - 1) > 0
        count = np.where(covered, np.minimum(self._period, self._size), 0)
        before = np.concatenate(([0], np.cumsum(count)))
        self._before = before[:-1]
        self.count = int(before[-1])
        """Number of classes."""
        found, pair = _runs(before[begin], before[end])
        pair, found = self._with_gaps(pair, found, low, step, count)
        self.area: Int64Array = owner[pair]
        """Area of every pair of an area and a class that it has, in the order of areas."""
        self.of_area: Int64Array = found
        """Class of every such pair."""
        self.offset: Int64Array = np.searchsorted(self.area, np.arange(areas.command.size))
        """First pair of every area."""
        self._locate(covered)

    def _periods(self, begin: Int64Array, end: Int64Array, step: Int64Array) -> Int64Array:
        """Return the distance from one cell of a class to the next, for every interval."""
        period = np.ones_like(self._first)
        for distance in np.unique(step[step > 1]).tolist():
            mine = step == distance
            inside = _depth(begin[mine], end[mine], period.size) > 0
            period[inside] = np.lcm(period[inside], distance)
        return period

    def _with_gaps(
        self, pair: Int64Array, found: Int64Array, low: Int64Array, step: Int64Array,
        count: Int64Array,
    ) -> tuple[Int64Array, Int64Array]:  # fmt: skip
        """Leave out pairs of a range of cells and a class in its gaps."""
        if (step == 1).all():
            return pair, found
        cell = np.arange(self.count) + np.repeat(self._first - self._before, count)
        here = (cell[found] - low[pair]) % step[pair] == 0
        return pair[here], found[here]

    def _locate(self, covered: npt.NDArray[np.bool_]) -> None:
        """Find the cells of every class."""
        first, size = self._first[covered], self._size[covered]
        cells, interval = _runs(first, first + size)
        self._cells, self._class = cells, self._before[covered][interval]
        self._begin = np.cumsum(size) - size
        self._sorted = None
        if (self._period > 1).any():
            self._class = self._class + (cells - first[interval]) % self._period[covered][interval]
            self._sorted = np.argsort(self._class, kind="stable")
            self._begin = np.searchsorted(self._class[self._sorted], np.arange(self.count))

    def latest(self, values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the largest value of the cells of every class."""
        mine = values[self._cells]
        if self._sorted is not None:
            mine = mine[self._sorted]
        found: npt.NDArray[np.int32] = np.maximum.reduceat(mine, self._begin)
        return found

    def set(
        self, values: npt.NDArray[np.int32], classes: Int64Array, given: npt.NDArray[np.int32]
    ) -> None:
        """Give all cells of some classes the value of their class."""
        of_class = np.full(self.count, KEPT, np.int32)
        of_class[classes] = given
        wanted = of_class[self._class]
        mine = wanted != KEPT
        values[self._cells[mine]] = wanted[mine]


def _ranges(areas: Areas) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the area of every range of cells, its first cell and its end."""
    row, owner = _runs(np.zeros_like(areas.rows), areas.rows)
    shift = row * areas.pitch
    return owner, areas.low[owner] + shift, areas.high[owner] + shift


def _runs(first: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return all numbers of ranges ``first .. end``, and the number of the range of each."""
    size = end - first
    owner = np.repeat(np.arange(size.size), size)
    return np.arange(owner.size) + np.repeat(first - (np.cumsum(size) - size), size), owner


def _depth(begin: Int64Array, end: Int64Array, size: int) -> Int64Array:
    """Return how many ranges ``begin .. end`` each of ``size`` places is in."""
    change = np.bincount(begin, minlength=size + 1) - np.bincount(end, minlength=size + 1)
    found: Int64Array = np.cumsum(change)[:size]
    return found


def _changes(values: npt.NDArray[Any], low: Int64Array, high: Int64Array) -> Int64Array:
    """Return the cells inside of ranges whose value is not that of the cell before."""
    found = np.flatnonzero(values[1:] != values[:-1]) + 1
    bounds = np.unique(np.concatenate((low, high)))
    inside = _depth(np.searchsorted(bounds, low), np.searchsorted(bounds, high), bounds.size)
    return found[inside[np.searchsorted(bounds, found, side="right") - 1] > 0]
