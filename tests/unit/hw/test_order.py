# SPDX-License-Identifier: Apache-2.0
"""Completions come out once an instruction, in the order of acceptance."""

import collections
import random

import pytest
from amaranth_bench import simulate, tick

from opendpu_hw.engine.order import DoneOrder


def signals_of(dut):
    return {n: getattr(dut, n) for n in ("push", "completed", "done", "ready", "busy", "clear")}


@pytest.mark.parametrize("depth", [1, 2, 5, 8])
@pytest.mark.parametrize("seed", range(2))
def test_random_traffic(depth, seed):
    rng = random.Random(f"order {depth} {seed}")
    dut = DoneOrder(depth=depth)
    flight = collections.deque()  # immediate, number
    seen = collections.Counter()

    async def bench(ctx):
        signals = signals_of(dut)
        open_work, surplus = 0, 0  # pushed and not completed; completed and not done
        cleared = True
        for _ in range(900):
            ready = ctx.get(dut.ready)
            push = ready and rng.random() < 0.6
            immediate = rng.random() < 0.4
            completed = open_work > 0 and rng.random() < 0.4
            clear = rng.random() < 0.01
            ctx.set(dut.push, push)
            ctx.set(dut.immediate, immediate)
            ctx.set(dut.completed, completed)
            ctx.set(dut.clear, clear)
            s = await tick(ctx, signals)

            assert s["ready"] == (len(flight) < depth and not cleared)
            cleared = clear
            assert s["busy"] == any(not i for i in flight)
            expected = bool(flight) and (flight[0] or surplus + completed > 0)
            assert s["done"] == expected, (flight, surplus, completed)
            surplus += completed
            open_work -= completed
            if s["done"]:
                kind = flight.popleft()
                surplus -= not kind
                seen["immediate" if kind else "work"] += 1
            if push:
                flight.append(immediate)
                open_work += not immediate
            seen["full"] += not ready
            seen["early"] += surplus > 0
            if clear:
                flight.clear()
                open_work = surplus = 0
                seen["clear"] += 1

    simulate(dut, bench)
    assert seen["immediate"] > 50 and seen["work"] > 50 and seen["clear"], seen
    assert seen["full"] > 20, seen


def test_immediates_wait_for_what_is_before_them():
    dut = DoneOrder(depth=4)

    async def bench(ctx):
        signals = signals_of(dut)

        async def step(**values):
            for name in ("push", "immediate", "completed"):
                ctx.set(getattr(dut, name), values.get(name, 0))
            return (await tick(ctx, signals))["done"]

        assert not await step(push=1)
        for _ in range(2):
            assert not await step(push=1, immediate=1)
        assert not await step()
        assert await step(completed=1)  # in the same cycle
        assert await step()
        assert await step()
        for _ in range(3):
            assert not await step()

    simulate(dut, bench)


def test_completion_ahead_of_an_immediate_is_kept():
    """The second instruction finishes while an INIT before it is still the oldest."""
    dut = DoneOrder(depth=4)

    async def bench(ctx):
        signals = signals_of(dut)
        ctx.set(dut.push, 1)
        dones = []
        for immediate in (1, 0, 0):
            ctx.set(dut.immediate, immediate)
            dones.append((await tick(ctx, signals))["done"])
        ctx.set(dut.push, 0)
        for completed in (1, 1, 0, 0):
            ctx.set(dut.completed, completed)
            dones.append((await tick(ctx, signals))["done"])
        assert dones == [0, 1, 0, 1, 1, 0, 0]
        assert not ctx.get(dut.busy)

    simulate(dut, bench)
