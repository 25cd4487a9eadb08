# SPDX-License-Identifier: Apache-2.0
"""One bank: both ports at once, data held, writes seen from the next cycle on."""

import random

import pytest
from amaranth_bench import simulate, tick

from opendpu_hw.memory.bank import Bank
from opendpu_hw.memory.ultra_bank import UltraBank


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.parametrize("second_port", [True, False])
@pytest.mark.parametrize("depth", [2, 13, 64])
def test_random_accesses(second_port, depth, registered):
    check(
        Bank(depth=depth, width=24, second_port=second_port, registered=registered),
        random.Random(f"bank {second_port} {depth} {registered}"),
        depth=depth, second_port=second_port, registered=registered,
    )  # fmt: skip


@pytest.mark.parametrize("depth", [2, 13, 64])
def test_random_accesses_of_ultra_ram(depth):
    rng = random.Random(f"ultra bank {depth}")
    check(UltraBank(depth=depth, width=24), rng, depth=depth, registered=True, holds=True)


def check(dut, rng, *, depth, registered, second_port=True, holds=False):
    """Compare a bank with a list of words; with ``holds`` a write leaves port B's answer alone."""
    words = [0] * depth

    async def bench(ctx):
        expected = {"a_data": None, "b_data": None}  # until the first read
        before = dict(expected)
        signals = {n: getattr(dut, n) for n in expected}
        collisions = 0
        for _ in range(800):
            a_en, b_en, b_write = (rng.getrandbits(1) for _ in range(3))
            b_en |= b_write
            a_addr, b_addr = rng.randrange(depth), rng.randrange(depth)
            value = rng.getrandbits(24)
            for name, driven in (
                ("a_en", a_en),
                ("a_addr", a_addr),
                ("b_en", b_en),
                ("b_write", b_write),
                ("b_addr", b_addr),
                ("b_wdata", value),
            ):
                ctx.set(getattr(dut, name), driven)
            s = await tick(ctx, signals)
            for name, wanted in (before if registered else expected).items():
                assert wanted is None or s[name] == wanted, name
            before = dict(expected)
            if a_en:
                expected["a_data"] = words[a_addr]
                collisions += b_write and a_addr == b_addr
            # a write answers with the word before it, or not at all
            if b_en and second_port and not (holds and b_write):
                expected["b_data"] = words[b_addr]
            if b_write:
                words[b_addr] = value
        assert collisions  # a read of the word that is being written gives the old one

    simulate(dut, bench)
    assert any(words)
