# SPDX-License-Identifier: Apache-2.0
"""Pass: commands to a program with tokens, in the order in which engines become free.

Engines work in order, so that waiting for a command means waiting for all before it; a wait is left
out when an earlier one covers it. Each wait that stays is one token: the
producer signals, the consumer takes it, and every counter is zero at END.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from opendpu.compiler.accesses import Areas, areas_of
from opendpu.compiler.dependences import NONE, Waits, find_dependences, find_waits
from opendpu.compiler.load_ahead import load_ahead
from opendpu.compiler.passing_saves import passing_saves
from opendpu.compiler.program import Command, CommandStream, Program, Schedule
from opendpu_arch.isa import End, Engine
from opendpu_arch.target import Target

ENGINES = len(Engine)


def schedule(stream: CommandStream, target: Target) -> Program:
    """Return the program of a plan, with tokens and END."""
    areas = areas_of(stream.accesses, target)
    return Program(plan=stream.plan, schedule=order_commands(stream.commands, areas))


def order_commands(commands: Sequence[Command], areas: Areas) -> Schedule:
    """Return the instructions of ``commands`` with tokens and END, in the order of their starts.

    ``areas`` are what the commands touch.
    """
    engines = [int(command.instruction.ENGINE) for command in commands]
    lengths = [command.cycles for command in commands]
    waits, loads = find_dependences(engines, areas)
    start, cycles = simulate(engines, lengths, waits)
    issued = load_ahead(engines, lengths, waits, loads, cycles)
    if issued != range(len(commands)):
        place = np.empty(len(issued), np.int64)
        place[list(issued)] = np.arange(len(issued))
        commands = [commands[n] for n in issued]
        engines, lengths = ([values[n] for n in issued] for values in (engines, lengths))
        waits = find_waits(engines, areas.moved(place))
        start, cycles = simulate(engines, lengths, waits)
    waited, given = tokens(engines, reduce_waits(engines, waits))
    order = np.argsort(start, kind="stable").tolist()
    own = 1 << Engine.SAVE
    end = start + np.array(lengths, np.int64)
    busy = np.bincount(engines, weights=lengths, minlength=ENGINES)
    for ahead in passing_saves([commands[n].instruction for n in order]):
        waited[order[ahead]] &= ~own
    return Schedule(
        issued=(*(commands[n].instruction for n in order), End()),
        waits=(*(waited[n] for n in order), own), signals=(*(given[n] for n in order), own),
        cycles=cycles,
        busy_cycles={e.name.lower(): int(busy[e]) for e in Engine},
        layers=(*(commands[n].layer for n in order), ""),
        start=(*start[order].tolist(), cycles), end=(*end[order].tolist(), cycles),
    )  # fmt: skip


def reduce_waits(engines: Sequence[int], waits: Waits) -> Waits:
    """Drop every wait that an earlier wait, direct or through other engines, covers."""
    known = [[NONE] * ENGINES for _ in Engine]
    after: list[list[int]] = []
    kept = np.full_like(waits, NONE)
    for number, (engine, wait) in enumerate(zip(engines, waits.tolist(), strict=True)):
        mine = known[engine]
        # The latest producer first: it often covers the others.
        for producer in sorted(wait, reverse=True):
            if producer == NONE:
                break
            if producer > mine[engines[producer]]:
                kept[number, engines[producer]] = producer
                mine = list(map(max, mine, after[producer]))
        mine = known[engine] = [*mine]
        mine[engine] = number
        after.append(mine)
    return kept


def tokens(engines: Sequence[int], waits: Waits) -> tuple[list[int], list[int]]:
    """Return the engines that each command waits for, and those that it signals, a bit each.

    Its own engine is among both.
    """
    engine = np.array(engines, np.int64)
    waited, signals = 1 << engine, 1 << engine
    for producers in waits.T:
        taken = np.flatnonzero(producers != NONE)
        given = producers[taken]
        waited[taken] |= 1 << engine[given]
        np.bitwise_or.at(signals, given, 1 << engine[taken])
    return waited.tolist(), signals.tolist()


def simulate(
    engines: Sequence[int], lengths: Sequence[int], waits: Waits
) -> tuple[npt.NDArray[np.int64], int]:
    """Return the cycle in which each command starts, and the cycle in which all are done.

    ``engines`` and ``lengths`` say the engine and the cycles of every command.
    """
    starts: list[int] = []
    done: list[int] = [0] * (len(engines) + 1)  # one more, at NONE
    free = [0] * ENGINES
    rows = zip(engines, lengths, waits.tolist(), strict=True)
    for number, (engine, length, (a, b, c, d)) in enumerate(rows):
        start = max(free[engine], done[a], done[b], done[c], done[d])
        starts.append(start)
        done[number] = free[engine] = start + length
    return np.array(starts, np.int64), max(free)
