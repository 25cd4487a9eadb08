# SPDX-License-Identifier: Apache-2.0
"""The parts of LOAD and SAVE on their own: ports, queues, bursts, byte shifts, argmax."""

import random

import pytest
from amaranth.hdl import Fragment, Module, Signal
from amaranth.sim import Simulator

from opendpu_hw.bus.axi4 import Axi4Signature, read_signature, write_signature
from opendpu_hw.bus.burst import BurstGenerator
from opendpu_hw.bus.fields import FieldQueue
from opendpu_hw.bus.packer import Packer
from opendpu_hw.datapath.argmax import Argmax
from opendpu_hw.datapath.bytes import masks, pieces, shift_down


def simulate(dut, script, *, clock=True):
    """Run a coroutine of a context to its end."""
    simulator = Simulator(dut)
    if clock:
        simulator.add_clock(1e-6)
    simulator.add_testbench(script)
    simulator.run()


def test_axi4_members():
    """Names and widths are those of the pins."""
    read, write = read_signature(32).members, write_signature(128).members
    assert {"araddr", "arvalid", "rdata", "rready"} <= set(read)
    assert not any(n.startswith(("aw", "w", "b")) for n in read)
    assert not any(n.startswith("ar") for n in write)
    assert read["rdata"].shape == 32 and read["araddr"].shape == 40
    assert write["wdata"].shape == 128 and write["wstrb"].shape == 16


def test_axi4_refusals():
    """Widths AXI4 does not have, and ports that are none."""
    with pytest.raises(ValueError, match="data width is 48, but must be"):
        Axi4Signature(data_width=48)
    with pytest.raises(ValueError, match="neither read nor write"):
        Axi4Signature(data_width=32, read=False, write=False)


def test_queue_keeps_order():
    """What goes in comes out, in order, and no more than the depth goes in."""
    rng = random.Random(3)
    fields = {"a": 40, "b": 30, "c": 128, "d": 1}
    dut = FieldQueue(fields, depth=4)
    sent, received = [], []

    async def script(ctx):
        for _ in range(400):
            item = [rng.getrandbits(w) for w in fields.values()]
            for name, value in zip(fields, item, strict=True):
                ctx.set(getattr(dut.i, name), value)
            ctx.set(dut.i.valid, rng.random() < 0.6)
            ctx.set(dut.o.ready, rng.random() < 0.5)
            if ctx.get(dut.i.valid) and ctx.get(dut.i.ready):
                sent.append(item)
            if ctx.get(dut.o.valid) and ctx.get(dut.o.ready):
                received.append([ctx.get(getattr(dut.o, n)) for n in fields])
            await ctx.tick()
            assert ctx.get(dut.level) == len(sent) - len(received) <= 4
        ctx.set(dut.clear, 1)
        await ctx.tick()
        assert ctx.get(dut.level) == 0 and not ctx.get(dut.o.valid)

    simulate(dut, script)
    assert len(received) > 100 and received == sent[: len(received)]


def test_queue_refusal():
    """Pointers wrap by themselves."""
    with pytest.raises(ValueError, match="depth is 6, but must be a power of two"):
        Fragment.get(FieldQueue({"a": 1}, depth=6), None)


def test_bursts_cover_rows():
    """Bursts hold every byte of every row once, in order, inside of pages."""
    rng = random.Random(4)
    dut = BurstGenerator()

    async def script(ctx):
        ctx.set(dut.o.ready, 1)
        for _ in range(60):
            rows, size = rng.randint(1, 6), rng.choice((1, 16, rng.randint(1, 6000)))
            jump, addr = rng.randint(1, 9000), rng.getrandbits(34)
            merged = rng.random() < 0.3
            reach = (rows - 1) * jump + size - 1
            spans = [(addr + i * jump, addr + i * jump + size - 1) for i in range(rows)]
            expected = [
                beat
                for low, high in ([(addr, addr + reach)] if merged else spans)
                for beat in range(low // 16, high // 16 + 1)
            ]
            plan = {"addr": addr, "rows": rows - 1, "jump": jump - 1, "bytes": size - 1}
            for name, value in (plan | {"merged": merged, "reach": reach, "valid": 1}).items():
                ctx.set(getattr(dut.i, name), value)
            await ctx.tick()
            ctx.set(dut.i.valid, 0)
            got = []
            last = 0
            while not last:
                assert ctx.get(dut.o.valid), "bursts end before the plan"
                beat, beats = ctx.get(dut.o.beat), ctx.get(dut.o.len) + 1
                assert beat // 256 == (beat + beats - 1) // 256
                got += range(beat, beat + beats)
                last = ctx.get(dut.o.last)
                await ctx.tick()
            assert got == expected
            assert not ctx.get(dut.o.valid)

    simulate(dut, script)


@pytest.mark.parametrize(("parts", "count"), [(8, 4), (8, 2), (4, 4)])
def test_shift_down(parts, count):
    """Any byte of a beat can be the first; a rotation where nothing lies beyond."""
    rng = random.Random(5)
    m = Module()
    source, amount, result = Signal(32 * parts), Signal(4), Signal(32 * count)
    for i, piece in enumerate(shift_down(m, pieces(source, parts), amount, count, name="t")):
        m.d.comb += result[32 * i : 32 * i + 32].eq(piece)

    async def script(ctx):
        for n in range(16):
            data = rng.randbytes(4 * parts)
            ctx.set(source, int.from_bytes(data, "little"))
            ctx.set(amount, n)
            expected = (data + data)[n : n + 4 * count]
            assert ctx.get(result).to_bytes(4 * count, "little") == expected

    simulate(m, script, clock=False)


def test_masks():
    """Thermometers of bytes."""
    m = Module()
    count = Signal(5)
    low, high = masks(m, count, 2, name="t")

    async def script(ctx):
        for n in range(32):
            ctx.set(count, n)
            assert ctx.get(low) | ctx.get(high) << 64 == (1 << 8 * min(n, 16)) - 1

    simulate(m, script, clock=False)


@pytest.mark.parametrize("lanes", [4, 6, 16])
def test_argmax_first_of_equals(lanes):
    """Ties go to the lowest index, also between words; the extremes of int8 count."""
    rng = random.Random(6)
    dut = Argmax(lanes=lanes, info=3)
    found = []

    async def script(ctx):
        ctx.set(dut.o.ready, 1)
        expected = []
        for number in range(60):
            values = rng.choices((-128, 127, -1, 0, rng.randint(-128, 127)), k=rng.randint(1, 50))
            if number < 4:
                values = [-128] * (number * 7 + 1)
            expected.append((values.index(max(values)), max(values) & 0xFF, number % 8))
            for at in range(0, len(values), lanes):
                part = values[at : at + lanes]
                junk = [127] * (lanes - len(part))
                ctx.set(dut.i.data, int.from_bytes(bytes(v & 0xFF for v in part + junk), "little"))
                ctx.set(dut.i.count, len(part))
                ctx.set(dut.i.first, at == 0)
                ctx.set(dut.i.last, at + lanes >= len(values))
                ctx.set(dut.i.info, number % 8)
                ctx.set(dut.i.valid, 1)
                if ctx.get(dut.o.valid):
                    found.append((ctx.get(dut.o.index), ctx.get(dut.o.value), ctx.get(dut.o.info)))
                await ctx.tick()
            ctx.set(dut.i.valid, 0)
        for _ in range(Argmax.LATENCY):
            if ctx.get(dut.o.valid):
                found.append((ctx.get(dut.o.index), ctx.get(dut.o.value), ctx.get(dut.o.info)))
            await ctx.tick()
        assert found == expected and not ctx.get(dut.busy)

    simulate(dut, script)


def test_packer_refusal():
    """A run is at most a beat."""
    with pytest.raises(ValueError, match="lanes is 17, but must be in"):
        Fragment.get(Packer(lanes=17), None)
