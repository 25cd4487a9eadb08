# SPDX-License-Identifier: Apache-2.0
"""SAVE and END in Amaranth's simulator against a naive model of their semantics."""

import collections
import dataclasses
import random

import numpy as np
import pytest
from opendpu_arch import isa
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
    """A read port of the banks: ready at random, data one cycle later and only then."""

    def __init__(self, port, banks, rng, stall):
        self.port, self.banks, self.rng, self.stall = port, banks, rng, stall
        self.words = 0

    def signals(self):
        return {n: getattr(self.port, n) for n in ("valid", "ready", "bank_id", "addr")}

    def step(self, s, cycle, drive):
        if s["valid"] and s["ready"]:
            self.words += 1
            word = self.banks[s["bank_id"], s["addr"]]
            drive(self.port.data, int.from_bytes(word.tobytes(), "little"))
        else:
            drive(self.port.data, self.rng.getrandbits(len(self.port.data)))
        drive(self.port.ready, self.rng.random() >= self.stall)


class Setup:
    """A SAVE engine with banks and memory."""

    def __init__(self, bench_type, axi_port_type, name, *, seed, stall, latency, errors=()):
        self.target = target = Target.from_name(name)
        self.banks = np.random.default_rng(1).integers(
            -128, 128, (target.image_banks, target.bank_depth, target.channel_parallel), np.int8
        )
        self.banks[0] >>= 6     # equal values for argmax
        self.memory = bytearray(random.Random(1).randbytes(SIZE))
        self.reference = bytearray(self.memory)
        dut = Save(target)
        self.bench = bench_type(dut, seed=seed, stall=stall)
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
        self.program = getattr(self, "program", []) + list(instructions)
        for content in fresh:
            for at, value in content.items():
                self.reference[at] = value

    def check_done(self, index):
        later = set().union(*self.writes[index + 1 :])
        for at, value in self.writes[index].items():
            assert at in later or self.memory[at] == value, (
                f"{self.program[index]} is done, but byte {at:#x} is {self.memory[at]:#x}, not {value:#x}"
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
    values = dict(
        dpdon=2, dpdby=2, bank_id=0, bank_addr=0, hp_id=0, argmax=0, jump_write=16, jump_read=1,
        channel=16, length=1, const_en=0, const_value=0, reg_id=5, ddr_addr=0,
    )
    return isa.Save(**values | fields)


def random_save(rng, target):
    """A random legal SAVE of any kind, small."""
    cp = target.channel_parallel
    kind = rng.choice(("touching", "strided", "overlapping", "long", "argmax", "argmax", "pixel"))
    channel = rng.randint(1, 60)
    fields = dict(
        bank_id=rng.randrange(target.image_banks), bank_addr=rng.randrange(target.bank_depth),
        hp_id=rng.randrange(2), const_value=rng.randrange(256), const_en=rng.random() < 0.15,
        length=rng.randint(1, 12), argmax=rng.randrange(2),
    )
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
    extent = (fields["length"] - 1) * fields["jump_write"] + channel
    while extent > SIZE:
        fields["length"] -= 1
        extent = (fields["length"] - 1) * fields["jump_write"] + channel
    room = rng.choice((SIZE, 3000))     # often in the same place
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
        ("B64", 0.0, 1, False), ("B64", 0.4, 5, True), ("B144", 0.3, 20, False),
        ("B144", 0.0, 1, True), ("B4096", 0.0, 9, False), ("B4096", 0.5, 3, False),
        ("B800", 0.2, 2, True), ("B3136", 0.1, 30, False),
    ],
)
def test_random_saves(setup, name, stall, latency, write_first):
    """Random SAVEs of every kind, all handshakes stalled at random."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    s = setup(name, seed=seed, stall=stall, latency=latency)
    for bus in s.buses:
        bus.write_first = write_first
    program = [*random_program(s.bench.rng, s.target, 50), END]
    s.expect(program)

    async def script(bench):
        end = await bench.feed(program, deadline=15_000)
        assert not end["busy"] and end["idle"] and bench.fault is None
        s.check_memory()

    s.bench.run(script)
