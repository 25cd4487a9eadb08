# SPDX-License-Identifier: Apache-2.0
"""Pass: commands to a program with tokens, in the order in which engines become free.

A command must wait for the last earlier one of another engine that wrote what it touches, or read
what it writes. Engines work in order, so that waiting for a command means waiting for all before
it; a wait is left out when an earlier one covers it. Each wait that stays is one token: the
producer signals, the consumer takes it, and every counter is zero at END.
"""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from opendpu.compiler.banks import BankAccess
from opendpu.compiler.load_ahead import load_ahead
from opendpu.compiler.program import Command, CommandStream, MemoryAccess, Program, Schedule
from opendpu_arch.isa import End, Engine, Instruction
from opendpu_arch.target import Target

BLOCK_BYTES = 64
"""Granularity at which DDR is watched."""

LATER = np.iinfo(np.int32).max
"""Number of the LOAD of a cell that none has filled."""

SHORT_RANGE = 256
"""Commands among which LOADs are not told apart."""

EVERY = tuple(Engine)
ENGINES = len(EVERY)


def schedule(stream: CommandStream, target: Target) -> Program:
    """Return the program of a plan, with tokens and END."""
    return Program(plan=stream.plan, schedule=order_commands(stream.commands, target))


def order_commands(commands: Sequence[Command], target: Target) -> Schedule:
    """Return the instructions of ``commands`` with tokens and END, in the order of their starts."""
    found, loads = find_dependences(commands, target)
    start, cycles = simulate(commands, found)
    issued = load_ahead(commands, found, loads, cycles)
    if issued != range(len(commands)):
        commands = [commands[n] for n in issued]
        found = find_waits(commands, target)
        start, cycles = simulate(commands, found)
    waits = reduce_waits(commands, found)
    signals: list[int] = [0] * len(commands)
    for number, wait in enumerate(waits):
        for producer in wait.values():
            signals[producer] |= 1 << commands[number].instruction.ENGINE
    order = sorted(range(len(commands)), key=lambda i: (start[i], i))
    program: list[Instruction] = []
    for i in order:
        own = 1 << commands[i].instruction.ENGINE
        waited = sum(1 << engine for engine in waits[i])
        program.append(
            dataclasses.replace(commands[i].instruction, dpdon=own | waited, dpdby=own | signals[i])
        )
    own = 1 << Engine.SAVE
    program.append(End(dpdon=own, dpdby=own))
    busy = {e.name.lower(): 0 for e in Engine}
    for command in commands:
        busy[command.instruction.ENGINE.name.lower()] += command.cycles
    return Schedule(
        instructions=tuple(program), cycles=cycles, busy_cycles=busy,
        layers=(*(commands[i].layer for i in order), ""),
        start=(*(int(start[i]) for i in order), cycles),
        end=(*(int(start[i]) + commands[i].cycles for i in order), cycles),
    )  # fmt: skip


def find_waits(commands: Sequence[Command], target: Target) -> list[dict[Engine, int]]:
    """Return, a command each, the last one of every engine that must be done before it."""
    return find_dependences(commands, target, with_loads=False)[0]


def find_dependences(
    commands: Sequence[Command], target: Target, *, with_loads: bool = True
) -> tuple[list[dict[Engine, int]], list[list[tuple[int, int]]]]:
    """Return, a command each, the last one of every engine that must be done before it, and ranges
    ``first .. last`` of numbers that hold all LOADs which must, if wanted.
    """
    banks = _Watch(target.bank_count, target.bank_depth)
    memory: dict[int, _Watch] = {}
    for shared in _memory_accesses(commands):
        blocks = -(-shared.high // BLOCK_BYTES)
        known = memory.get(shared.reg_id)
        if known is None or known.depth < blocks:
            memory[shared.reg_id] = _Watch(1, blocks)
    found, loads = [], []
    nothing = np.full(ENGINES, -1, dtype=np.int64)
    for number, command in enumerate(commands):
        engine = command.instruction.ENGINE
        last = nothing.copy()
        ranges: list[tuple[int, int]] = []
        areas = [(a.write, *area) for a in command.accesses for area in _areas(a, banks, memory)]
        for write, watch, where in areas:
            watch.ask(last, ranges if with_loads else None, write, where)
        for write, watch, where in areas:
            watch.note(engine, write, where, number)
        found.append({e: n for e, n in zip(EVERY, last.tolist(), strict=True) if n >= 0})
        loads.append(ranges)
    return found, loads


def reduce_waits(
    commands: Sequence[Command], waits: Sequence[dict[Engine, int]]
) -> list[dict[Engine, int]]:
    """Drop every wait that an earlier wait, direct or through other engines, covers."""
    known = np.full((ENGINES, ENGINES), -1, dtype=np.int64)
    after = np.full((len(commands), ENGINES), -1, dtype=np.int64)
    kept: list[dict[Engine, int]] = []
    for number, (command, wait) in enumerate(zip(commands, waits, strict=True)):
        engine = command.instruction.ENGINE
        mine = known[engine]
        keep: dict[Engine, int] = {}
        # The latest producer first: it often covers the others.
        for producer_engine, producer in sorted(wait.items(), key=lambda w: -w[1]):
            if producer > mine[producer_engine]:
                keep[producer_engine] = producer
                np.maximum(mine, after[producer], out=mine)
        mine[engine] = number
        after[number] = mine
        kept.append(keep)
    return kept


def simulate(
    commands: Sequence[Command], waits: Sequence[dict[Engine, int]]
) -> tuple[npt.NDArray[np.int64], int]:
    """Return the cycle in which each command starts, and the cycle in which all are done."""
    start = np.zeros(len(commands), dtype=np.int64)
    done = np.zeros(len(commands), dtype=np.int64)
    free = [0] * ENGINES
    for number, (command, wait) in enumerate(zip(commands, waits, strict=True)):
        engine = command.instruction.ENGINE
        begin = max([free[engine], *(int(done[p]) for p in wait.values())])
        start[number] = begin
        done[number] = free[engine] = begin + command.cycles
    return start, max(free)


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
