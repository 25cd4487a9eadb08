# SPDX-License-Identifier: Apache-2.0
"""CONV's write-back: which row of a column goes where, for every stride and place."""

import itertools

import pytest
from amaranth.sim import Simulator

from opendpu_arch import latency
from opendpu_arch.target import Target
from opendpu_hw.engine.conv_writer import ConvWriter

JUMP_WRITE, JUMP_ENDL, BASE = 7, 300, 11


def payload(target, *, stride, offset, bank, last_row, columns):
    """Return what the planner makes of a CONV, row by row."""
    banks = target.pixel_parallel
    first = offset // stride
    places = {(bank + q) % banks: q for q in range(first, first + banks)}
    return {
        "length": columns - 1, "stride_out": stride - 1, "last_row": last_row,
        "bank_addr_out": BASE, "jump_write": JUMP_WRITE, "jump_write_endl": JUMP_ENDL,
        "wrap_jump": JUMP_ENDL * stride % target.bank_depth,
        "first_row": [stride * places[b] - offset for b in range(banks)],
        "wraps": [(bank + places[b]) // banks for b in range(banks)],
    }  # fmt: skip


def expected(target, *, stride, offset, bank, last_row, columns):
    """Return what is written: row by bank and address."""
    written = {}
    for column in range(columns):
        for row in range(last_row + 1):
            q, within = divmod(offset + row, stride)
            wraps, place = divmod(bank + q, target.pixel_parallel)
            address = BASE + column * JUMP_WRITE + (wraps * stride + within) * JUMP_ENDL
            written[place, address % target.bank_depth] = (column, row)
    return written


def written(target, cases):
    """Return, for each CONV, what the writer writes: column and row by bank and address."""
    dut = ConvWriter(target)
    found = []

    async def bench(ctx):
        for case in cases:
            here = {}
            ctx.set(dut.payload, payload(target, **case))
            ctx.set(dut.push, 1)
            await ctx.tick()
            ctx.set(dut.push, 0)
            await ctx.tick().repeat(4)
            for column in range(case["columns"]):
                for lane in range(target.output_channel_parallel):
                    for row in range(target.pixel_parallel):
                        value = (column * 16 + row + lane * 31) % 256 - 128
                        ctx.set(dut.results[row][lane], value)
                for n in range(latency.CONV_WRITE + case["stride"] + 2):
                    ctx.set(dut.column, 1 << n if n < latency.CONV_WRITE else 0)
                    await ctx.tick()
                    for b in range(target.pixel_parallel):
                        if ctx.get(dut.write.mask) >> b & 1:
                            far = ctx.get(dut.write.far) >> b & 1
                            source = (b + far * target.pixel_parallel // 2) % target.pixel_parallel
                            word = ctx.get(dut.write.data[source])
                            lanes = word.to_bytes(target.channel_parallel, "little", signed=False)
                            steps = {(v - w) % 256 for w, v in itertools.pairwise(lanes)}
                            assert steps == {31}, "lanes of one row"
                            place = b, ctx.get(dut.write.addr[b])
                            assert place not in here, (case, place)
                            here[place] = divmod((lanes[0] + 128) % 256, 16)
            found.append(here)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found


@pytest.mark.parametrize("name", ["B64", "B1024"])
def test_every_row_comes_to_its_bank(name):
    target = Target.from_name(name)
    banks = target.pixel_parallel
    cases = [
        {"stride": stride, "offset": offset, "bank": bank, "last_row": last_row, "columns": 2}
        for stride in (1, 2, 3, 4, 7, 16)
        for offset in {0, min(stride, 8) // 2, min(stride, 8) - 1}
        for bank, last_row in ((0, banks - 1), (banks - 1, banks - 1), (1, banks // 2))
    ]
    for case, found in zip(cases, written(target, cases), strict=True):
        assert found == expected(target, **case), case
