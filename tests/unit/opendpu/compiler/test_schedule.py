# SPDX-License-Identifier: Apache-2.0
"""Tokens: enough of them, none too many, in an order that any hardware can run."""

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from network_draws import draw_network

from opendpu.compiler.accesses import Accesses, Areas, MemoryAccess, areas_of
from opendpu.compiler.backend import BACKEND_PASSES, build
from opendpu.compiler.banks import BankAccess
from opendpu.compiler.dependences import NONE, Waits, find_waits
from opendpu.compiler.emitter.emit import emit
from opendpu.compiler.kinds import EMITTERS
from opendpu.compiler.program import Command
from opendpu.compiler.schedule import order_commands, reduce_waits, simulate
from opendpu.compiler.verify import verify
from opendpu_arch.isa import Alu, Conv, End, Engine, Load, Save
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")
KINDS = {Engine.LOAD: Load, Engine.SAVE: Save, Engine.CONV: Conv, Engine.MISC: Alu}


def command(engine: Engine, *accesses: BankAccess | MemoryAccess, cycles: int = 10) -> Command:
    return Command(KINDS[engine](), accesses, cycles)


def write(low: int, count: int = 4, bank: int = 0, banks: int = 1) -> BankAccess:
    return BankAccess(True, bank, banks, low, count)


def read(low: int, count: int = 4, bank: int = 0, banks: int = 1) -> BankAccess:
    return BankAccess(False, bank, banks, low, count)


def areas(commands: Sequence[Command]) -> Areas:
    return areas_of(Accesses.of([c.accesses for c in commands]), TARGET)


def engines(commands: Sequence[Command]) -> list[int]:
    return [int(c.instruction.ENGINE) for c in commands]


def by_engine(waits: Waits) -> list[dict[Engine, int]]:
    return [{e: row[e] for e in Engine if row[e] != NONE} for row in waits.tolist()]


def all_waits(commands: Sequence[Command]) -> Waits:
    return find_waits(engines(commands), areas(commands))


def waits_of(*commands: Command) -> list[dict[Engine, int]]:
    return by_engine(reduce_waits(engines(commands), all_waits(commands)))


def test_read_after_write_waits() -> None:
    assert waits_of(command(Engine.LOAD, write(0)), command(Engine.CONV, read(3)))[1] == {
        Engine.LOAD: 0
    }


def test_write_after_read_waits() -> None:
    waits = waits_of(command(Engine.SAVE, read(0)), command(Engine.CONV, write(2)))
    assert waits[1] == {Engine.SAVE: 0}


def test_write_after_write_waits() -> None:
    waits = waits_of(command(Engine.LOAD, write(0)), command(Engine.CONV, write(2)))
    assert waits[1] == {Engine.LOAD: 0}


def test_reads_do_not_wait_for_reads() -> None:
    assert waits_of(command(Engine.SAVE, read(0)), command(Engine.CONV, read(0)))[1] == {}


def test_other_words_and_other_banks_do_not_wait() -> None:
    waits = waits_of(
        command(Engine.LOAD, write(0)), command(Engine.CONV, read(4), read(0, bank=1, banks=3))
    )
    assert waits[1] == {}


def test_words_wrap_at_the_depth() -> None:
    end = TARGET.bank_depth - 2
    waits = waits_of(command(Engine.LOAD, write(1)), command(Engine.CONV, read(end, 4)))
    assert waits[1] == {Engine.LOAD: 0}


def test_every_few_words_wait_only_for_these() -> None:
    mine, others = (BankAccess(True, 0, 1, low, 12, step=3) for low in (0, 1))
    assert waits_of(command(Engine.CONV, mine), command(Engine.MISC, others))[1] == {}
    waits = waits_of(command(Engine.CONV, mine), command(Engine.SAVE, read(3)))
    assert waits[1] == {Engine.CONV: 0}
    assert waits_of(command(Engine.CONV, mine), command(Engine.SAVE, read(4, 2)))[1] == {}


def test_every_few_words_of_a_few_banks_are_those_named(rng: np.random.Generator) -> None:
    depth = TARGET.bank_depth
    for _ in range(200):
        step, low = int(rng.integers(1, 9)), int(rng.integers(depth))
        count = int(rng.integers(1, 60))
        word = int((low + rng.integers(-70, 70)) % depth)
        touched = {(low + n) % depth for n in range(0, count, step)}
        waits = waits_of(
            command(Engine.MISC, BankAccess(True, 2, 3, low, count, step)),
            command(Engine.SAVE, read(word, 1, bank=int(rng.integers(2, 5)))),
        )
        assert (waits[1] == {Engine.MISC: 0}) == (word in touched), (low, count, step, word)


def test_memory_that_is_saved_and_loaded_waits() -> None:
    saved = MemoryAccess(True, 1, 100, 200)
    waits = waits_of(
        command(Engine.SAVE, saved),
        command(Engine.LOAD, MemoryAccess(False, 1, 199, 300), write(0)),
        command(Engine.LOAD, MemoryAccess(False, 1, 1000, 1100), write(8)),
    )
    assert waits == [{}, {Engine.SAVE: 0}, {}]


def test_a_wait_that_an_earlier_one_covers_is_left_out() -> None:
    waits = waits_of(
        command(Engine.LOAD, write(0)),
        command(Engine.LOAD, write(8)),
        command(Engine.CONV, read(8)),
        command(Engine.CONV, read(0)),
    )
    assert waits[2:] == [{Engine.LOAD: 1}, {}]


def test_a_wait_through_another_engine_is_left_out() -> None:
    """MISC waits for CONV, which waited for LOAD: MISC need not wait for LOAD."""
    waits = waits_of(
        command(Engine.LOAD, write(0)),
        command(Engine.CONV, read(0), write(100)),
        command(Engine.MISC, read(0), read(100)),
    )
    assert waits[2] == {Engine.CONV: 1}


def test_simulation_overlaps_engines() -> None:
    commands = [
        command(Engine.LOAD, write(0)),
        command(Engine.CONV, read(0)),
        command(Engine.LOAD, write(8)),
    ]
    lengths = [c.cycles for c in commands]
    start, end = simulate(engines(commands), lengths, all_waits(commands))
    assert (start.tolist(), end) == ([0, 10, 10], 20)


def test_program_order_follows_the_expected_start() -> None:
    """A LOAD that can run ahead stands before the CONV that it does not wait for."""
    commands = [
        command(Engine.LOAD, write(0)),
        command(Engine.CONV, read(0), cycles=100),
        command(Engine.CONV, read(0), cycles=100),
        command(Engine.LOAD, write(8)),
    ]
    made = order_commands(commands, areas(commands)).instructions
    assert [type(i) for i in made] == [Load, Conv, Load, Conv, End]
    assert (made[0].dpdby, made[1].dpdon) == (0b0101, 0b0101)
    assert (made[-1].dpdon, made[-1].dpdby) == (2, 2)


def test_any_order_that_the_tokens_allow_keeps_what_belongs_together() -> None:
    """Random orders of random programs: whatever conflicts keeps its sequential order."""
    for seed in range(12):
        network = draw_network(seed)
        commands = emit(build(network, TARGET).plan, TARGET, EMITTERS).commands
        waits = waits_of(*commands)
        position = random_order(commands, waits, seed)
        for number, wanted in enumerate(by_engine(all_waits(commands))):
            for producer in wanted.values():
                assert position[producer] < position[number], f"seed {seed}, command {number}"


def random_order(
    commands: tuple[Command, ...], waits: list[dict[Engine, int]], seed: int
) -> list[int]:
    """Return the place of each command in an order where engines start at random."""
    pick = random.Random(seed)
    queues = {e: [n for n, s in enumerate(commands) if e == s.instruction.ENGINE] for e in Engine}
    position = [-1] * len(commands)
    for place in range(len(commands)):
        ready = [
            e
            for e, queue in queues.items()
            if queue and all(position[p] >= 0 for p in waits[queue[0]].values())
        ]
        position[queues[pick.choice(ready)].pop(0)] = place
    return position


@pytest.mark.parametrize("seed", range(6))
def test_every_token_is_taken(rng: np.random.Generator, seed: int) -> None:
    program = build(draw_network(seed), TARGET)
    verify(program, TARGET)
    given: Counter[tuple[Engine, Engine]] = Counter()
    for instruction in program.schedule.instructions:
        given.update((instruction.ENGINE, e) for e in instruction.signals())
        given.subtract((e, instruction.ENGINE) for e in instruction.waits_for())
    assert not any(given.values())


def test_self_bits_are_always_set() -> None:
    for instruction in build(draw_network(3), TARGET).schedule.instructions:
        own = 1 << instruction.ENGINE
        assert instruction.dpdon & own
        assert instruction.dpdby & own


def test_a_schedule_knows_the_layer_and_the_time_of_every_instruction() -> None:
    program = build(draw_network(3), TARGET)
    made = program.schedule
    names = {placed.layer.name for placed in program.plan.layers}
    assert len(made.layers) == len(made.start) == len(made.end) == len(made.instructions)
    assert set(made.layers[:-1]) <= names
    assert made.layers[-1] == ""
    assert list(made.start) == sorted(made.start)
    assert max(made.end) == made.cycles
    assert all(a <= b for a, b in zip(made.start, made.end, strict=True))


def test_building_shows_what_every_pass_made() -> None:
    seen: list[str] = []
    build(draw_network(3), TARGET, lambda name, value: seen.append(name))
    assert seen == [one.name for one in BACKEND_PASSES]
