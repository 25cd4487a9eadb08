# SPDX-License-Identifier: Apache-2.0
"""The banks under random traffic from every port at once."""

import collections
import random

import pytest
from amaranth.sim import Simulator

from opendpu_arch import latency
from opendpu_arch.target import Target
from opendpu_hw.memory.banks import Banks


class Traffic:
    """Random requests on every port, held until they are served; expects what it wrote."""

    def __init__(self, dut, target, seed, ultra_ram, weights_late):
        self.dut, self.target, self.ultra_ram = dut, target, ultra_ram
        self.weight_reads = collections.deque([(0, 0)] * weights_late)
        self.rng = random.Random(f"banks {target.name} {seed}")
        self.mask = (1 << 8 * target.channel_parallel) - 1
        self.store = {}  # (bank, word) -> value; banks are zero at start
        self.served = dict.fromkeys(
            ("load0", "load1", "save0", "save1", "misc_read", "misc_write", "conv"), 0
        )

    def word(self):
        return self.rng.getrandbits(8 * self.target.channel_parallel)

    def addr(self):
        return self.rng.choice([0, 1, 2, self.target.bank_depth - 1])

    def request(self, ctx):
        """Put new requests on the ports that are free."""
        t, rng, d = self.target, self.rng, self.dut
        for port, channel, banks in (
            (d.load0, 0, t.bank_count),
            (d.load1, 1, t.bank_count),
            (d.save0, 0, t.image_banks),
            (d.save1, 1, t.image_banks),
        ):
            if not ctx.get(port.valid) and rng.random() < 0.7:
                ctx.set(port.valid, 1)
                ctx.set(port.bank_id, rng.randrange(channel, banks, 2))
                ctx.set(port.addr, self.addr())
                if port in (d.load0, d.load1):
                    ctx.set(port.data, self.word())
        for port in (d.misc_read, d.misc_write):
            if not ctx.get(port.valid) and rng.random() < 0.6:
                ctx.set(port.valid, 1)
                ctx.set(port.group, rng.randrange(t.bank_groups))
                ctx.set(port.mask, rng.getrandbits(t.pixel_parallel))
                for b in range(t.pixel_parallel):
                    ctx.set(port.addr[b], self.addr())
                    if port is d.misc_write:
                        ctx.set(port.data[b], self.word())
        ctx.set(d.conv_read.en, rng.random() < 0.6)
        ctx.set(d.conv_read.group, rng.randrange(t.bank_groups))
        ctx.set(d.conv_read.turn, rng.randrange(2))
        ctx.set(d.conv_read.weight_addr, self.addr())
        ctx.set(d.conv_write.group, rng.randrange(t.bank_groups))
        ctx.set(d.conv_write.mask, rng.choice([0, rng.getrandbits(t.pixel_parallel)]))
        ctx.set(d.conv_write.far, rng.getrandbits(t.pixel_parallel))
        for b in range(t.pixel_parallel):
            ctx.set(d.conv_read.addr[b], self.addr())
            ctx.set(d.conv_write.addr[b], self.addr())
            ctx.set(d.conv_write.data[b], self.word())
        for port in (d.conv_bias, d.misc_bias, d.misc_weights):
            ctx.set(port.valid, rng.random() < 0.5)
            ctx.set(port.addr, self.addr())

    def cycle(self, ctx):
        """Note what this cycle does; return the checks for the next one, and the ports served."""
        t, d = self.target, self.dut
        reads, writes, served = [], [], []

        def get(bank, word):
            return self.store.get((bank, word), 0)

        def rows(port):
            group = ctx.get(port.group) * t.pixel_parallel
            mask = ctx.get(port.mask)
            return [
                (b, group + b, ctx.get(port.addr[b]))
                for b in range(t.pixel_parallel)
                if mask >> b & 1
            ]

        for name in ("load0", "load1"):
            port = getattr(d, name)
            if ctx.get(port.valid) and ctx.get(port.ready):
                writes.append((ctx.get(port.bank_id), ctx.get(port.addr), ctx.get(port.data)))
                served.append((name, port))
        for name in ("save0", "save1"):
            port = getattr(d, name)
            if ctx.get(port.valid) and ctx.get(port.ready):
                reads.append((port.data, get(ctx.get(port.bank_id), ctx.get(port.addr)), name))
                served.append((name, port))
        if ctx.get(d.misc_read.valid) and ctx.get(d.misc_read.ready):
            reads += [
                (d.misc_read.data[b], get(bank, word), "misc_read")
                for b, bank, word in rows(d.misc_read)
            ]
            served.append(("misc_read", d.misc_read))
        if ctx.get(d.misc_write.valid) and ctx.get(d.misc_write.ready):
            writes += [
                (bank, word, ctx.get(d.misc_write.data[b])) for b, bank, word in rows(d.misc_write)
            ]
            served.append(("misc_write", d.misc_write))
        half, far = t.pixel_parallel // 2, ctx.get(d.conv_write.far)
        writes += [
            (bank, word, ctx.get(d.conv_write.data[(b + (far >> b & 1) * half) % t.pixel_parallel]))
            for b, bank, word in rows(d.conv_write)
        ]
        if ctx.get(d.conv_read.en):
            group = ctx.get(d.conv_read.group) * t.pixel_parallel
            row = [get(group + b, ctx.get(d.conv_read.addr[b])) for b in range(t.pixel_parallel)]
            turn = ctx.get(d.conv_read.turn)
            reads += [
                (d.conv_read.data[b], word, "conv")
                for b, word in enumerate(row[turn:] + row[:turn])
            ]
            self.served["conv"] += 1
        for port, bank in (
            (d.conv_bias, t.bias_bank),
            (d.misc_bias, t.bias_bank),
            (d.misc_weights, t.dwconvw_bank),
        ):
            if ctx.get(port.valid) and ctx.get(port.ready):
                reads.append((port.data, get(bank, ctx.get(port.addr)), "parameter"))
        assert len({w[:2] for w in writes}) == len({w[0] for w in writes}) == len(writes), (
            "two writes of one bank in a cycle"
        )
        self.weight_reads.append((ctx.get(d.conv_read.en), ctx.get(d.conv_read.weight_addr)))
        enabled, word = self.weight_reads.popleft()
        weights = enabled * t.channel_parallel
        ultra = max(self.ultra_ram - t.convw_base, 0)
        reads += [
            (d.conv_read.weights[i], get(t.convw_base + i, word), "convw")
            for i in range(min(ultra, weights))
        ]
        for bank, at, value in writes:
            self.store[bank, at] = value & self.mask
        reads += [  # in block RAM a cycle later, to be there with the image
            (d.conv_read.weights[i], get(t.convw_base + i, word), "convw")
            for i in range(ultra, weights)
        ]
        return reads, served


@pytest.mark.parametrize(
    ("name", "ultra_ram", "weights_late"),
    [
        ("B64", 0, 0),
        ("B144", 0, 0),
        pytest.param("B64", 6, 0, marks=pytest.mark.slow),
        ("B64", 6, 3),
    ],
)
def test_random_traffic(name, ultra_ram, weights_late):
    """B64's banks below 4 have images, those from there on weights of CONV."""
    target = Target.from_name(name)
    dut = Banks(target, ultra_ram=ultra_ram, weights_late=weights_late)
    traffic = Traffic(dut, target, 0, ultra_ram, weights_late)

    async def bench(ctx):
        coming = collections.deque([[]] * (latency.BANK_READ - 1))
        for _ in range(600):
            traffic.request(ctx)
            reads, served = traffic.cycle(ctx)
            await ctx.tick()
            coming.append([read for read in reads if read[2] != "parameter"])
            for signal, expected, who in (
                *coming.popleft(),
                *(read for read in reads if read[2] == "parameter"),
            ):
                assert ctx.get(signal) == expected, who
            for who, port in served:
                traffic.served[who] += 1
                ctx.set(port.valid, 0)

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()
    assert min(traffic.served.values()) > 60, traffic.served
