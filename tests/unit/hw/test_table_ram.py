# SPDX-License-Identifier: Apache-2.0
"""One copy of the tables: look-ups while words are written."""

import random

from amaranth_bench import simulate, tick

from opendpu_arch import table
from opendpu_hw.memory.table_ram import TableRam


def test_look_ups_and_writes_at_once():
    rng = random.Random("table ram")
    dut = TableRam()
    content = [0] * (table.SLOTS * table.ENTRIES)
    looked_up = 0

    async def bench(ctx):
        nonlocal looked_up
        wanted = None
        hot = [rng.randrange(table.WORDS) for _ in range(8)]
        for _ in range(3000):
            write, en = rng.random() < 0.5, rng.random() < 0.7
            addr, value = rng.choice(hot), rng.getrandbits(32)
            word, low = rng.choice(hot), rng.randrange(4)
            slot, index = divmod(4 * word + low, table.ENTRIES)
            for signal, driven in (
                (dut.write.valid, write),
                (dut.write.addr, addr),
                (dut.write.data, value),
                (dut.en, en),
                (dut.table, slot + 1 if en else rng.getrandbits(4)),
                (dut.index, index),
            ):
                ctx.set(signal, driven)
            s = await tick(ctx, {"entry": dut.entry})
            assert wanted is None or s["entry"] == wanted
            if en:
                same = write and addr == word  # old or new, so nobody looks
                wanted = None if same else content[4 * word + low]
                looked_up += not same
            if write:
                content[4 * addr : 4 * addr + 4] = value.to_bytes(4, "little")

    simulate(dut, bench)
    assert looked_up > 1000
