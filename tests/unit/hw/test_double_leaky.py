# SPDX-License-Identifier: Apache-2.0
"""Bias and LEAKYRELU of four pixels at twice the clock against integers, and in a DSP48E2."""

import random

from amaranth.back import verilog
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator
from blocks import compare, ports_of

from opendpu_hw.datapath.double_leaky import BIASED_WIDTH, DoubleRateLeaky
from opendpu_hw.datapath.leaky_block import FACTOR
from opendpu_hw.double_rate import DOMAIN

PERIOD = 1e-6
CYCLES = 400


def wanted(total, offset, leaky):
    """Return what a sum becomes, and whether that is negative."""
    biased = 2 * total + offset
    return (FACTOR if leaky and biased < 0 else 1) * biased, int(biased < 0)


def columns(rng, count):
    """Return pauses, sums of four pixels in the order of their turns, offsets and activations."""
    made = []
    for _ in range(count):
        bits = rng.randrange(1, 31)
        sums = [
            rng.choice([rng.randrange(-(1 << bits), 1 << bits), -(1 << 30), (1 << 30) - 1])
            for _ in range(4)
        ]
        offset = rng.randrange(-(1 << 31), 1 << 31)
        if any(not -(1 << 31) <= 2 * s + offset < 1 << 31 for s in sums):
            offset = 0
        made.append((rng.choice([0, 0, 0, 1, 3]), sums, offset, rng.random() < 0.7))
    return made


def results(made):
    """Return what comes out for each column: (product, negative) of four pixels."""
    m = Module()
    m.submodules.dut = dut = DoubleRateLeaky()
    turns = Signal(5)
    start = Signal()
    m.d.sync += turns.eq(turns << 1 | start)
    column = [start, *turns]
    m.d.comb += [dut.stage[n].eq(column[n] | column[n + 1]) for n in range(3)]
    m.d.comb += dut.second_turn.eq(column[1])
    found = []

    async def feed(ctx):
        async def half(pixels=(0, 0)):
            ctx.set(dut.even, pixels[0]), ctx.set(dut.odd, pixels[1])
            await ctx.tick(DOMAIN)

        await half()  # the first edges of both clocks come together
        for pause, sums, offset, leaky in [(2, None, 0, 0), *made, (8, None, 0, 0)]:
            for _ in range(pause):
                await half()
                await half()
            if sums is None:
                continue
            ctx.set(start, 1), ctx.set(dut.offset, offset), ctx.set(dut.leaky, leaky)
            await half((sums[0], sums[2]))
            await half((sums[1], sums[3]))
            ctx.set(start, 0)
            await half()
            await half()

    async def watch(ctx):
        """Signs in stage 2, products in stage 3, both when the cycle ends."""
        signs = []
        while True:
            _, _, ended, *values = await ctx.tick().sample(turns, *dut.negative, *dut.product)
            for n in range(2):
                if ended >> n + 2 & 1:
                    found.append(list(zip(values[2:], signs.pop(0), strict=True)))
                if ended >> n + 1 & 1:
                    signs.append(values[:2])

    simulator = Simulator(m)
    simulator.add_clock(PERIOD)
    simulator.add_clock(PERIOD / 2, phase=PERIOD / 2, domain=DOMAIN)
    simulator.add_testbench(feed)
    simulator.add_testbench(watch, background=True)
    simulator.run()
    return found


def test_products_are_those_of_plain_integers(rng):
    made = columns(random.Random(int(rng.integers(1 << 32))), 200)
    expected = []
    for _, sums, offset, leaky in made:
        pixels = [wanted(total, offset, leaky) for total in sums]
        expected += [pixels[:2], pixels[2:]]
    assert results(made) == expected


def test_the_block_makes_what_plain_registers_do(tmp_path):
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    texts = {
        form: verilog.convert(
            DoubleRateLeaky(vendor=vendor), name=form, emit_src=False, strip_internal_attrs=True
        )
        for form, vendor in (("plain", None), ("blocks", "xilinx"))
    }
    ports = ports_of(texts["plain"], "plain")
    del ports["dpu_2x_clk"], ports["dpu_2x_rst"]
    drawn = [
        {
            "rst": int(n < 2), "stage": 7 if n < 20 else rng.randrange(8),
            "second_turn": rng.randrange(2), "leaky": rng.randrange(2),
            "even": rng.getrandbits(31), "odd": rng.choice([1 << 30, (1 << 30) - 1]),
            "offset": rng.choice([0, 1 << BIASED_WIDTH - 1, rng.getrandbits(BIASED_WIDTH)]),
        }
        for n in range(CYCLES)
    ]  # fmt: skip
    assert compare(texts, ports, [{k: v for k, v in one.items() if k in ports} for one in drawn],
                   tmp_path, f"seed {seed}") > CYCLES  # fmt: skip
