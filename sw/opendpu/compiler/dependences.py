# SPDX-License-Identifier: Apache-2.0
"""Which commands each one has to come after, by the words of banks and the bytes that they share.

A command must wait for the last earlier one of every engine that wrote what it touches, or read
what it writes. Commands are looked at some thousands at a time. Cells that all areas of these have
either all or none of are as one: an interval of cells, or every few of its cells where areas have
gaps. Who touched each of them last is then found for all at once, in arrays sorted by cell and
command.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from opendpu.compiler.accesses import Areas, Int64Array
from opendpu.compiler.cell_classes import CellClasses
from opendpu_arch.isa import Engine

NONE = -1
"""No command."""

SHORT_RANGE = 256
"""Commands among which LOADs are not told apart."""

PART = 1 << 13
"""Ranges of cells that are looked at at a time, about."""

LATER = np.iinfo(np.int32).max
"""After all commands."""

ENGINES = len(Engine)
KINDS = 2 * ENGINES
"""Reads and writes of every engine, by number: reads are even."""
LOADED = 2 * Engine.LOAD + 1
"""Number of LOAD's writes."""

Waits = npt.NDArray[np.int32]
"""A row a command, a column an engine: the last one of its commands, their own engine too, that
must be done before; ``NONE`` where there is none."""


@dataclasses.dataclass(frozen=True)
class Ranges:
    """Ranges ``first .. last`` of numbers, both included, that hold all LOADs before a command.

    ``command`` says which command each is for; there may be several for one.
    """

    command: Int64Array
    first: Int64Array
    last: Int64Array


def find_waits(engines: Sequence[int], areas: Areas) -> Waits:
    """Return what each command has to wait for.

    ``engines`` are those of the commands, ``areas`` what they touch.
    """
    return _find(engines, areas, None)


def find_dependences(engines: Sequence[int], areas: Areas) -> tuple[Waits, Ranges]:
    """Return what each command has to wait for, and all its LOADs."""
    loads: list[Int64Array] = [np.empty((3, 0), np.int64)]
    waits = _find(engines, areas, loads)
    return waits, Ranges(*np.concatenate(loads, axis=1))


def _find(engines: Sequence[int], areas: Areas, loads: list[Int64Array] | None) -> Waits:
    """Return what each command has to wait for; ``loads`` gets its LOADs, as of ``Ranges``."""
    engine = np.array(engines, np.int64)
    waits = np.full((engine.size, ENGINES), NONE, np.int32)
    last = np.full((KINDS, areas.cells), NONE, np.int32)
    for part in _parts(areas):
        kind = 2 * engine[part.command] + part.write
        cells = CellClasses(part, last[LOADED] if loads is not None else None)
        before = _before(part, kind, cells, last)
        found = np.stack([_latest(part, cells, before, e) for e in range(ENGINES)], axis=1)
        np.maximum.at(waits, part.command, found)
        if loads is not None:
            loads += _ranges(part, cells, before)
    return waits


def _parts(areas: Areas) -> Iterator[Areas]:
    """Yield the areas of whole commands, some thousand ranges of cells at a time."""
    before = np.concatenate(([0], np.cumsum(areas.rows)))
    first, size = 0, areas.command.size
    while first < size:
        end = max(first + 1, int(np.searchsorted(before, before[first] + PART)))
        while end < size and areas.command[end] == areas.command[end - 1]:
            end += 1
        end = min(end, size)
        yield areas.part(first, end)
        first = end


def _before(
    part: Areas, kind: Int64Array, cells: CellClasses, last: Waits
) -> dict[int, Int64Array]:
    """Return, by kind of access, the last command before each area that touched each class of it.

    ``last`` has the last one that touched each cell before the part, and gets that after it.
    """
    bits = cells.area.size.bit_length()
    keys = cells.of_area << bits | np.arange(cells.area.size)
    keys.sort()
    order, where = keys & (1 << bits) - 1, keys >> bits
    command, kind = part.command[cells.area[order]], kind[cells.area[order]]
    place = np.arange(order.size)
    other_cells = np.concatenate(([True], where[1:] != where[:-1]))
    other = np.concatenate(([True], command[1:] != command[:-1])) | other_cells
    start = np.maximum.accumulate(np.where(other_cells, place, 0))
    earlier = np.maximum.accumulate(np.where(other, place, 0)) - 1
    end = np.flatnonzero(np.concatenate((other_cells[1:], [True])))
    found: dict[int, Int64Array] = {}
    for number in range(KINDS):
        known = cells.latest(last[number])
        value = known[where]
        mine = kind == number
        if mine.any():
            latest = np.maximum.accumulate(np.where(mine, place, NONE))
            at = latest[earlier]
            inside = (earlier >= start) & (at >= start)
            value[inside] = command[at[inside]]
            touched = end[latest[end] >= start[end]]
            cells.set(last[number], where[touched], command[latest[touched]])
        elif not (known >= 0).any():
            continue
        found[number] = np.empty_like(value)
        found[number][order] = value
    return found


def _latest(
    part: Areas, cells: CellClasses, before: dict[int, Int64Array], engine: int
) -> Int64Array:
    """Return the last command of an engine that each area has to come after."""
    found = np.full(part.command.size, NONE, np.int64)
    writes, reads = before.get(2 * engine + 1), before.get(2 * engine)
    if writes is not None:
        found = np.maximum.reduceat(writes, cells.offset)
    if reads is not None:
        read = np.maximum.reduceat(reads, cells.offset)
        found = np.where(part.write, np.maximum(found, read), found)
    return found


def _ranges(part: Areas, cells: CellClasses, before: dict[int, Int64Array]) -> Iterator[Int64Array]:
    """Yield command, first and last of the ranges of LOADs that each area has to come after.

    Those that filled cells, where they are far apart one by one; and all up to the last that read
    what the area writes.
    """
    if (filled := before.get(LOADED)) is not None:
        last = np.maximum.reduceat(filled, cells.offset)
        first = np.minimum.reduceat(np.where(filled < 0, LATER, filled), cells.offset)
        near = (last >= 0) & (last - first <= SHORT_RANGE)
        yield np.stack([part.command[near], first[near], last[near]])
        far = (last >= 0) & ~near
        mine = np.flatnonzero(far[cells.area] & (filled >= 0))
        yield np.stack([part.command[cells.area[mine]], filled[mine], filled[mine]])
    if (read := before.get(2 * Engine.LOAD)) is not None:
        last = np.maximum.reduceat(read, cells.offset)
        mine = np.flatnonzero(part.write & (last >= 0))
        yield np.stack([part.command[mine], np.zeros_like(mine), last[mine]])
