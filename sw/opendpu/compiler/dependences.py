# SPDX-License-Identifier: Apache-2.0
"""Which commands each one has to come after, by the words of banks and the bytes that they share.

A command must wait for the last earlier one of every engine that wrote what it touches, or read
what it writes.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from opendpu.compiler.banks import BankAccess
from opendpu.compiler.program import Command, MemoryAccess
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target

BLOCK_BYTES = 64
"""Granularity at which DDR is watched."""

LATER = np.iinfo(np.int32).max
"""Number of the LOAD of a cell that none has filled."""

SHORT_RANGE = 256
"""Commands among which LOADs are not told apart."""

EVERY = tuple(Engine)
ENGINES = len(EVERY)

Waits = list[dict[Engine, int]]
"""A command each, the numbers of the last ones of every engine, its own too, that must be done
before it."""
Ranges = list[list[tuple[int, int]]]
"""A command each, ranges ``first .. last`` of numbers, both included, that hold all LOADs which
must."""


def find_waits(commands: Sequence[Command], target: Target) -> Waits:
    """Return what each command has to wait for."""
    return find_dependences(commands, target, with_loads=False)[0]


def find_dependences(
    commands: Sequence[Command], target: Target, *, with_loads: bool = True
) -> tuple[Waits, Ranges]:
    """Return what each command has to wait for, and all its LOADs if wanted."""
    watched = _Watched(commands, target)
    found, loads = [], []
    nothing = np.full(ENGINES, -1, dtype=np.int64)
    for number, command in enumerate(commands):
        last = nothing.copy()
        ranges: list[tuple[int, int]] = []
        areas = list(watched.areas(command))
        for write, watch, where in areas:
            watch.ask(last, ranges if with_loads else None, write, where)
        for write, watch, where in areas:
            watch.note(command.instruction.ENGINE, write, where, number)
        found.append({e: n for e, n in zip(EVERY, last.tolist(), strict=True) if n >= 0})
        loads.append(ranges)
    return found, loads


def renumbered(
    commands: Sequence[Command], issued: Sequence[int], waits: Waits, loads: Ranges, target: Target
) -> tuple[list[Command], Waits]:
    """Return commands in another order of their LOADs, given by number, and their waits.

    Only the last LOAD may be another one than before. Where another of those that a command comes
    after may be last now, the words are looked at again.
    """
    place = np.empty(len(issued), dtype=np.int64)
    place[list(issued)] = np.arange(len(issued))
    of_load = [c.instruction.ENGINE == Engine.LOAD for c in commands]
    loaded = np.where(of_load, place, -1)
    latest = np.maximum.accumulate(loaded)
    moved = [commands[n] for n in issued]
    found: Waits = []
    doubtful = set()
    for number in issued:
        found.append({e: int(place[n]) for e, n in waits[number].items()})
        for first, last in loads[number] if not of_load[number] else ():
            end = latest[last] if first == 0 else loaded[first : last + 1].max()
            if end > found[-1][Engine.LOAD]:
                doubtful.add(len(found) - 1)
    for number, last in _last_loads(moved, doubtful, target):
        found[number][Engine.LOAD] = last
    return moved, found


def _last_loads(
    commands: Sequence[Command], wanted: set[int], target: Target
) -> Iterator[tuple[int, int]]:
    """Yield the numbers of some commands, each with that of the last LOAD it has to wait for."""
    watched = _Watched(commands, target)
    for number, command in enumerate(commands):
        if number in wanted:
            last = np.full(ENGINES, -1, dtype=np.int64)
            for write, watch, where in watched.areas(command):
                watch.ask(last, None, write, where)
            yield number, int(last[Engine.LOAD])
        elif command.instruction.ENGINE == Engine.LOAD:
            for write, watch, where in watched.areas(command):
                watch.note(Engine.LOAD, write, where, number)


class _Watched:
    """The banks, and the segments of DDR that commands both read and write."""

    def __init__(self, commands: Sequence[Command], target: Target) -> None:
        self.banks = _Watch(target.bank_count, target.bank_depth)
        self.memory: dict[int, _Watch] = {}
        for shared in _memory_accesses(commands):
            blocks = -(-shared.high // BLOCK_BYTES)
            known = self.memory.get(shared.reg_id)
            if known is None or known.depth < blocks:
                self.memory[shared.reg_id] = _Watch(1, blocks)

    def areas(self, command: Command) -> Iterator[tuple[bool, "_Watch", tuple[slice, slice]]]:
        """Yield what a command touches: whether it writes, the memory, and its cells there."""
        for access in command.accesses:
            for area in _areas(access, self.banks, self.memory):
                yield access.write, *area


class _Watch:
    """Last command of every engine that read, and that wrote, each cell of a memory."""

    def __init__(self, rows: int, depth: int) -> None:
        self.depth = depth
        self.writer = np.full((ENGINES, rows, depth), -1, dtype=np.int32)
        self.reader = np.full((ENGINES, rows, depth), -1, dtype=np.int32)
        self.loaded = np.full((rows, depth), LATER, dtype=np.int32)

    def ask(
        self, last: npt.NDArray[np.int64], loads: list[tuple[int, int]] | None, write: bool,
        where: tuple[slice, slice],
    ) -> None:  # fmt: skip
        """Raise ``last`` to the commands that an access has to come after; note its LOADs."""
        latest = self.writer[:, *where].max(axis=(1, 2))
        np.maximum(last, latest, out=last)
        if loads is not None and latest[Engine.LOAD] >= 0:
            loads += self._loads(where, int(latest[Engine.LOAD]))
        if write:
            latest = self.reader[:, *where].max(axis=(1, 2))
            np.maximum(last, latest, out=last)
            if loads is not None and latest[Engine.LOAD] >= 0:
                loads.append((0, int(latest[Engine.LOAD])))

    def _loads(self, where: tuple[slice, slice], last: int) -> list[tuple[int, int]]:
        """Return the LOADs up to ``last`` that filled cells: a short range, or each of them."""
        filled = self.loaded[where]
        first = int(filled.min())
        if last - first <= SHORT_RANGE:
            return [(first, last)]
        return [(n, n) for n in np.unique(filled).tolist() if n != LATER]

    def note(self, engine: Engine, write: bool, where: tuple[slice, slice], number: int) -> None:
        """Record an access."""
        (self.writer if write else self.reader)[engine, *where] = number
        if write and engine == Engine.LOAD:
            self.loaded[where] = number


def _areas(
    access: BankAccess | MemoryAccess, banks: _Watch, memory: dict[int, _Watch]
) -> Iterable[tuple[_Watch, tuple[slice, slice]]]:
    if isinstance(access, MemoryAccess):
        if access.reg_id in memory:
            low, high = access.low // BLOCK_BYTES, -(-access.high // BLOCK_BYTES)
            yield memory[access.reg_id], (slice(0, 1), slice(low, high))
        return
    rows = slice(access.bank, access.bank + access.banks)
    low, high, step = access.low, access.low + access.count, access.step
    yield banks, (rows, slice(low, min(high, banks.depth), step))
    again = (low - banks.depth) % step
    if high - banks.depth > again:
        yield banks, (rows, slice(again, high - banks.depth, step))


def _memory_accesses(commands: Sequence[Command]) -> list[MemoryAccess]:
    """Return the accesses to segments that are both read and written, the only ones to watch."""
    every = [a for c in commands for a in c.accesses if isinstance(a, MemoryAccess)]
    written = {a.reg_id for a in every if a.write}
    shared = written & {a.reg_id for a in every if not a.write}
    return sorted((a for a in every if a.reg_id in shared), key=lambda a: a.high)
