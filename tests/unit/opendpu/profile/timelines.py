# SPDX-License-Identifier: Apache-2.0
"""Random programs with timelines, possible and impossible ones."""

import random

import numpy as np

from opendpu.profile import ProgramView
from opendpu.profile.program import Work, array_steps
from opendpu.runtime.device import Timeline
from opendpu_arch.isa import Alu, Conv, ConvInit, End, Engine, Instruction, Load, Save

KINDS: dict[Engine, type[Instruction]] = {
    Engine.LOAD: Load, Engine.SAVE: Save, Engine.CONV: Conv, Engine.MISC: Alu,
}  # fmt: skip


def draw_program(pick: random.Random) -> list[Instruction]:
    """Return a program whose tokens pair up in its own order."""
    count = pick.randint(1, 40)
    engines = [pick.choice(list(Engine)) for _ in range(count)]
    signals, waits = [0] * count, [0] * count
    last: dict[tuple[Engine, Engine], int] = {}
    for number in range(count):
        for producer in range(number):
            pair = (engines[producer], engines[number])
            if engines[producer] != engines[number] and pick.random() < 0.15:
                if last.get(pair, -1) >= producer or waits[number] >> engines[producer] & 1:
                    continue
                if signals[producer] >> engines[number] & 1:
                    continue
                last[pair] = producer
                signals[producer] |= 1 << engines[number]
                waits[number] |= 1 << engines[producer]
    program: list[Instruction] = []
    for number, engine in enumerate(engines):
        tokens = {"dpdon": waits[number], "dpdby": signals[number]}
        if engine is Engine.CONV and pick.random() < 0.3:
            program.append(
                ConvInit(kernel_h=pick.randint(1, 3), kernel_w=pick.randint(1, 3), **tokens)
            )
        elif engine is Engine.CONV:
            program.append(
                Conv(length=pick.randint(1, 9), channel_group=pick.randint(1, 3), **tokens)
            )
        else:
            program.append(KINDS[engine](**tokens))
    return [*program, End()]


def view_of(program: list[Instruction], pick: random.Random) -> ProgramView:
    """Return the program with random layers and random work."""
    layers = tuple(f"layer{n}" for n in range(pick.randint(1, 5)))
    return ProgramView(
        name="test", instructions=tuple(program), layers=layers,
        layer_of=(*(pick.randrange(len(layers)) for _ in program[:-1]), -1),
        work=tuple(
            Work(operations=2 * n, macs=n, array_macs=n)
            for n in (pick.choice([0, pick.randint(0, 4000)]) for _ in layers)
        ),
        constant_registers=frozenset({0}), steps=array_steps(program),
    )  # fmt: skip


def possible(program: list[Instruction], pick: random.Random) -> tuple[Timeline, int]:
    """Return a timeline that keeps tokens and queues, and the cycles of the run."""
    from opendpu.profile.tokens import producers

    waits = producers(program)
    steps = array_steps(program)
    start, end = [0] * len(program), [0] * len(program)
    taken, done, array = dict.fromkeys(Engine, 0), dict.fromkeys(Engine, 0), 0
    for number, instruction in enumerate(program):
        engine = instruction.ENGINE
        ready = max([taken[engine], *(end[p] + 1 for p in waits[number])])
        if isinstance(instruction, End):
            ready = max([ready, *(e + 1 for e in end[:-1])])
        start[number] = ready + pick.choice([0, 0, pick.randint(0, 20)])
        taken[engine] = start[number] + 1
        array = max(array, start[number]) + steps[number] if steps[number] else array
        least = max(array if steps[number] else start[number] + 1, done[engine])
        end[number] = least + pick.choice([0, 0, pick.randint(0, 20)])
        done[engine] = end[number]
    cycles = max(end) + 1 + pick.randint(0, 5)
    return Timeline(np.array(start), np.array(end)), cycles


def any_order(program: list[Instruction], pick: random.Random) -> tuple[Timeline, int]:
    """Return a timeline that rises along every engine, and nothing else."""
    cycles = pick.randint(len(program) + 2, 300)
    start = np.zeros(len(program), np.int64)
    end = np.zeros(len(program), np.int64)
    for engine in Engine:
        mine = [n for n, i in enumerate(program) if engine == i.ENGINE]
        starts = sorted(pick.randrange(cycles) for _ in mine)
        ends = sorted(pick.randrange(cycles) for _ in mine)
        for number, a, b in zip(mine, starts, ends, strict=True):
            start[number], end[number] = min(a, b), max(a, b)
    return Timeline(start, end), cycles
