# SPDX-License-Identifier: Apache-2.0
"""An AXI4 memory and a clock loop for the tests of LOAD and SAVE."""

import collections
import dataclasses
import random

import pytest
from amaranth.sim import Simulator

BEAT = 16
PAGE = 4096


@dataclasses.dataclass
class Burst:
    """An address transfer: first byte, beats, and what has happened to it."""

    addr: int
    beats: int
    due: int
    data: list = dataclasses.field(default_factory=list)


class AxiPort:
    """One port of a memory: answers in order, stalls at random, checks the protocol.

    ``latency`` cycles pass from address to first beat, or from last beat to response. Bursts at an
    address in ``errors`` get SLVERR. ``write_first`` accepts an address only once data are there.
    """

    def __init__(self, bus, memory, rng, *, base=0, latency=1, stall=0.0, errors=()):
        self.bus, self.memory, self.rng, self.base = bus, memory, rng, base
        self.latency, self.stall, self.errors = latency, stall, frozenset(errors)
        self.reads, self.writes, self.answers = (collections.deque() for _ in range(3))
        self.loose = []
        self.held = {}
        self.beats = 0
        self.bursts = []
        self.write_first = False
        self.has_read, self.has_write = hasattr(bus, "arvalid"), hasattr(bus, "awvalid")

    def signals(self):
        b = self.bus
        names = []
        if self.has_read:
            names += [
                "arvalid",
                "arready",
                "araddr",
                "arlen",
                "arsize",
                "arburst",
                "rvalid",
                "rready",
            ]
        if self.has_write:
            names += [
                "awvalid",
                "awready",
                "awaddr",
                "awlen",
                "awsize",
                "awburst",
                "wvalid",
                "wready",
                "wdata",
                "wstrb",
                "wlast",
                "bvalid",
                "bready",
            ]
        return {n: getattr(b, n) for n in names}

    def quiet(self):
        """Whether every transaction is complete."""
        return not (self.reads or self.writes or self.answers or self.loose)

    def _stable(self, s, valid, ready, fields):
        now = tuple(s[f] for f in fields)
        if valid in self.held:
            assert s[valid], f"{valid} fell before {ready}"
            assert now == self.held[valid], f"{valid}: payload changed before {ready}"
        self.held.pop(valid, None)
        if s[valid] and not s[ready]:
            self.held[valid] = now

    def _address(self, s, prefix, cycle):
        addr, beats = s[prefix + "addr"], s[prefix + "len"] + 1
        assert s[prefix + "size"] == 4 and s[prefix + "burst"] == 1
        assert beats <= 16, f"burst of {beats} beats"
        assert addr % BEAT == 0, f"burst at {addr:#x}"
        assert addr // PAGE == (addr + beats * BEAT - 1) // PAGE, f"burst at {addr:#x} leaves page"
        self.bursts.append((addr, beats))
        return Burst(addr, beats, cycle + self.latency)

    def step(self, s, cycle, drive):
        """Take what was transferred in this cycle, drive the next one."""
        if self.has_read:
            self._step_read(s, cycle, drive)
        if self.has_write:
            self._step_write(s, cycle, drive)

    def _step_read(self, s, cycle, drive):
        b = self.bus
        self._stable(s, "arvalid", "arready", ("araddr", "arlen"))
        if s["arvalid"] and s["arready"]:
            self.reads.append(self._address(s, "ar", cycle))
            assert len(self.reads) <= 8, "more than 8 reads outstanding"
        if s["rvalid"] and s["rready"]:
            self.beats += 1
            head = self.reads[0]
            head.data.append(None)
            if len(head.data) == head.beats:
                self.reads.popleft()
        drive(b.arready, self.rng.random() >= self.stall)
        waiting = s["rvalid"] and not s["rready"]
        if waiting:
            return
        if self.reads and cycle + 1 >= self.reads[0].due and self.rng.random() >= self.stall:
            head = self.reads[0]
            at = head.addr + BEAT * len(head.data) - self.base
            chunk = bytes(
                self.memory[i] if 0 <= i < len(self.memory) else 0xEE for i in range(at, at + BEAT)
            )
            drive(b.rvalid, 1)
            drive(b.rdata, int.from_bytes(chunk, "little"))
            drive(b.rlast, len(head.data) + 1 == head.beats)
            drive(b.rresp, 2 if head.addr in self.errors else 0)
        else:
            drive(b.rvalid, 0)
            drive(b.rdata, self.rng.getrandbits(128))

    def _step_write(self, s, cycle, drive):
        b = self.bus
        self._stable(s, "awvalid", "awready", ("awaddr", "awlen"))
        self._stable(s, "wvalid", "wready", ("wdata", "wstrb", "wlast"))
        if s["awvalid"] and s["awready"]:
            self.writes.append(self._address(s, "aw", cycle))
            assert len(self.writes) + len(self.answers) <= 8, "more than 8 writes outstanding"
        if s["wvalid"] and s["wready"]:
            self.beats += 1
            self.loose.append((s["wdata"], s["wstrb"], s["wlast"]))
        while self.writes and len(self.loose) >= self.writes[0].beats:
            burst = self.writes.popleft()
            burst.data, self.loose = self.loose[: burst.beats], self.loose[burst.beats :]
            lasts = [last for _, _, last in burst.data]
            assert lasts == [0] * (burst.beats - 1) + [1], f"wlast of {burst.addr:#x}: {lasts}"
            burst.due = cycle + self.latency
            self.answers.append(burst)
            if self.rng.random() < 0.5:
                self._apply_all()
        if s["bvalid"] and s["bready"]:
            self.answers.popleft()
        drive(
            b.awready,
            self.rng.random() >= self.stall
            and (
                not self.write_first
                or s["wvalid"]
                or len(self.loose) > sum(w.beats for w in self.writes)
            ),
        )
        drive(b.wready, self.rng.random() >= self.stall)
        if s["bvalid"] and not s["bready"]:
            return
        ready = self.answers and cycle + 1 >= self.answers[0].due
        if ready and self.rng.random() >= self.stall:
            burst = self.answers[0]
            self._apply_all()
            drive(b.bvalid, 1)
            drive(b.bresp, 3 if burst.addr in self.errors else 0)
        else:
            drive(b.bvalid, 0)

    def _apply_all(self):
        """Write what was answered or may be, in order."""
        for burst in self.answers:
            self._apply(burst)
            burst.data = []

    def _apply(self, burst):
        for i, (word, strobe, _) in enumerate(burst.data):
            for k in range(BEAT):
                if strobe >> k & 1:
                    at = burst.addr + BEAT * i + k - self.base
                    assert 0 <= at < len(self.memory), f"write at {at:#x} is outside of memory"
                    self.memory[at] = word >> 8 * k & 0xFF


class Bench:
    """Drive an engine: instructions in, ports stepped, ``done`` counted, all in one clock loop."""

    def __init__(self, dut, *, seed, stall=0.0):
        self.dut, self.rng, self.stall = dut, random.Random(seed), stall
        self.parts = []
        self.segments = [(0, 0)] * 8
        self.done = 0
        self.cycle = 0
        self.fault = None
        self.on_done = lambda index: None
        self._engine = {
            "valid": dut.insn.valid,
            "ready": dut.insn.ready,
            "done": dut.done,
            "busy": dut.busy,
            "idle": dut.idle,
            "fault": dut.fault.valid,
            "cause": dut.fault.cause,
            "addr": dut.fault.addr,
        }

    def add(self, part):
        """Step ``part`` every cycle."""
        self.parts.append(part)
        return part

    def run(self, script):
        """Run ``script(bench)``, a coroutine, to its end."""

        async def testbench(ctx):
            self.ctx = ctx
            for i, (base, size) in enumerate(self.segments):
                ctx.set(self.dut.segments[i].base, base)
                ctx.set(self.dut.segments[i].size, size)
            await script(self)

        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        simulator.add_testbench(testbench)
        simulator.run()

    async def tick(self):
        """One cycle; return what the engine's own members were in it."""
        groups = [self._engine, *(p.signals() for p in self.parts)]
        flat = [s for g in groups for s in g.values()]
        _, _, *values = await self.ctx.tick().sample(*flat)
        self.cycle += 1
        values = iter(values)
        engine, *samples = [{n: next(values) for n in g} for g in groups]
        for part, sample in zip(self.parts, samples, strict=True):
            part.step(sample, self.cycle, self.ctx.set)
        if engine["done"]:
            self.on_done(self.done)
            self.done += 1
        if engine["fault"] and self.fault is None:
            self.fault = (engine["cause"], engine["addr"])
        return engine

    async def feed(self, instructions, *, deadline, until=None):
        """Offer instructions; wait until all are done, or ``until`` holds."""
        payload = self.dut.insn.payload
        end = self.done + len(instructions)
        queue = collections.deque(instructions)
        offered = False
        limit = self.cycle + deadline
        while self.done < end if until is None else not until(self):
            if not offered and queue and self.rng.random() >= self.stall / 2:
                words = queue[0].encode()
                for i in range(6):
                    self.ctx.set(payload[i], words[i] if i < len(words) else 0)
                self.ctx.set(self.dut.insn.valid, 1)
                offered = True
            s = await self.tick()
            if s["valid"] and s["ready"]:
                queue.popleft()
                offered = False
                self.ctx.set(self.dut.insn.valid, 0)
            assert self.cycle < limit, f"{self.done} of {end} done after {deadline} cycles"
        self.ctx.set(self.dut.insn.valid, 0)
        for _ in range(5):
            s = await self.tick()
        return s

    async def abort(self, *, deadline=2000):
        """Raise ``abort`` until the engine is idle, then a few cycles more."""
        self.ctx.set(self.dut.abort, 1)
        await self.tick()
        limit = self.cycle + deadline
        while not (await self.tick())["idle"]:
            assert self.cycle < limit, f"not idle {deadline} cycles after abort"
        self.ctx.set(self.dut.abort, 0)
        self.fault = None


@pytest.fixture
def bench_type():
    """The clock loop."""
    return Bench


@pytest.fixture
def axi_port_type():
    """The memory port."""
    return AxiPort
