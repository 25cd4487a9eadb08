# SPDX-License-Identifier: Apache-2.0
"""Pass: commands to a program with tokens, in the order in which engines become free.

Engines work in order, so that waiting for a command means waiting for all before it; a wait is left
out when an earlier one covers it. Each wait that stays is one token: the
producer signals, the consumer takes it, and every counter is zero at END.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from opendpu.compiler.dependences import find_dependences, renumbered
from opendpu.compiler.load_ahead import load_ahead
from opendpu.compiler.program import Command, CommandStream, Program, Schedule
from opendpu_arch.isa import End, Engine, Instruction
from opendpu_arch.target import Target

ENGINES = len(Engine)


def schedule(stream: CommandStream, target: Target) -> Program:
    """Return the program of a plan, with tokens and END."""
    return Program(plan=stream.plan, schedule=order_commands(stream.commands, target))


def order_commands(commands: Sequence[Command], target: Target) -> Schedule:
    """Return the instructions of ``commands`` with tokens and END, in the order of their starts."""
    found, loads = find_dependences(commands, target)
    start, cycles = simulate(commands, found)
    issued = load_ahead(commands, found, loads, cycles)
    if issued != range(len(commands)):
        commands, found = renumbered(commands, issued, found, loads, target)
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
