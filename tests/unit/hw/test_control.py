# SPDX-License-Identifier: Apache-2.0
"""Fetch, decode, dispatch and sequencer together, with engines that only take their time."""

import collections
import random
import struct

import pytest
from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth_bench import simulate, tick
from axi_memory import AxiPort

from opendpu_arch import isa
from opendpu_arch.isa import Engine
from opendpu_arch.legal import violations
from opendpu_arch.regs import Fault
from opendpu_arch.target import Target
from opendpu_hw.bus.axi4 import ADDRESS_WIDTH, read_signature
from opendpu_hw.control.decode import Decode
from opendpu_hw.control.dispatch import Dispatch
from opendpu_hw.control.fetch import Fetch
from opendpu_hw.control.sequencer import Sequencer
from opendpu_hw.shapes import InstructionStream

TARGET = Target.from_name("B64")
BASE = 0x12_0000_0000
SAMPLES = {
    Engine.LOAD: isa.Load,
    Engine.SAVE: isa.Save,
    Engine.CONV: isa.ConvInit,
    Engine.MISC: isa.AluInit,
}


@pytest.fixture(autouse=True)
def short_fetch(monkeypatch):
    """Read less far ahead, so that what a program leaves to drain does not hide anything."""
    monkeypatch.setattr(Fetch, "DEPTH", 32)
    monkeypatch.setattr(Fetch, "BURST", 16)


class Control(wiring.Component):
    """The control part, with the engines' side of it as ports."""

    def __init__(self):
        super().__init__(
            {
                "start": In(1),
                "addr": In(ADDRESS_WIDTH),
                "bus": Out(read_signature(32)),
                "insn": Out(InstructionStream).array(4),
                "done": In(1).array(4),
                "idle": In(1).array(4),
                "abort": Out(1),
                "running": Out(1),
                "ended": Out(1),
                "status": Out(32),
                "number": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.fetch = fetch = Fetch()
        m.submodules.decode = decode = Decode(TARGET)
        m.submodules.dispatch = dispatch = Dispatch()
        m.submodules.sequencer = sequencer = Sequencer()
        connect(m, flipped(self.bus), fetch.bus)
        connect(m, fetch.words, decode.words)
        m.d.comb += [
            sequencer.start.eq(self.start),
            self.running.eq(sequencer.running),
            self.ended.eq(sequencer.done),
            self.status.eq(sequencer.status),
            self.number.eq(sequencer.fault_instruction),
            self.abort.eq(sequencer.abort),
            fetch.start.eq(sequencer.begin),
            fetch.addr.eq(self.addr),
            fetch.stop.eq(sequencer.stop_fetch),
            decode.start.eq(sequencer.begin),
            decode.stop.eq(sequencer.abort),
            dispatch.clear.eq(sequencer.abort),
            sequencer.decode_fault.eq(decode.fault),
            sequencer.ended.eq(decode.ended),
            sequencer.blocked.eq(decode.blocked),
            sequencer.empty.eq(dispatch.empty),
            sequencer.stuck.eq(dispatch.stuck),
            sequencer.tokens.eq(dispatch.tokens),
            sequencer.quiet.eq(fetch.idle & Cat(self.idle).all()),
        ]
        for e in Engine:
            connect(m, decode.out[e], dispatch.i[e])
            connect(m, dispatch.o[e], flipped(self.insn[e]))
            m.d.comb += dispatch.done[e].eq(self.done[e])
        for i, e in enumerate(sequencer.FAULTING):
            m.d.comb += sequencer.finished[i].eq(dispatch.finished[e])
        return m


def draw_program(rng, count):
    """A legal program; every token that is given is taken, the last ones by END."""
    given = collections.Counter()
    program = []
    engines = [rng.choice([*Engine]) for _ in range(count)]
    last = {e: n for n, e in enumerate(engines)}
    last[Engine.SAVE] = count  # END
    for n, e in enumerate([*engines, Engine.SAVE]):
        final = last[e] == n
        on = [p for p in Engine if given[p, e] and (final or rng.random() < 0.4)]
        if final:  # one instruction takes one token of an engine: more must not be left
            assert all(given[p, e] <= 1 for p in Engine)
        by = [
            k
            for k in Engine
            if k != e and last.get(k, -1) > n and not given[e, k] and rng.random() < 0.4
        ]
        for p in on:
            given[p, e] -= 1
        for k in by:
            given[e, k] += 1
        kind = isa.End if n == count else SAMPLES[e]
        program.append(kind(dpdon=sum(1 << p for p in on), dpdby=sum(1 << k for k in by)))
    assert not any(given.values())
    return program


class Bench:
    """A memory with programs, four engines, and what they were given."""

    def __init__(self, ctx, dut, seed, *, stall, latency):
        self.ctx, self.dut, self.stall = ctx, dut, stall
        self.rng = random.Random(f"control {seed}")
        self.memory = bytearray(1 << 14)
        self.port = AxiPort(
            dut.bus,
            self.memory,
            self.rng,
            base=BASE,
            latency=latency,
            stall=stall,
            longest=Fetch.BURST,
            most=Fetch.DEPTH // Fetch.BURST + 1,
        )
        self.cycle = 0
        self.ran = {e: [] for e in Engine}
        self.due = {e: collections.deque() for e in Engine}
        self.hold = False
        self.signals = {n: getattr(dut, n) for n in ("running", "abort", "ended")}
        for e in Engine:
            self.signals |= {
                ("valid", e): dut.insn[e].valid,
                ("ready", e): dut.insn[e].ready,
                ("words", e): dut.insn[e].payload.as_value(),
            }

    async def step(self):
        ctx, dut = self.ctx, self.dut
        for e in Engine:
            due = self.due[e]
            done = bool(due) and due[0] <= self.cycle
            if done:
                due.popleft()
            ctx.set(dut.done[e], done)
            ctx.set(dut.idle[e], not due)
            ctx.set(dut.insn[e].ready, not self.hold and self.rng.random() >= self.stall)
        s = await tick(ctx, self.signals | self.port.signals())
        self.port.step(s, self.cycle, ctx.set)
        self.cycle += 1
        for e in Engine:
            if s["valid", e] and s["ready", e]:
                assert not s["abort"]
                packed = s["words", e]
                self.ran[e].append([packed >> 32 * n & 0xFFFFFFFF for n in range(6)])
                self.due[e].append(self.cycle + self.rng.choice([0, 0, 1, 9]))
            if s["abort"]:
                self.due[e].clear()
        return s

    async def run(self, program, *, at=0):
        """Run a program; return its status and the number of the faulty instruction."""
        code = isa.encode(program)
        self.memory[at : at + len(code)] = code
        for ran in self.ran.values():
            ran.clear()
        self.ctx.set(self.dut.addr, BASE + at)
        self.ctx.set(self.dut.start, 1)
        await self.step()
        self.ctx.set(self.dut.start, 0)
        limit = self.cycle + 100 * len(program) + 2000
        while not (await self.step())["ended"]:
            assert self.cycle < limit, "no end"
        assert self.port.quiet()
        self.ctx.set(self.dut.idle[0], 1)
        await self.step()
        return self.ctx.get(self.dut.status), self.ctx.get(self.dut.number)

    def check(self, program):
        for e in Engine:
            words = [i.encode() for i in program if e == i.ENGINE]
            assert self.ran[e] == [[*w, *[0] * (6 - len(w))] for w in words], e.name


def run(bench, seed, *, stall=0.2, latency=8):
    dut = Control()

    async def testbench(ctx):
        await bench(Bench(ctx, dut, seed, stall=stall, latency=latency))

    simulate(dut, testbench)


@pytest.mark.parametrize("stall, latency", [(0.0, 1), (0.5, 40)])
def test_random_programs_one_after_the_other(stall, latency):
    """A slow memory lets everything finish before END arrives, a fast one fills the queues."""

    async def bench(b):
        for count in (0, 3, 25):
            program = draw_program(b.rng, count)
            assert not any(violations(i, TARGET) for i in program)
            # what is behind END does not matter
            at = 4 * b.rng.randrange(1000)
            b.memory[at:] = b.rng.randbytes(len(b.memory) - at)
            assert await b.run(program, at=at) == (0, 0)
            b.check(program)

    run(bench, f"programs {stall}", stall=stall, latency=latency)


def test_end_that_waits_for_a_token_given_long_ago():
    async def bench(b):
        program = [isa.Load(dpdby=1 << Engine.SAVE), isa.End(dpdon=1 << Engine.LOAD)]
        step = b.step

        async def late():  # END is alone in the next page: its burst takes long
            s = await step()
            b.port.latency = 100 if b.port.bursts else 1
            return s

        b.step = late
        assert await b.run(program, at=4096 - 20) == (0, 0)
        b.check(program)

    run(bench, "end", stall=0.0, latency=1)


def test_leftover_token_and_deadlock():
    async def bench(b):
        error = 1 << 12
        assert await b.run([isa.Load(dpdby=4), isa.End()]) == (Fault.LEFTOVER_TOKEN | error, 0)
        assert await b.run([isa.Load(dpdon=4), isa.End()]) == (Fault.DEADLOCK | error, 0)
        crowd = [isa.ConvInit(dpdon=1)] * (Dispatch.DEPTH + 3)  # blocks the decoder
        program = [*crowd, isa.Load(dpdby=4), isa.End()]
        assert await b.run(program) == (Fault.DEADLOCK | error, 0)
        program = draw_program(b.rng, 10)
        assert await b.run(program) == (0, 0)
        b.check(program)

    run(bench, "deadlock", stall=0.0, latency=3)


def test_full_queues_do_not_outlive_a_fault():
    """The next program starts at once after a fault with 60 instructions waiting."""

    async def bench(b):
        bad = [*[isa.ConvInit(dpdon=1)] * 30, *[isa.AluInit(dpdon=1)] * 60, isa.Conv(length=1)]
        code = isa.encode(bad)
        bad_word = struct.pack("<I", 0x30000000)
        at = len(code) - 20
        for n in range(2):
            b.memory[at : at + 4] = bad_word
            status, number = await b.run([*bad[:-1]])
            assert (status, number) == (Fault.UNKNOWN_OPCODE | 1 << 12, len(bad) - 1)
            program = draw_program(b.rng, 8 + n)
            assert await b.run(program) == (0, 0)
            b.check(program)

    run(bench, "fault", stall=0.0, latency=2)
