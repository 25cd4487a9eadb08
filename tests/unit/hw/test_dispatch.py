# SPDX-License-Identifier: Apache-2.0
"""Queues and tokens against a model of the dependency flags, cycle by cycle."""

import collections
import random

import pytest
from amaranth_bench import simulate, tick

from opendpu_arch import isa
from opendpu_arch.isa import Engine
from opendpu_hw.control.dispatch import QUEUE_WORDS, Dispatch

PAIRS = [(p, c) for p in Engine for c in Engine if p != c]


def word(rng, on, by):
    """Word 0 with these flags, the rest random."""
    return rng.getrandbits(32) & 0xF00FFFFF | on << 24 | by << 20


def packed(words):
    """The instruction as one number, word 0 lowest."""
    return sum(w << 32 * n for n, w in enumerate(words))


def meant_bits(engine):
    """The bits that fields of an engine's instructions have, opcode and tokens: others get lost."""
    meant = 0xFFF << 20
    for instruction in isa.INSTRUCTIONS.values():
        if engine == instruction.ENGINE:
            for f in instruction.bit_fields():
                meant |= ((2 << f.high) - (1 << f.low)) << 32 * f.word
    return meant


MEANT = {engine: meant_bits(engine) for engine in Engine}


def draw_program(rng, count):
    """Instructions (engine, words) whose tokens are given before they are needed, none left."""
    given = collections.Counter()
    program = []

    def add(engine, on, by):
        extra = QUEUE_WORDS[engine] - 1
        words = [word(rng, on, by), *(rng.getrandbits(32) for _ in range(extra))]
        program.append((engine, (*words, *[0] * (5 - extra))))
        for other in Engine:
            if other != engine:
                given[other, engine] -= on >> other & 1
                given[engine, other] += by >> other & 1
        assert min(given.values(), default=0) >= 0

    def wanted(engine, chance):
        return sum(1 << p for p in Engine if given[p, engine] and rng.random() < chance)

    for _ in range(count):
        engine = rng.choice([*Engine])
        own = rng.getrandbits(1) << engine  # the engine's own business, not a token
        add(engine, wanted(engine, 0.5) & ~(1 << engine) | own, rng.getrandbits(4))
    while any(given.values()):
        engine = rng.choice([c for p, c in PAIRS if given[p, c]])
        add(engine, wanted(engine, 1.0), 0)
    return program


class FakeEngine:
    """Takes instructions at random and finishes them in order, a cycle later at the earliest."""

    def __init__(self, rng, *, stall, slowest):
        self.rng, self.stall, self.slowest = rng, stall, slowest
        self.due = collections.deque()
        self.hold = False

    def accept(self, cycle):
        self.due.append(cycle + 1 + self.rng.choice([0, 0, self.rng.randint(0, self.slowest)]))

    def step(self, cycle):
        """Whether it is ready, and done, in ``cycle``."""
        done = bool(self.due) and self.due[0] <= cycle and not self.hold
        if done:
            self.due.popleft()
        return self.rng.random() >= self.stall, done


class Model:
    """What the dispatcher must do, checked every cycle; entries may take a cycle to show."""

    def __init__(self):
        self.queues = {e: collections.deque() for e in Engine}
        self.flight = {e: collections.deque() for e in Engine}
        self.tokens = collections.Counter()
        self.unreported = collections.Counter()  # done, but not yet counted as finished
        self.lag = collections.Counter()
        self.most_tokens = 0

    def has_tokens(self, e):
        on = self.queues[e][0][0] >> 24
        return all(self.tokens[p, e] for p in Engine if p != e and on >> p & 1)

    def check(self, s, cycle):
        waiting = any(self.queues.values())
        flying = any(self.flight.values())
        assert s["empty"] == (not waiting and not flying)
        assert s["tokens"] == any(self.tokens.values())
        arriving = any(q and cycle - q[0][1] < Dispatch.LATENCY for q in self.queues.values())
        stuck = (
            waiting and not flying and not any(self.has_tokens(e) for e in Engine if self.queues[e])
        )
        if s["stuck"]:
            assert stuck
        else:
            assert not stuck or arriving
        for e in Engine:
            queue = self.queues[e]
            full = len(self.flight[e]) >= Dispatch.IN_FLIGHT
            may = bool(queue) and self.has_tokens(e) and not full
            if s["valid", e]:
                assert may, f"{e.name} is offered an instruction without tokens"
                assert s["payload", e] == queue[0][0], e.name
            elif may and len(self.flight[e]) < Dispatch.IN_FLIGHT - 1:
                assert cycle - queue[0][1] < Dispatch.LATENCY, f"{e.name} is kept waiting"

    def update(self, s, cycle):
        for e in Engine:
            fire = s["valid", e] and s["ready", e]
            assert s["started", e] == fire
            self.unreported[e] += s["done", e]
            self.lag[e] = self.lag[e] + 1 if self.unreported[e] else 0
            if s["finished", e]:
                self.unreported[e] -= 1
                self.lag[e] = 0
                assert self.unreported[e] >= 0, f"{e.name} finished without done"
                by = self.flight[e].popleft() >> 20
                for k in Engine:
                    if k != e and by >> k & 1:
                        self.tokens[e, k] += 1
            assert self.lag[e] <= 3, f"a done of {e.name} was lost"
            if fire:
                instruction, _ = self.queues[e].popleft()
                self.flight[e].append(instruction)
                for p in Engine:
                    if p != e and instruction >> 24 >> p & 1:
                        self.tokens[p, e] -= 1
            if s["i_valid", e] and s["i_ready", e]:
                self.queues[e].append((s["i_payload", e] & MEANT[e], cycle))
        self.most_tokens = max(self.most_tokens, max(self.tokens.values(), default=0))


class Bench:
    """Feeder, engines and model around a dispatcher."""

    def __init__(self, ctx, dut, seed, *, stall=0.3, slowest=12, gap=0.3):
        self.ctx, self.dut = ctx, dut
        self.rng = random.Random(f"dispatch {seed}")
        self.gap = gap
        self.engines = {e: FakeEngine(self.rng, stall=stall, slowest=slowest) for e in Engine}
        self.model = Model()
        self.cycle = 0
        self.program = collections.deque()
        self.offered = None
        self.fired = collections.Counter()
        self.signals = {n: getattr(dut, n) for n in ("empty", "stuck", "tokens", "clear")}
        for e in Engine:
            self.signals |= {
                ("valid", e): dut.o[e].valid,
                ("ready", e): dut.o[e].ready,
                ("payload", e): dut.o[e].payload.as_value(),
                ("i_valid", e): dut.i[e].valid,
                ("i_ready", e): dut.i[e].ready,
                ("i_payload", e): dut.i[e].payload.as_value(),
                ("done", e): dut.done[e],
                ("started", e): dut.started[e],
                ("finished", e): dut.finished[e],
            }

    async def step(self):
        ctx, dut = self.ctx, self.dut
        if self.offered is None and self.program and self.rng.random() >= self.gap:
            self.offered, words = self.program.popleft()
            ctx.set(dut.i[self.offered].payload.as_value(), packed(words))
            ctx.set(dut.i[self.offered].valid, 1)
        for e, engine in self.engines.items():
            ready, done = engine.step(self.cycle)
            ctx.set(dut.o[e].ready, ready)
            ctx.set(dut.done[e], done)
        s = await tick(ctx, self.signals)
        if s["clear"]:
            assert not any(s["valid", e] for e in Engine)
        else:
            self.model.check(s, self.cycle)
            self.model.update(s, self.cycle)
        for e in Engine:
            if s["valid", e] and s["ready", e]:
                self.engines[e].accept(self.cycle)
                self.fired[e] += 1
        if self.offered is not None and s["i_ready", self.offered]:
            ctx.set(dut.i[self.offered].valid, 0)
            self.offered = None
        self.cycle += 1
        return s

    async def run(self, program, *, deadline):
        """Run a program until nothing is left of it."""
        self.program.extend(program)
        limit = self.cycle + deadline
        while True:
            await self.step()
            if not self.program and self.offered is None and self.ctx.get(self.dut.empty):
                break
            assert self.cycle < limit, f"{len(self.program)} instructions left"
        for _ in range(4):
            s = await self.step()
            assert s["empty"] and not s["stuck"] and not s["tokens"]
        assert not any(e.due for e in self.engines.values())

    async def clear(self):
        """Clear until empty, as an aborted program does."""
        ctx, dut = self.ctx, self.dut
        self.program.clear()
        if self.offered is not None:
            ctx.set(dut.i[self.offered].valid, 0)
            self.offered = None
        for engine in self.engines.values():
            engine.due.clear()
        self.model = Model()
        ctx.set(dut.clear, 1)
        await self.step()
        limit = self.cycle + Dispatch.DEPTH + 4
        while not ctx.get(dut.empty):
            await self.step()
            assert self.cycle < limit, "not empty after clear"
        ctx.set(dut.clear, 0)


@pytest.mark.parametrize(
    "seed, stall, slowest, gap",
    [(0, 0.3, 12, 0.3), (1, 0.0, 0, 0.0), (2, 0.0, 40, 0.0), (3, 0.8, 5, 0.0), (4, 0.1, 2, 0.8)],
)
def test_random_programs(seed, stall, slowest, gap):
    dut = Dispatch()

    async def bench(ctx):
        b = Bench(ctx, dut, seed, stall=stall, slowest=slowest, gap=gap)
        for count in (3, 80):
            program = draw_program(b.rng, count)
            b.fired.clear()
            await b.run(program, deadline=60 * len(program) + 100)
            assert b.fired == collections.Counter(e for e, _ in program)
        assert b.model.most_tokens > 1

    simulate(dut, bench)


def test_done_the_cycle_after_acceptance():
    """Back to back INITs, done at once, each with a token: none is lost."""
    dut = Dispatch()

    async def bench(ctx):
        b = Bench(ctx, dut, "at once", stall=0.0, slowest=0, gap=0.0)
        rng = b.rng
        give = [(Engine.CONV, (word(rng, 0, 0b1000), 0, 0, 0, 0, 0)) for _ in range(20)]
        take = [(Engine.MISC, (word(rng, 0b0100, 0), 0, 0, 0, 0, 0)) for _ in range(20)]
        await b.run(give + take, deadline=200)

    simulate(dut, bench)


def test_empty_has_no_gap_while_an_instruction_passes():
    """The sequencer believes ``empty`` once END is handed on: it must not glitch in between."""
    dut = Dispatch()

    async def bench(ctx):
        ctx.set(dut.i[Engine.SAVE].valid, 1)
        await ctx.tick()
        ctx.set(dut.i[Engine.SAVE].valid, 0)
        for _ in range(5):
            assert not ctx.get(dut.empty)
            assert not ctx.get(dut.stuck)
            await ctx.tick()
        ctx.set(dut.o[Engine.SAVE].ready, 1)
        await ctx.tick()
        ctx.set(dut.o[Engine.SAVE].ready, 0)
        for _ in range(5):
            assert not ctx.get(dut.empty)
            await ctx.tick()
        ctx.set(dut.done[Engine.SAVE], 1)
        await ctx.tick()
        assert ctx.get(dut.empty)

    simulate(dut, bench)


def test_what_waits_for_no_one_is_stuck():
    dut = Dispatch()

    async def bench(ctx):
        b = Bench(ctx, dut, "stuck", stall=0.0, gap=0.0)
        words = (word(b.rng, 0b0001, 0), 0, 0, 0, 0, 0)
        b.program.extend([(Engine.CONV, words), (Engine.SAVE, words)])
        for _ in range(8):
            await b.step()
        for _ in range(10):
            s = await b.step()
            assert s["stuck"] and not s["empty"] and not s["tokens"]
        b.program.append((Engine.LOAD, (word(b.rng, 0, 0b0110), 0, 0, 0, 0, 0)))
        await b.run([], deadline=60)  # a late giver frees both

    simulate(dut, bench)


def test_more_tokens_than_a_counter_holds_are_not_forgotten(monkeypatch):
    monkeypatch.setattr(Dispatch, "_TOKEN_BITS", 3)
    dut = Dispatch()

    async def bench(ctx):
        load = Engine.LOAD
        ctx.set(dut.i[load].payload[0], 0b0100 << 20)
        ctx.set(dut.o[load].ready, 1)
        for _ in range(8):
            ctx.set(dut.i[load].valid, 1)
            await ctx.tick()
        ctx.set(dut.i[load].valid, 0)
        await ctx.tick().repeat(5)
        ctx.set(dut.done[load], 1)
        await ctx.tick().repeat(8)
        ctx.set(dut.done[load], 0)
        await ctx.tick().repeat(3)
        assert ctx.get(dut.empty) and ctx.get(dut.tokens)

    simulate(dut, bench)


def test_depth_of_queue_and_flight():
    dut = Dispatch()

    async def bench(ctx):
        b = Bench(ctx, dut, "depth", stall=0.0, gap=0.0)
        b.engines[Engine.LOAD].hold = True
        count = 1 + Dispatch.DEPTH + Dispatch.IN_FLIGHT + 3
        program = [(Engine.LOAD, (word(b.rng, 1, 1), 0, 0, 0, 0, n)) for n in range(count)]
        program = [(e, (*w[:5], 0)) for e, w in program]
        b.program.extend(program)
        for _ in range(count + 20):
            await b.step()
        assert b.fired[Engine.LOAD] == Dispatch.IN_FLIGHT
        assert len(b.program) + 1 == 3  # the feeder waits with one in hand
        b.engines[Engine.LOAD].hold = False
        await b.run([], deadline=6 * count)
        assert b.fired[Engine.LOAD] == count

    simulate(dut, bench)


@pytest.mark.parametrize("seed", range(2))
def test_nothing_survives_clear(seed):
    dut = Dispatch()

    async def bench(ctx):
        b = Bench(ctx, dut, f"clear {seed}", stall=0.5, slowest=30, gap=0.0)
        for _ in range(2):
            b.program.extend(draw_program(b.rng, 300))
            b.program.extend(  # many waiting for what never comes
                (Engine.MISC, (word(b.rng, 0b0111, 0), 0, 0, 0, 0, 0)) for _ in range(60)
            )
            for _ in range(b.rng.randint(5, 150)):
                await b.step()
            await b.clear()
            await b.run(draw_program(b.rng, 20), deadline=1500)

    simulate(dut, bench)
