# SPDX-License-Identifier: Apache-2.0
"""A program arrives word by word, whole and in order, however the bus behaves."""

import random
import struct

import pytest
from amaranth_bench import simulate, tick
from axi_memory import PAGE, AxiPort

from opendpu_hw.control.fetch import Fetch

BASE = 0xFF_FFF0_0000
SIZE = 4 * PAGE


class Bench:
    """A fetcher, a memory with a known program in it, and a reader that stalls."""

    def __init__(self, ctx, dut, seed, *, stall, latency=3, bad=()):
        self.ctx, self.dut = ctx, dut
        self.rng = random.Random(f"fetch {seed}")
        self.memory = self.rng.randbytes(SIZE)
        self.stall = stall
        self.port = AxiPort(
            dut.bus,
            self.memory,
            self.rng,
            base=BASE,
            latency=latency,
            stall=stall,
            bad_beats=[BASE + 4 * w for w in bad],
            longest=Fetch.BURST,
            most=Fetch.DEPTH // Fetch.BURST + 1,
        )
        self.bad = frozenset(bad)
        self.cycle = 0
        self.taken = []
        self.signals = {
            "start": dut.start,
            "stop": dut.stop,
            "idle": dut.idle,
            "valid": dut.words.valid,
            "ready": dut.words.ready,
            "data": dut.words.payload.data,
            "error": dut.words.payload.error,
        }

    def expected(self, first, count):
        """Words from word ``first`` on, each with whether the bus refuses it."""
        return [
            (struct.unpack_from("<I", self.memory, 4 * w)[0], int(w in self.bad))
            for w in range(first, first + count)
        ]

    async def step(self):
        quiet = self.port.quiet()
        port = self.port.signals()
        s = await tick(self.ctx, self.signals | port)
        self.cycle += 1
        if s["idle"]:
            assert quiet and not s["arvalid"] and not s["valid"], "idle, but something is open"
        self.port.step(s, self.cycle, self.ctx.set)
        if s["stop"]:
            assert not s["valid"], "a word after stop"
        if s["valid"] and s["ready"]:
            self.taken.append((s["data"], s["error"]))
        return s

    async def start(self, word):
        assert self.ctx.get(self.dut.idle)
        self.ctx.set(self.dut.addr, BASE + 4 * word)
        self.ctx.set(self.dut.start, 1)
        await self.step()
        self.ctx.set(self.dut.start, 0)
        self.taken.clear()
        self.port.bursts.clear()

    async def take(self, count):
        """Take exactly ``count`` words."""
        limit = self.cycle + 40 * count + 200
        while len(self.taken) < count:
            self.ctx.set(self.dut.words.ready, self.rng.random() >= self.stall)
            await self.step()
            assert self.cycle < limit, f"{len(self.taken)} of {count} words"
        self.ctx.set(self.dut.words.ready, 0)

    async def stop(self):
        """Stop until idle."""
        self.ctx.set(self.dut.stop, 1)
        limit = self.cycle + 8 * Fetch.DEPTH
        await self.step()
        while not self.ctx.get(self.dut.idle):
            await self.step()
            assert self.cycle < limit, "not idle"
        self.ctx.set(self.dut.stop, 0)

    def check_bursts(self, word):
        """Bursts follow each other without gap, each as long as page and limit allow."""
        at = BASE + 4 * word
        for addr, beats in self.port.bursts:
            assert addr == at
            assert beats == min(Fetch.BURST, (PAGE - addr % PAGE) // 4)
            at += 4 * beats
        return (at - BASE) // 4 - word


@pytest.mark.parametrize(
    "first, stall", [(0, 0.4), (1, 0.0), (2, 0.4), (63, 0.0), (961, 0.4), (1022, 0.0), (1023, 0.4)]
)
def test_every_word_from_any_start(first, stall):
    dut = Fetch()

    async def bench(ctx):
        b = Bench(ctx, dut, f"{first} {stall}", stall=stall)
        await b.start(first)
        await b.take(130)
        assert b.taken == b.expected(first, 130)
        asked = b.check_bursts(first)
        assert 130 <= asked <= 130 + Fetch.DEPTH

    simulate(dut, bench)


@pytest.mark.parametrize("first", [0, 1023])
def test_runs_ahead_by_no_more_than_it_can_hold(first):
    dut = Fetch()

    async def bench(ctx):
        b = Bench(ctx, dut, first, stall=0.0, latency=20)
        await b.start(first)
        for _ in range(Fetch.DEPTH + 100):
            await b.step()
        ahead = b.check_bursts(first)
        assert Fetch.DEPTH - Fetch.BURST < ahead <= Fetch.DEPTH
        assert b.port.quiet() and b.port.beats == ahead
        await b.take(ahead + 70)  # nothing was lost
        assert b.taken == b.expected(first, ahead + 70)

    simulate(dut, bench)


def test_a_word_a_cycle():
    dut = Fetch()

    async def bench(ctx):
        b = Bench(ctx, dut, "rate", stall=0.0, latency=4)
        await b.start(5)
        await b.take(1)
        before = b.cycle
        await b.take(201)
        assert b.cycle - before == 200

    simulate(dut, bench)


@pytest.mark.parametrize("seed", range(3))
def test_errors_stay_with_their_words(seed):
    dut = Fetch()
    rng = random.Random(f"fetch errors {seed}")
    first = rng.randrange(1024)
    bad = {first, first + 149, *(first + rng.randrange(150) for _ in range(12))}

    async def bench(ctx):
        b = Bench(ctx, dut, f"errors {seed}", stall=0.2, bad=bad)
        await b.start(first)
        await b.take(150)
        assert b.taken == b.expected(first, 150)
        assert sum(error for _, error in b.taken) == len(bad)

    simulate(dut, bench)


@pytest.mark.parametrize("seed", range(3))
def test_stop_then_start_delivers_the_new_program_only(seed):
    dut = Fetch()

    async def bench(ctx):
        b = Bench(ctx, dut, f"restart {seed}", stall=0.5 * (seed > 0), latency=1 + 7 * seed)
        for _ in range(5):
            first = b.rng.randrange(2048)
            count = b.rng.choice([0, 1, 2, 30])
            await b.start(first)
            await b.take(count)
            assert b.taken == b.expected(first, count)
            for _ in range(b.rng.choice([0, 0, 1, 2, 3, 12, 80])):
                await b.step()  # words pile up
            await b.stop()
            asked = len(b.port.bursts)
            for _ in range(b.rng.choice([0, 3, 20])):
                s = await b.step()
                assert s["idle"] and not s["valid"]
            assert len(b.port.bursts) == asked

    simulate(dut, bench)
