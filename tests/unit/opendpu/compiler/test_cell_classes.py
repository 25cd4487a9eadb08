# SPDX-License-Identifier: Apache-2.0
"""Cells that areas have either all or none of, against a search cell by cell."""

import collections

import numpy as np
import pytest

from opendpu.compiler.accesses import Areas
from opendpu.compiler.cell_classes import CellClasses

CELLS, PITCH = 300, 50


def random_areas(rng: np.random.Generator, number: int, steps: list[int]) -> Areas:
    """Draw areas of up to three rows, some with gaps."""
    rows = rng.integers(1, 4, number)
    low = rng.integers(0, PITCH, number)
    return Areas(
        command=np.arange(number), write=rng.integers(2, size=number).astype(np.bool_), low=low,
        high=low + rng.integers(1, PITCH, number), rows=rows, step=rng.choice(steps, number),
        pitch=PITCH, cells=CELLS,
    )  # fmt: skip


def cells(areas: Areas, number: int) -> set[int]:
    first, end = int(areas.low[number]), int(areas.high[number])
    each = range(first, end, int(areas.step[number]))
    return {cell + row * PITCH for row in range(int(areas.rows[number])) for cell in each}


@pytest.mark.parametrize("steps", [[1], [1, 2, 3], [2, 4, 6]])
@pytest.mark.parametrize("seed", range(4))
def test_classes_make_up_every_area(seed: int, steps: list[int]) -> None:
    rng = np.random.default_rng(seed)
    areas = random_areas(rng, 12, steps)
    found = CellClasses(areas)
    of_cell = np.full(CELLS, -1, np.int32)
    found.set(of_cell, np.arange(found.count), np.arange(found.count, dtype=np.int32))
    members = collections.defaultdict(set)
    for cell, name in enumerate(of_cell.tolist()):
        members[name].add(cell)
    assert set(members) == {-1, *range(found.count)}
    for number in range(12):
        mine = found.of_area[found.area == number].tolist()
        assert len(mine) == len(set(mine))
        assert set().union(*(members[name] for name in mine)) == cells(areas, number)
        assert found.area[found.offset[number]] == number


def test_values_tell_cells_apart() -> None:
    rng = np.random.default_rng(7)
    areas = random_areas(rng, 6, [1, 3])
    values = np.repeat(rng.integers(0, 5, CELLS // 4), 4).astype(np.int32)
    found = CellClasses(areas, values)
    latest = found.latest(values)
    seen = values.copy()
    found.set(seen, np.arange(found.count), latest)
    assert np.array_equal(seen, values), "the value of a class is that of all of its cells"


def test_only_the_classes_named_get_a_value() -> None:
    areas = random_areas(np.random.default_rng(1), 1, [1])
    found = CellClasses(areas)
    values = np.zeros(CELLS, np.int32)
    found.set(values, np.empty(0, np.int64), np.empty(0, np.int32))
    assert not values.any()
    found.set(values, np.array([0]), np.array([9], np.int32))
    assert set(values.tolist()) == {0, 9}
