# SPDX-License-Identifier: Apache-2.0
"""A clock loop for the tests of LOAD and SAVE."""

import collections
import random

import pytest
from axi_memory import AxiPort


class Bench:
    """Drive an engine: instructions in, ports stepped, ``done`` counted, all in one clock loop."""

    def __init__(self, simulator, *, seed, stall=0.0):
        self.simulator, self.dut = simulator, simulator.dut
        self.rng, self.stall = random.Random(seed), stall
        self.parts = []
        self.segments = [(0, 0)] * 8
        self.done = 0
        self.cycle = 0
        self.fault = None
        self.on_done = lambda index: None
        self._engine = {
            "valid": self.dut.insn.valid,
            "ready": self.dut.insn.ready,
            "done": self.dut.done,
            "busy": self.dut.busy,
            "idle": self.dut.idle,
            "fault": self.dut.fault.valid,
            "cause": self.dut.fault.cause,
            "addr": self.dut.fault.addr,
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

        self.simulator.run(testbench)

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
