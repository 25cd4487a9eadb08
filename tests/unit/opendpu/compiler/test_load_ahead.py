# SPDX-License-Identifier: Apache-2.0
"""LOADs go before those that wait, where nothing else changes."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from network_draws import draw_network

from opendpu.compiler.accesses import Accesses, Areas, MemoryAccess, areas_of
from opendpu.compiler.backend import build
from opendpu.compiler.banks import BankAccess
from opendpu.compiler.dependences import find_dependences, find_waits
from opendpu.compiler.emitter.emit import emit
from opendpu.compiler.kinds import EMITTERS
from opendpu.compiler.load_ahead import load_ahead
from opendpu.compiler.program import Command
from opendpu.compiler.schedule import order_commands, simulate
from opendpu_arch.isa import Alu, Conv, Engine, Load, Save
from opendpu_arch.target import Target

Int32Array = npt.NDArray[np.int32]

TARGET = Target.from_name("B512")
KINDS = {Engine.LOAD: Load, Engine.SAVE: Save, Engine.CONV: Conv, Engine.MISC: Alu}


def command(engine: Engine, *accesses: BankAccess | MemoryAccess, cycles: int = 10) -> Command:
    return Command(KINDS[engine](), accesses, cycles)


def write(low: int, bank: int = 0) -> BankAccess:
    return BankAccess(True, bank, 1, low, 4)


def read(low: int, bank: int = 0) -> BankAccess:
    return BankAccess(False, bank, 1, low, 4)


def engines(commands: Sequence[Command]) -> list[int]:
    return [int(c.instruction.ENGINE) for c in commands]


def areas(commands: Sequence[Command]) -> Areas:
    return areas_of(Accesses.of([c.accesses for c in commands]), TARGET)


def order_of(*commands: Command) -> list[int]:
    waits, loads = find_dependences(engines(commands), areas(commands))
    lengths = [c.cycles for c in commands]
    cycles = simulate(engines(commands), lengths, waits)[1]
    return list(load_ahead(engines(commands), lengths, waits, loads, cycles))


WAITING = (
    command(Engine.LOAD, write(0)),
    command(Engine.CONV, read(0), cycles=100),
    command(Engine.LOAD, write(0)),  # waits for CONV
    command(Engine.CONV, read(0), cycles=100),
)
NEXT = command(Engine.MISC, read(8), cycles=300)


def test_a_load_whose_words_are_free_goes_before_one_that_waits() -> None:
    commands = (*WAITING, command(Engine.LOAD, write(8)), NEXT)
    assert order_of(*commands) == [0, 1, 4, 5, 2, 3]
    made = order_commands(commands, areas(commands))
    waits = find_waits(engines(commands), areas(commands))
    before = simulate(engines(commands), [c.cycles for c in commands], waits)[1]
    assert (made.cycles, before) == (320, 430)


@pytest.mark.parametrize(
    "late",
    [
        command(Engine.LOAD, write(8), cycles=200),
        command(Engine.LOAD, write(8), write(0)),
        command(Engine.LOAD, write(8), MemoryAccess(False, 1, 0, 64)),
    ],
    ids=["longer than the gap", "the same words", "bytes that are not saved yet"],
)
def test_other_loads_keep_their_place(late: Command) -> None:
    save = command(Engine.SAVE, read(0), MemoryAccess(True, 1, 0, 64))
    assert order_of(*WAITING, save, late, NEXT) == list(range(7))


def test_loads_of_the_same_words_keep_their_order() -> None:
    twice = (command(Engine.LOAD, write(8)), command(Engine.LOAD, write(8)))
    assert order_of(*WAITING, *twice, NEXT) == [0, 1, 4, 5, 6, 2, 3]


def test_few_cycles_are_not_worth_another_order() -> None:
    long = command(Engine.MISC, read(8), cycles=1_000_000)
    assert order_of(*WAITING, command(Engine.LOAD, write(8)), long) == list(range(6))


def test_random_networks_read_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opendpu.compiler.load_ahead.LEAST_GAIN", 1e-9)
    moved = 0
    for seed in range(12):
        commands = emit(build(draw_network(seed), TARGET).plan, TARGET, EMITTERS).commands
        order = order_of(*commands)
        assert sorted(order) == list(range(len(commands)))
        moved += order != list(range(len(commands)))
        wanted, found = (seen(commands, o, TARGET) for o in (range(len(commands)), order))
        assert wanted == found, f"seed {seed}"
        moved_areas = areas(commands).moved(np.argsort(order))
        again = [commands[n] for n in order]
        waits = find_waits(engines(again), moved_areas)
        assert np.array_equal(waits, find_waits(engines(again), areas(again))), f"seed {seed}"
    assert moved


def seen(commands: Sequence[Command], order: Iterable[int], target: Target) -> dict[int, bytes]:
    """Return, by command, who wrote what it reads; at -1 who wrote what is left."""
    banks = np.full((target.bank_count, target.bank_depth), -1, np.int32)
    every = [a for c in commands for a in c.accesses if isinstance(a, MemoryAccess)]
    memory = {
        reg: np.full(max(a.high for a in every if a.reg_id == reg), -1, np.int32)
        for reg in {a.reg_id for a in every}
    }

    def cells(access: BankAccess | MemoryAccess) -> tuple[Int32Array, Any]:
        if isinstance(access, MemoryAccess):
            return memory[access.reg_id], slice(access.low, access.high)
        words = np.arange(access.low, access.low + access.words, access.step) % target.bank_depth
        return banks, (slice(access.bank, access.bank + access.banks), words)

    found: dict[int, bytes] = {}
    for number in order:
        for write in (False, True):
            for access in (a for a in commands[number].accesses if a.write == write):
                array, where = cells(access)
                if write:
                    array[where] = number
                else:
                    found[number] = found.get(number, b"") + array[where].tobytes()
    found[-1] = banks.tobytes() + b"".join(memory[reg].tobytes() for reg in sorted(memory))
    return found
