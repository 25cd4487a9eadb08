# SPDX-License-Identifier: Apache-2.0
"""Words become instructions in the right queue, or a fault that names the instruction."""

import collections
import random

import pytest
from amaranth_bench import simulate, tick

from opendpu_arch import isa, latency
from opendpu_arch.legal import violations
from opendpu_arch.regs import Fault
from opendpu_arch.target import Target
from opendpu_hw.control.decode import Decode

TARGET = Target.from_name("B512")
INIT_OF = {
    isa.Conv: isa.ConvInit,
    isa.Alu: isa.AluInit,
    isa.Pool: isa.PoolInit,
    isa.DptWise: isa.DwInit,
}
KINDS = [k for k in isa.INSTRUCTIONS.values() if k is not isa.End]
UNKNOWN = [o for o in range(16) if o not in isa.INSTRUCTIONS]


def draw(rng, kind, inits):
    """A legal instruction of this kind."""
    for _ in range(3000):
        values = {}
        for f in kind.bit_fields():
            if f.extension:
                continue  # the target has none
            if f.name in ("dpdon", "dpdby") or f.name.startswith(("bank_addr", "ddr_", "jump_w")):
                values[f.name] = rng.randint(f.minimum, f.maximum)
            else:
                values[f.name] = min(f.maximum, f.minimum + rng.choice([0, 0, 0, 1, 3]))
        if kind is isa.Elew:
            values["num"] = max(1, len(inits[isa.ElewInit]))
        if kind is isa.ElewInit:
            values["id"] = len(inits[isa.ElewInit])
        instruction = kind(**values)
        init = inits[isa.ElewInit] if kind in (isa.Elew, isa.ElewInit) else None
        init = inits.get(INIT_OF[kind]) if kind in INIT_OF else init
        if not violations(instruction, TARGET, init=init):
            return instruction
    raise AssertionError(f"no legal {kind.mnemonic()} found")


def draw_program(rng, count):
    """A legal program of every kind of instruction, with END."""
    inits = {isa.ElewInit: []}
    program = []

    def add(kind):
        instruction = draw(rng, kind, inits)
        if kind is isa.ElewInit:
            inits[kind].append(instruction)
        elif kind is isa.Elew:
            inits[isa.ElewInit].clear()
        elif kind in INIT_OF.values():
            inits[kind] = instruction
        program.append(instruction)

    while len(program) < count:
        kind = rng.choice(KINDS)
        if kind in INIT_OF and (INIT_OF[kind] not in inits or rng.random() < 0.3):
            add(INIT_OF[kind])
        if kind is isa.ElewInit:
            continue
        if kind is isa.Elew:
            add(isa.ElewInit)
            add(isa.ElewInit)
        add(kind)
    program.append(isa.End(dpdon=rng.getrandbits(4), dpdby=rng.getrandbits(4)))
    return program


class Bench:
    """Words in and instructions out, both with stalls."""

    def __init__(self, ctx, dut, seed, *, stall):
        self.ctx, self.dut, self.stall = ctx, dut, stall
        self.rng = random.Random(f"decode {seed}")
        self.words = collections.deque()  # word, error
        self.out = []  # engine, words
        self.cycle = 0
        self.signals = {
            "valid": dut.words.valid,
            "ready": dut.words.ready,
            "ended": dut.ended,
            "blocked": dut.blocked,
            "count": dut.count,
            "fault": dut.fault.valid,
            "cause": dut.fault.cause,
            "number": dut.fault.number,
        }
        for e in isa.Engine:
            self.signals |= {
                ("valid", e): dut.out[e].valid,
                ("ready", e): dut.out[e].ready,
                ("payload", e): dut.out[e].payload.as_value(),
            }
        self.offered = False
        self.held = None

    def program(self, instructions, *, bad=()):
        """Put a program's words on the bus, ``bad`` ones with an error."""
        words = [w for i in instructions for w in i.encode()]
        self.words = collections.deque((w, n in bad) for n, w in enumerate(words))
        return len(words)

    async def step(self):
        ctx, dut, rng = self.ctx, self.dut, self.rng
        if not self.offered:
            self.offered = bool(self.words) and rng.random() >= self.stall
            ctx.set(dut.words.valid, self.offered)
            if self.offered:
                word, error = self.words[0]
                ctx.set(dut.words.payload, {"data": word, "error": error})
        for e in isa.Engine:
            ctx.set(dut.out[e].ready, rng.random() >= self.stall)
        s = await tick(ctx, self.signals)
        self.cycle += 1
        if s["valid"] and s["ready"]:
            self.words.popleft()
            self.offered = False
        now = [(e, s["payload", e]) for e in isa.Engine if s["valid", e]]
        assert len(now) <= 1
        if self.held:
            assert now == self.held, "an instruction changed before it was taken"
        assert s["count"] == len(self.out)
        taken = bool(now) and s["ready", now[0][0]]
        assert s["blocked"] == (bool(now) and not taken)
        self.held = now if now and not taken else None
        if taken:
            packed = now[0][1]
            self.out.append((now[0][0], [packed >> 32 * n & 0xFFFFFFFF for n in range(6)]))
        return s

    async def start(self):
        self.out.clear()
        self.ctx.set(self.dut.start, 1)
        await tick(self.ctx, self.signals)
        self.ctx.set(self.dut.start, 0)

    async def stop(self):
        """Stop, with the words that were on the bus dropped."""
        self.words.clear()
        self.offered = False
        self.held = None
        self.ctx.set(self.dut.words.valid, 0)
        for e in isa.Engine:
            self.ctx.set(self.dut.out[e].ready, 0)
        self.ctx.set(self.dut.stop, 1)
        await self.ctx.tick().repeat(2)
        self.ctx.set(self.dut.stop, 0)

    async def run(self):
        """Run until END or a fault, then see that nothing more happens."""
        limit = self.cycle + 30 * len(self.words) + 50
        while not ((s := await self.step())["ended"] or s["fault"]):
            assert self.cycle < limit, f"{len(self.words)} words left"
        count, left = len(self.out), len(self.words)
        for _ in range(12):
            after = await self.step()
            assert (after["ended"], after["fault"]) == (s["ended"], s["fault"])
        assert (len(self.out), len(self.words)) == (count, left), "something after the end"
        return s

    def check(self, program):
        """Exactly these instructions came out, each in its engine's queue."""
        expected = [(i.ENGINE, [*i.encode(), *[0] * (6 - len(i.encode()))]) for i in program]
        assert self.out == expected


def run(bench, seed, *, stall=0.3):
    dut = Decode(TARGET)

    async def testbench(ctx):
        await bench(Bench(ctx, dut, seed, stall=stall))

    simulate(dut, testbench)


@pytest.mark.parametrize("stall", [0.0, 0.4, 0.8])
def test_every_kind_to_its_queue(stall):
    async def bench(b):
        program = draw_program(b.rng, 60)
        assert {type(i) for i in program} == set(isa.INSTRUCTIONS.values())
        b.program([*program, *program[:4]])
        await b.start()
        s = await b.run()
        assert s["ended"] and not s["fault"]
        b.check(program)
        assert s["count"] == len(program)

    run(bench, f"kinds {stall}", stall=stall)


def test_a_word_a_cycle():
    """Unless an instruction has fewer words than the one before it is judged in cycles."""

    async def bench(b):
        program = draw_program(b.rng, 20)
        b.program(program)
        held = -latency.JUDGEMENT
        for number, instruction in enumerate(program):
            came = instruction.WORDS + (held if number else 0) + (instruction.WORDS == 1)
            held = max(came, held + latency.JUDGEMENT + 1)
        await b.start()
        while not (await b.step())["ended"]:
            assert b.cycle < 1000
        assert b.cycle == held + latency.JUDGEMENT + 2

    run(bench, "rate", stall=0.0)


@pytest.mark.parametrize("opcode", UNKNOWN)
def test_unknown_opcode(opcode):
    async def bench(b):
        for before in (0, 9):  # restart after the fault
            program = draw_program(b.rng, 12)[:before]
            b.program([*program, isa.End()])
            b.words[-1] = (opcode << 28 | b.rng.getrandbits(28), 0)
            b.words.append((isa.End().encode()[0], 0))
            await b.start()
            s = await b.run()
            assert s["fault"] and not s["ended"]
            assert (s["cause"], s["number"]) == (Fault.UNKNOWN_OPCODE, before)
            b.check(program)
            await b.stop()

    run(bench, f"unknown {opcode}")


@pytest.mark.parametrize("word", range(6))
def test_fetch_error_in_any_word(word):
    async def bench(b):
        program = draw_program(b.rng, 20)
        for number in range(len(program) - 1, -1, -1):
            if len(program[number].encode()) > word:
                break
        assert len(program[number].encode()) > word
        at = sum(len(i.encode()) for i in program[:number]) + word
        b.program(program, bad=[at])
        await b.start()
        s = await b.run()
        assert s["fault"] and not s["ended"]
        assert (s["cause"], s["number"]) == (Fault.FETCH_ERROR, number)
        b.check(program[:number])
        # the same program without the error runs afterwards
        await b.stop()
        b.program(program)
        await b.start()
        s = await b.run()
        assert s["ended"] and not s["fault"]
        b.check(program)

    run(bench, f"fetch error {word}")


def test_an_error_after_end_does_not_matter():
    async def bench(b):
        program = draw_program(b.rng, 5)
        words = b.program([*program, isa.End()])
        b.words[words - 1] = (0xFFFFFFFF, 1)
        await b.start()
        s = await b.run()
        assert s["ended"] and not s["fault"]
        b.check(program)

    run(bench, "after end")


@pytest.mark.parametrize(
    "illegal",
    [
        isa.Load(bank_id=63),
        isa.Save(bank_id=TARGET.image_banks),
        isa.Conv(),  # no CONVINIT before it
        isa.PoolInit(pool_type=3),
    ],
    ids=lambda i: i.mnemonic(),
)
def test_illegal_field(illegal):
    async def bench(b):
        before = [i for i in draw_program(b.rng, 12)[:-1] if i.ENGINE != isa.Engine.CONV]
        assert violations(illegal, TARGET)
        b.program([*before, illegal, isa.End()])
        await b.start()
        s = await b.run()
        assert s["fault"] and not s["ended"]
        assert (s["cause"], s["number"]) == (Fault.ILLEGAL_FIELD, len(before))
        b.check(before)

    run(bench, f"illegal {illegal.mnemonic()}")


def test_inits_end_with_their_program():
    async def bench(b):
        init = draw(b.rng, isa.ConvInit, {isa.ElewInit: []})
        conv = draw(b.rng, isa.Conv, {isa.ElewInit: [], isa.ConvInit: init})
        b.program([init, conv, isa.End()])
        await b.start()
        assert (await b.run())["ended"]
        b.program([conv, isa.End()])
        await b.start()
        s = await b.run()
        assert (s["fault"], s["cause"], s["number"]) == (1, Fault.ILLEGAL_FIELD, 0)

    run(bench, "inits")


@pytest.mark.parametrize("seed", range(2))
def test_stop_anywhere_and_start_again(seed):
    async def bench(b):
        for _ in range(8):
            program = draw_program(b.rng, 10)
            b.program(program)
            await b.start()
            for _ in range(b.rng.randint(0, 60)):
                await b.step()
            await b.stop()
            assert not any(b.ctx.get(b.dut.out[e].valid) for e in isa.Engine)
            assert not b.ctx.get(b.dut.words.ready)
            program = draw_program(b.rng, 3)
            b.program(program)
            await b.start()
            s = await b.run()
            assert s["ended"] and not s["fault"]
            b.check(program)

    run(bench, f"stop {seed}", stall=0.4)
