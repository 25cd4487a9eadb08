# SPDX-License-Identifier: Apache-2.0
"""LOAD in Amaranth's simulator against a naive model of its semantics."""

import collections
import dataclasses
import random

import pytest
from amaranth_bench import simulated

from opendpu_arch import isa
from opendpu_arch.regs import Fault
from opendpu_arch.target import Target
from opendpu_hw.engine.load import Load

BASE = 0x12_3456_7010
SIZE = 1 << 14


def expected_writes(insn, target, memory):
    """Every word a LOAD writes: (bank, address, data), in order."""
    cp = target.channel_parallel
    aligned = -(-insn.channel // cp) * cp
    masked = insn.channel >= insn.jump_read and insn.channel <= 64
    for pixel in range(insn.length):
        start = insn.ddr_addr + pixel * insn.jump_read
        if insn.broadcast == 7:
            run = [insn.const_value] * insn.channel
        else:
            run = list(memory[start : start + insn.channel])
        if masked:
            head = max(0, insn.pad_start - pixel * insn.jump_read)
            run[:head] = [0] * head
            late = pixel - (insn.length - insn.pad_idx)
            if late >= 0:
                cut = aligned - (insn.pad_end + insn.jump_read * late)
                assert cut > 0
                run[cut:] = [0] * len(run[cut:])
        run += [0] * (aligned - insn.channel)
        for w in range(aligned // cp):
            word = (insn.bank_addr + pixel * insn.jump_write + w) % target.bank_depth
            yield insn.bank_id, word, int.from_bytes(bytes(run[w * cp : w * cp + cp]), "little")


class BankPort:
    """A write port of the banks: ready at random, every word checked in the order of its bank."""

    def __init__(self, port, queues, rng, stall):
        self.port, self.queues, self.rng, self.stall = port, queues, rng, stall
        self.words = 0

    def signals(self):
        return {n: getattr(self.port, n) for n in ("valid", "ready", "bank_id", "addr", "data")}

    def step(self, s, cycle, drive):
        if s["valid"] and s["ready"]:
            self.words += 1
            queue = self.queues[s["bank_id"]]
            assert queue, f"word to bank {s['bank_id']} that nobody expects"
            number, addr, data, insn = queue.popleft()
            assert (s["addr"], s["data"]) == (addr, data), (
                f"{number} {insn}, bank {s['bank_id']}: word {s['addr']:#x} is "
                f"{s['data']:x}, expected word {addr:#x}: {data:x}"
            )
        drive(self.port.ready, self.rng.random() >= self.stall)


class Setup:
    """A LOAD engine with memory and banks."""

    def __init__(self, bench_type, axi_port_type, name, *, seed, stall, latency, errors=()):
        self.target = Target.from_name(name)
        self.memory = random.Random(1).randbytes(SIZE)
        simulator = simulated(Load, self.target)
        dut = simulator.dut
        self.bench = bench_type(simulator, seed=seed, stall=stall)
        self.bench.segments[3] = (BASE, SIZE)
        rng = self.bench.rng
        self.buses = [
            self.bench.add(
                axi_port_type(
                    bus, self.memory, rng, base=BASE, latency=latency, stall=stall, errors=errors
                )
            )
            for bus in (dut.bus0, dut.bus1)
        ]
        self.queues = collections.defaultdict(collections.deque)
        self.ports = [
            self.bench.add(BankPort(p, self.queues, rng, stall)) for p in (dut.write0, dut.write1)
        ]
        self.expected = 0
        self.bench.on_done = self.check_done

    def expect(self, instructions):
        """Queue the words of instructions for comparison."""
        for insn in instructions:
            for bank, word, data in expected_writes(insn, self.target, self.memory):
                self.queues[bank].append((self.expected, word, data, insn))
            self.expected += 1

    def check_done(self, index):
        for bank, queue in self.queues.items():
            assert not queue or queue[0][0] > index, f"LOAD {index} is done before bank {bank}"

    def check_empty(self):
        left = {bank: len(q) for bank, q in self.queues.items() if q}
        assert not left, f"words never written: {left}"
        assert all(b.quiet() for b in self.buses)


@pytest.fixture
def setup(bench_type, axi_port_type):
    def make(name, **options):
        return Setup(bench_type, axi_port_type, name, **options)

    return make


def load(**fields):
    """A LOAD with defaults."""
    values = {
        "dpdon": 0,
        "dpdby": 0,
        "bank_id": 0,
        "bank_addr": 0,
        "jump_read": 16,
        "jump_write": 1,
        "pad_idx": 1,
        "channel": 16,
        "length": 1,
        "pad_start": 0,
        "pad_end": 0,
        "mode_avg": 0,
        "broadcast": 0,
        "const_value": 0,
        "reg_id": 3,
        "ddr_addr": 0,
    }
    return isa.Load(**values | fields)


def random_load(rng, target):
    """A random legal LOAD of any kind, small."""
    cp = target.channel_parallel
    kind = rng.choice(
        ("touching", "gap", "strided", "augmented", "overlapping", "constant", "long", "pixel")
    )
    fields = {
        "bank_id": rng.randrange(min(4, target.bank_count))
        if rng.random() < 0.7
        else rng.randrange(target.bank_count),
        "bank_addr": rng.randrange(target.bank_depth),
        "const_value": rng.randrange(256),
        "pad_idx": rng.randint(1, 32),
        "channel": rng.randint(1, 70),
        "length": rng.randint(1, 12),
        "broadcast": rng.choice((0, 0, 1, 3, 15)),
    }
    channel = fields["channel"]
    if kind == "touching":
        fields["jump_read"] = channel
    elif kind == "gap":
        fields["jump_read"] = channel + rng.randint(1, 17)
    elif kind == "strided":
        fields["jump_read"] = channel + rng.randint(16, 900)
    elif kind == "augmented":
        fields["channel"] = channel = rng.randint(1, 64)
        fields["jump_read"] = rng.randint(1, channel)
        fields["length"] = rng.randint(1, 20)
    elif kind == "overlapping":
        fields["channel"] = channel = rng.choice((65, 127, 128, 129, 200, rng.randint(65, 300)))
        fields["jump_read"] = rng.randint(1, channel)
        fields["length"] = rng.randint(1, 5)
    elif kind == "constant":
        fields["broadcast"] = 7
        fields["jump_read"] = rng.choice((channel, rng.randint(1, 500)))
    elif kind == "long":
        fields["channel"] = channel = rng.randint(300, 1500)
        fields["jump_read"] = channel + rng.randint(-300, 300)
        fields["length"] = rng.randint(1, 2)
    else:
        fields["jump_read"] = rng.randint(1, 1000)
        fields["length"] = 1
    words = -(-channel // cp)
    fields["jump_write"] = rng.choice(
        (words, words, words + rng.randrange(5), rng.randint(1, 1024))
    )
    if channel >= fields["jump_read"] and channel <= 64:
        jump, length = fields["jump_read"], fields["length"]
        fields["pad_start"] = rng.randint(0, min(31, channel - 1)) if rng.random() < 0.7 else 0
        aligned = words * cp
        worst = aligned - 1
        fields["pad_idx"] = rng.randint(1, 4) if rng.random() < 0.8 else rng.randint(1, 32)
        while jump * (fields["pad_idx"] - 1) > worst:
            fields["pad_idx"] -= 1
        most = worst - jump * (fields["pad_idx"] - 1)
        fields["pad_end"] = rng.randint(0, min(31, most)) if rng.random() < 0.7 else 0
        assert length
    else:
        fields["pad_start"], fields["pad_end"] = rng.randrange(32), rng.randrange(32)
    extent = (fields["length"] - 1) * fields["jump_read"] + channel
    while extent > SIZE:
        fields["length"] -= 1
        extent = (fields["length"] - 1) * fields["jump_read"] + channel
    fields["ddr_addr"] = rng.choice((0, SIZE - extent, rng.randint(0, SIZE - extent)))
    return load(**fields)


@pytest.mark.parametrize(
    ("name", "stall", "latency"),
    [
        ("B64", 0.4, 5),
        ("B144", 0.0, 1),
        *(
            pytest.param(*draw, marks=pytest.mark.slow)
            for draw in (
                ("B64", 0.0, 1),
                ("B144", 0.3, 20),
                ("B4096", 0.0, 9),
                ("B4096", 0.5, 3),
                ("B800", 0.2, 2),
                ("B3136", 0.1, 30),
            )
        ),
    ],
)
def test_random_loads(setup, name, stall, latency):
    """Random LOADs of every kind, all handshakes stalled at random."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    s = setup(name, seed=seed, stall=stall, latency=latency)
    instructions = [random_load(s.bench.rng, s.target) for _ in range(40)]
    s.expect(instructions)

    async def script(bench):
        end = await bench.feed(instructions, deadline=15_000)
        assert not end["busy"] and end["idle"] and bench.fault is None
        s.check_empty()

    s.bench.run(script)


@pytest.mark.parametrize("name", [pytest.param("B144", marks=pytest.mark.slow), "B4096"])
def test_weights_stream_over_both_ports(setup, name):
    """16 LOADs of 300 words take hardly longer than their words over two ports."""
    s = setup(name, seed=1, stall=0.0, latency=64)
    cp = s.target.channel_parallel
    count = 16
    instructions = [
        load(
            bank_id=s.target.convw_base + i % s.target.output_channel_parallel,
            bank_addr=300 * (i // s.target.output_channel_parallel),
            channel=cp,
            jump_read=cp,
            jump_write=1,
            length=300,
            ddr_addr=i * 300 * cp % (SIZE - 300 * cp),
        )
        for i in range(count)
    ]
    s.expect(instructions)

    async def script(bench):
        start = bench.cycle
        await bench.feed(instructions, deadline=20_000)
        taken = bench.cycle - start
        print(f"{name}: {taken} cycles for {count} LOADs of 300 words")
        assert taken <= count * 300 // 2 + 64 + 60
        s.check_empty()

    s.bench.run(script)


def test_small_loads_overlap(setup):
    """LOADs shorter than the latency are fetched ahead."""
    s = setup("B4096", seed=1, stall=0.0, latency=64)
    instructions = [
        load(
            bank_id=s.target.convw_base + i % 16,
            bank_addr=18 * (i // 16),
            length=18,
            ddr_addr=i * 18 * 16 % 8192,
        )
        for i in range(64)
    ]
    s.expect(instructions)

    async def script(bench):
        await bench.feed(instructions, deadline=20_000)
        print(f"{bench.cycle} cycles for 64 LOADs of 18 words")
        assert bench.cycle <= 64 * 18 // 2 + 64 + 120
        s.check_empty()

    s.bench.run(script)


def test_touching_rows_are_one_range(setup):
    """Pixels that touch are fetched in full bursts, distant ones each for itself."""
    s = setup("B4096", seed=1, stall=0.0, latency=4)
    touching = load(channel=24, jump_read=32, length=32, ddr_addr=0xFF0)
    distant = load(channel=24, jump_read=48, length=4, ddr_addr=0, bank_id=1)
    s.expect([touching, distant])

    async def script(bench):
        await bench.feed([touching, distant], deadline=2000)
        (first, second) = (b.bursts for b in s.buses)
        assert [n for _, n in first] == [16] * 4
        assert len(second) == 4
        s.check_empty()

    s.bench.run(script)


def test_range_beyond_segment(setup):
    """A LOAD that leaves its segment fails with the last byte's address, after all before it."""
    s = setup("B64", seed=1, stall=0.1, latency=3)
    good = [load(bank_id=i, channel=40, jump_read=40, jump_write=10, length=4) for i in range(3)]
    bad = load(channel=16, jump_read=100, length=3, ddr_addr=SIZE - 215)
    s.expect(good)

    async def script(bench):
        await bench.feed([*good, bad, *good], deadline=5000, until=lambda b: b.fault)
        assert bench.done == 3
        assert bench.fault == (Fault.LOAD_ADDRESS, BASE + SIZE)
        s.check_empty()
        await bench.abort()
        fits = dataclasses.replace(bad, ddr_addr=bad.ddr_addr - 1)
        s.expected = bench.done
        s.expect([fits])
        await bench.feed([fits], deadline=1000)
        assert bench.fault is None
        s.check_empty()

    s.bench.run(script)


def test_constant_needs_no_memory(setup):
    """A constant LOAD makes no access, so its address may be anything."""
    s = setup("B64", seed=1, stall=0.0, latency=3)
    insn = load(broadcast=7, const_value=3, channel=7, jump_read=999, length=40, ddr_addr=SIZE)
    s.expect([insn])

    async def script(bench):
        await bench.feed([insn], deadline=1000)
        assert bench.fault is None and not any(b.bursts for b in s.buses)
        s.check_empty()

    s.bench.run(script)


def test_unlimited_segment(setup):
    """Size 0 checks nothing."""
    s = setup("B64", seed=1, stall=0.0, latency=3)
    s.bench.segments[3] = (BASE, 0)
    insn = load(channel=16, jump_read=100, length=3, ddr_addr=SIZE - 216)
    s.expect([insn])

    async def script(bench):
        await bench.feed([insn], deadline=1000)
        assert bench.fault is None
        s.check_empty()

    s.bench.run(script)


@pytest.mark.parametrize("bursts", [1, 8])
@pytest.mark.parametrize("slow", [False, True])
def test_bus_error(setup, slow, bursts):
    """Read errors stop the engine at the first of them; after ``abort`` it works again."""
    bad_burst = (BASE + 0x1000) & ~0xFFF
    errors = [bad_burst + 256 * i for i in range(bursts)]
    s = setup("B4096", seed=5, stall=0.3 if slow else 0.0, latency=12, errors=errors)
    good = [load(bank_id=i, length=40, ddr_addr=0x300 * i) for i in range(3)]
    bad = load(bank_id=7, length=40, channel=64, jump_read=64, ddr_addr=0x1000 - 64)
    after = [load(bank_id=8 + i, length=40, ddr_addr=0x300 * i) for i in range(3)]
    s.expect([*good, bad, *after])

    async def script(bench):
        await bench.feed([*good, bad, *after], deadline=5000, until=lambda b: b.fault)
        assert bench.done == 3
        cause, addr = bench.fault
        assert cause == Fault.LOAD_BUS_ERROR
        assert addr in [a for b in s.buses for a, _ in b.bursts] and addr == bad_burst
        await bench.abort()
        assert all(b.quiet() for b in s.buses)
        s.queues.clear()
        s.expected = bench.done
        s.expect(after)
        await bench.feed(after, deadline=2000)
        assert bench.fault is None
        s.check_empty()

    s.bench.run(script)


@pytest.mark.parametrize("stall", [pytest.param(0.0, marks=pytest.mark.slow), 0.4])
def test_abort_at_any_time(setup, stall):
    """An abort in any cycle leaves the bus clean and the engine as after reset."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    s = setup("B144", seed=seed, stall=stall, latency=7)

    async def script(bench):
        for _ in range(15):
            instructions = [random_load(bench.rng, s.target) for _ in range(12)]
            s.expected = bench.done
            s.expect(instructions)
            end = bench.cycle + bench.rng.randint(1, 150)
            await bench.feed(instructions, deadline=5000, until=lambda b, end=end: b.cycle >= end)
            await bench.abort()
            assert all(b.quiet() for b in s.buses)
            s.queues.clear()
        s.expected = bench.done
        s.expect(instructions)
        await bench.feed(instructions, deadline=20_000)
        s.check_empty()

    s.bench.run(script)
