# SPDX-License-Identifier: Apache-2.0
"""SAVE and END in Amaranth's simulator against a naive model of their semantics."""

import collections
import dataclasses
import random

import numpy as np
import pytest
from amaranth_bench import simulated

from opendpu_arch import isa, latency
from opendpu_arch.regs import Fault
from opendpu_arch.target import Target
from opendpu_hw.engine.save import Save

BASE = 0x12_3456_7010
SIZE = 1 << 14
END = isa.End(dpdon=2, dpdby=2)


def written_bytes(insn, target, banks):
    """What a SAVE writes: offset to byte, later pixels over earlier ones."""
    cp, depth = target.channel_parallel, target.bank_depth
    result = {}
    bank = banks[insn.bank_id].reshape(-1)
    for pixel in range(insn.length):
        at = insn.ddr_addr + pixel * insn.jump_write
        start = (insn.bank_addr + pixel * insn.jump_read) * cp
        run = bank[(start + np.arange(insn.channel)) % (depth * cp)].astype(np.int8)
        if insn.const_en:
            run = np.full(insn.channel, insn.const_value)
        elif insn.argmax >= 2:
            best = int(np.argmax(run))
            run = np.array([run[best] if insn.argmax == 3 else best])
        for i, value in enumerate(run):
            result[at + i] = int(value) & 0xFF
    return result


class BankPort:
    """A read port of the banks: ready at random, data when they answer and only then."""

    def __init__(self, port, banks, rng, stall):
        self.port, self.banks, self.rng, self.stall = port, banks, rng, stall
        self.words, self.reads = 0, []
        self.coming = collections.deque([0] * (latency.BANK_READ - 1))

    def signals(self):
        return {n: getattr(self.port, n) for n in ("valid", "ready", "bank_id", "addr")}

    def step(self, s, cycle, drive):
        if s["valid"] and s["ready"]:
            self.words += 1
            self.reads.append(cycle)
            word = self.banks[s["bank_id"], s["addr"]]
            self.coming.append(int.from_bytes(word.tobytes(), "little"))
        else:
            self.coming.append(self.rng.getrandbits(len(self.port.data)))
        drive(self.port.data, self.coming.popleft())
        drive(self.port.ready, self.rng.random() >= self.stall)


class Setup:
    """A SAVE engine with banks and memory."""

    def __init__(
        self, bench_type, axi_port_type, name, *, seed, stall, latency, errors=(), **options
    ):
        self.target = target = dataclasses.replace(Target.from_name(name), **options)
        self.banks = np.random.default_rng(1).integers(
            -128, 128, (target.image_banks, target.bank_depth, target.channel_parallel), np.int8
        )
        self.banks[0] >>= 6  # equal values for argmax
        self.program = []
        self.memory = bytearray(random.Random(1).randbytes(SIZE))
        self.reference = bytearray(self.memory)
        simulator = simulated(Save, target)
        dut = simulator.dut
        self.bench = bench_type(simulator, seed=seed, stall=stall)
        self.bench.segments[5] = (BASE, SIZE)
        rng = self.bench.rng
        self.buses = [
            self.bench.add(
                axi_port_type(
                    bus, self.memory, rng, base=BASE, latency=latency, stall=stall, errors=errors
                )
            )
            for bus in (dut.bus0, dut.bus1)
        ]
        self.ports = [
            self.bench.add(BankPort(p, self.banks, rng, stall)) for p in (dut.read0, dut.read1)
        ]
        self.writes = []
        self.bench.on_done = self.check_done

    def expect(self, instructions):
        """Apply instructions to the reference memory, and remember what each leaves."""
        fresh = [
            {} if isinstance(i, isa.End) else written_bytes(i, self.target, self.banks)
            for i in instructions
        ]
        self.writes += fresh
        self.program += instructions
        for content in fresh:
            for at, value in content.items():
                self.reference[at] = value

    def check_done(self, index):
        later = set().union(*self.writes[index + 1 :])
        for at, value in self.writes[index].items():
            assert at in later or self.memory[at] == value, (
                f"{self.program[index]} is done, "
                f"but byte {at:#x} is {self.memory[at]:#x}, not {value:#x}"
            )

    def check_memory(self):
        assert all(b.quiet() for b in self.buses)
        wrong = [i for i in range(SIZE) if self.memory[i] != self.reference[i]]
        assert not wrong, f"{len(wrong)} bytes differ, the first at {wrong[0]:#x}"


@pytest.fixture
def setup(bench_type, axi_port_type):
    def make(name, **options):
        return Setup(bench_type, axi_port_type, name, **options)

    return make


def save(**fields):
    """A SAVE with defaults."""
    values = {
        "dpdon": 2,
        "dpdby": 2,
        "bank_id": 0,
        "bank_addr": 0,
        "hp_id": 0,
        "argmax": 0,
        "jump_write": 16,
        "jump_read": 1,
        "channel": 16,
        "length": 1,
        "const_en": 0,
        "const_value": 0,
        "reg_id": 5,
        "ddr_addr": 0,
    }
    return isa.Save(**values | fields)


def random_save(rng, target):
    """A random legal SAVE of any kind, small."""
    cp = target.channel_parallel
    kind = rng.choice(("touching", "strided", "overlapping", "long", "argmax", "argmax", "pixel"))
    channel = rng.randint(1, 60)
    fields = {
        "bank_id": rng.randrange(target.image_banks),
        "bank_addr": rng.randrange(target.bank_depth),
        "hp_id": rng.randrange(2),
        "const_value": rng.randrange(256),
        "const_en": rng.random() < 0.15,
        "length": rng.randint(1, 12),
        "argmax": rng.randrange(2),
    }
    if kind == "touching":
        fields["jump_write"] = channel
    elif kind == "strided":
        fields["jump_write"] = channel + rng.randint(1, 200)
    elif kind == "overlapping":
        fields["jump_write"] = rng.randint(1, channel)
    elif kind == "long":
        channel = rng.randint(200, 700)
        fields["jump_write"] = rng.choice((channel, rng.randint(1, 1000)))
        fields["length"] = rng.randint(1, 2)
    elif kind == "argmax":
        fields["argmax"] = rng.choice((2, 3))
        fields["bank_id"] = rng.choice((0, fields["bank_id"]))
        fields["jump_write"] = rng.choice((1, 1, rng.randint(1, 40)))
        channel = rng.randint(1, 300)
    else:
        fields["jump_write"] = rng.randint(1, 1000)
        fields["length"] = 1
    words = -(-channel // cp)
    fields["jump_read"] = rng.choice((words, words + rng.randrange(4), rng.randint(1, 1024)))
    size = 1 if fields["argmax"] >= 2 and not fields["const_en"] else channel
    extent = (fields["length"] - 1) * fields["jump_write"] + size
    while extent > SIZE:
        fields["length"] -= 1
        extent = (fields["length"] - 1) * fields["jump_write"] + size
    room = rng.choice((SIZE, 3000))  # often in the same place
    fields["ddr_addr"] = rng.choice((0, SIZE - extent, rng.randint(0, max(0, room - extent))))
    return save(channel=channel, **fields)


def extent_of(insn):
    """First and last byte a SAVE may write."""
    return insn.ddr_addr, insn.ddr_addr + (insn.length - 1) * insn.jump_write + insn.channel - 1


def random_program(rng, target, count):
    """SAVEs of which some do not wait for the one before, where that makes no difference."""
    program = [random_save(rng, target) for _ in range(count)]
    for i in range(1, count):
        low, high = extent_of(program[i])
        free = all(extent_of(p)[1] < low or high < extent_of(p)[0] for p in program[:i][-8:])
        if free and rng.random() < 0.5:
            program[i] = dataclasses.replace(program[i], dpdon=0)
    return program


@pytest.mark.parametrize(
    ("name", "stall", "latency", "write_first"),
    [
        ("B64", 0.4, 5, True),
        *(
            pytest.param(*draw, marks=pytest.mark.slow)
            for draw in (
                ("B64", 0.0, 1, False),
                ("B144", 0.0, 1, True),
                ("B144", 0.3, 20, False),
                ("B4096", 0.0, 9, False),
                ("B4096", 0.5, 3, False),
                ("B800", 0.2, 2, True),
                ("B3136", 0.1, 30, False),
            )
        ),
    ],
)
def test_random_saves(setup, name, stall, latency, write_first):
    """Random SAVEs of every kind, all handshakes stalled at random."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    s = setup(name, seed=seed, stall=stall, latency=latency)
    for bus in s.buses:
        bus.write_first = write_first
    program = [*random_program(s.bench.rng, s.target, 35), END]
    s.expect(program)

    async def script(bench):
        end = await bench.feed(program, deadline=15_000)
        assert not end["busy"] and end["idle"] and bench.fault is None
        s.check_memory()

    s.bench.run(script)


@pytest.mark.parametrize("name", [pytest.param("B144", marks=pytest.mark.slow), "B4096"])
def test_maps_stream_over_both_ports(setup, name):
    """16 SAVEs of 300 words take hardly longer than their words over two ports."""
    s = setup(name, seed=1, stall=0.0, latency=64)
    cp = s.target.channel_parallel
    size = 300 * cp
    program = [
        save(
            bank_id=i % s.target.image_banks,
            channel=cp,
            jump_write=cp,
            length=300,
            ddr_addr=i % 2 * size,
            bank_addr=i,
        )
        for i in range(16)
    ]
    s.expect(program)

    async def script(bench):
        await bench.feed(program, deadline=20_000)
        print(f"{name}: {bench.cycle} cycles for 16 SAVEs of 300 words")
        assert bench.cycle <= 16 * 300 // 2 + 64 + 60
        s.check_memory()

    s.bench.run(script)


def test_reads_no_sooner_than_convs_results_are_written(setup):
    s = setup("B512", seed=1, stall=0.0, latency=1)
    program = [save()]
    s.expect(program)

    async def script(bench):
        await bench.feed(program, deadline=200)

    taken = 1  # an idle engine takes what it is offered
    s.bench.run(script)
    assert s.ports[0].reads[0] >= taken + latency.ENGINE_READ
    s.check_memory()


def test_small_saves_overlap(setup):
    """SAVEs shorter than the latency do not wait for each other's responses."""
    s = setup("B4096", seed=1, stall=0.0, latency=64)
    program = [
        save(bank_id=i % 2, bank_addr=28 * i, length=28, ddr_addr=i * 28 * 16) for i in range(32)
    ]
    s.expect(program)

    async def script(bench):
        await bench.feed(program, deadline=20_000)
        print(f"{bench.cycle} cycles for 32 SAVEs of 28 words")
        assert bench.cycle <= 32 * 28 // 2 + 64 + 200
        s.check_memory()

    s.bench.run(script)


def test_overlap_waits_for_the_other_port(setup):
    """Two SAVEs to one place through two ports: the second one's bytes stay."""
    s = setup("B64", seed=1, stall=0.0, latency=3)
    s.buses[0].latency = 90
    program = [
        save(channel=40, jump_write=40, jump_read=10, length=6, hp_id=0, ddr_addr=1000),
        save(bank_id=1, channel=40, jump_write=40, jump_read=10, length=2, hp_id=1, ddr_addr=1239),
        save(bank_id=3, channel=40, jump_write=40, jump_read=10, length=2, hp_id=1, ddr_addr=3000),
    ]
    s.expect(program)

    async def script(bench):
        await bench.feed(program, deadline=3000)
        s.check_memory()

    s.bench.run(script)


def test_pair_shares_no_order(setup):
    """A SAVE without its own bit in dpdon does not wait, even for the same place."""
    s = setup("B64", seed=1, stall=0.0, latency=3)
    s.buses[0].latency = 90
    first = save(channel=4, jump_write=8, length=30, dpdby=0)
    second = dataclasses.replace(first, bank_id=1, ddr_addr=4, hp_id=1, dpdon=0, dpdby=2)
    s.expect([first, second])

    async def script(bench):
        answered = []
        bench.on_done = lambda index: answered.append(bench.cycle)
        await bench.feed([first, second], deadline=3000)
        s.check_memory()
        assert answered[1] - answered[0] == 1, "the second SAVE was held back"

    s.bench.run(script)


def test_end_is_last(setup):
    """END is done after the responses to all SAVEs, and at once if there are none."""
    s = setup("B64", seed=1, stall=0.0, latency=50)
    program = [save(length=5, channel=4, jump_write=4), END]
    s.expect([END, *program])

    async def script(bench):
        await bench.feed([END], deadline=10)
        await bench.feed(program, deadline=400)
        s.check_memory()

    s.bench.run(script)


def test_constant_reads_no_bank(setup):
    """A constant SAVE needs memory only."""
    s = setup("B64", seed=1, stall=0.0, latency=3)
    insn = save(const_en=1, const_value=0x5A, channel=9, jump_write=20, length=7, argmax=3)
    s.expect([insn])

    async def script(bench):
        await bench.feed([insn], deadline=400)
        assert [p.words for p in s.ports] == [0, 0]
        s.check_memory()

    s.bench.run(script)


def test_argmax_accesses_one_byte_a_pixel(setup):
    """The segment needs to hold what is written, not what is compared."""
    s = setup("B64", seed=1, stall=0.0, latency=3)
    insn = save(argmax=2, channel=100, jump_write=1, jump_read=25, length=4, ddr_addr=SIZE - 4)
    s.expect([insn])

    async def script(bench):
        await bench.feed([insn], deadline=400)
        assert bench.fault is None
        s.check_memory()

    s.bench.run(script)


def test_range_beyond_segment(setup):
    """A SAVE that leaves its segment fails with the last byte's address, after all before it."""
    s = setup("B64", seed=1, stall=0.1, latency=9)
    good = [save(channel=40, jump_write=40, length=4, ddr_addr=i * 160) for i in range(3)]
    bad = save(channel=16, jump_write=100, length=3, ddr_addr=SIZE - 215)
    s.expect(good)

    async def script(bench):
        await bench.feed([*good, bad, *good], deadline=5000, until=lambda b: b.fault)
        assert bench.done == 3
        assert bench.fault == (Fault.SAVE_ADDRESS, BASE + SIZE)
        s.check_memory()
        await bench.abort()
        fits = dataclasses.replace(bad, ddr_addr=bad.ddr_addr - 1)
        s.expect([fits])
        await bench.feed([fits], deadline=1000)
        assert bench.fault is None
        s.check_memory()

    s.bench.run(script)


@pytest.mark.parametrize("length", [20, 4])
@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_bus_error(setup, stall, length):
    """A write error, also of a SAVE's last burst, stops the engine; it works after ``abort``."""
    bad_burst = (BASE + 0x1000) & ~0xFFF
    s = setup("B4096", seed=5, stall=stall, latency=12, errors=[bad_burst])
    good = [save(bank_id=i, length=40, ddr_addr=0x300 * i, hp_id=i % 2) for i in range(3)]
    bad = save(bank_id=7, length=length, ddr_addr=bad_burst - BASE, hp_id=1)
    after = [save(bank_id=8 + i, length=40, ddr_addr=0x2000 + 0x300 * i) for i in range(3)]
    s.expect([*good, bad, *after])

    async def script(bench):
        await bench.feed([*good, bad, *after], deadline=5000, until=lambda b: b.fault)
        assert bench.done == 3
        assert bench.fault == (Fault.SAVE_BUS_ERROR, bad_burst)
        await bench.abort()
        assert all(b.quiet() for b in s.buses)
        bench.on_done = lambda index: None
        await bench.feed(after, deadline=2000)
        assert bench.fault is None
        s.check_memory()

    s.bench.run(script)


@pytest.mark.parametrize("stall", [pytest.param(0.0, marks=pytest.mark.slow), 0.4])
def test_abort_at_any_time(setup, stall):
    """An abort in any cycle leaves a clean bus, and the engine as after reset."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    s = setup("B144", seed=seed, stall=stall, latency=7)

    async def script(bench):
        bench.on_done = lambda index: None
        for _ in range(15):
            program = random_program(bench.rng, s.target, 12)
            before = bytes(s.memory)
            allowed = set().union(*(written_bytes(i, s.target, s.banks) for i in program))
            end = bench.cycle + bench.rng.randint(1, 150)
            await bench.feed(program, deadline=5000, until=lambda b, end=end: b.cycle >= end)
            await bench.abort()
            assert all(b.quiet() for b in s.buses)
            changed = [i for i in range(SIZE) if s.memory[i] != before[i]]
            assert all(i in allowed for i in changed), "an abort wrote bytes of no SAVE"
        s.reference[:] = s.memory
        s.expect(program)
        await bench.feed(program, deadline=15_000)
        s.check_memory()

    s.bench.run(script)


def test_no_argmax_unit(setup):
    """A target without argmax still copies."""
    s = setup("B64", seed=1, stall=0.0, latency=3, save_argmax=False)
    program = [save(channel=9, jump_write=20, length=7, jump_read=3)]
    s.expect(program)

    async def script(bench):
        await bench.feed(program, deadline=400)
        s.check_memory()

    s.bench.run(script)
