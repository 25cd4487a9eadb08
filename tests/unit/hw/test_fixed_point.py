# SPDX-License-Identifier: Apache-2.0
"""Results by multipliers, one a cycle, against the contract's arithmetic."""

import random

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

from opendpu_arch import numerics
from opendpu_arch.latency import FIXED_POINT
from opendpu_arch.scaled import Rounding
from opendpu_hw.datapath.fixed_point import FixedPoint

#: Stage in which each operand is asked for.
STAGES = {
    "sum": 0,
    "bias": 0,
    "multiplier": 2,
    "once": 3,
    "shift": 6,
    "zero": 8,
    "low": 9,
    "high": 9,
}


def case(rng, width):
    """Return operands of any size, of usual ones, or next to a tie."""
    shift = rng.choice((rng.randrange(32), rng.randrange(4, 14)))
    multiplier = rng.choice(
        (rng.randrange(1 << 31), rng.randrange(1 << 30, 1 << 31), 1 << 30, (1 << 31) - 1, 3 << 29)
    )
    bits = rng.randrange(1, width)
    total = rng.randrange(-(1 << bits), 1 << bits)
    if rng.random() < 0.5:
        odd = 2 * rng.randrange(-140, 140) + 1
        total = (odd << shift + 30) // max(multiplier, 1) + rng.randrange(-1, 2)
        total = max(-(1 << width - 1), min((1 << width - 1) - 1, total))
    bias = rng.choice((0, rng.randrange(-2000, 2000), rng.randrange(-(1 << 31), 1 << 31)))
    if rng.random() < 0.5:
        total = max(-(1 << width - 1), min((1 << width - 1) - 1, total - bias))
    low, high = rng.choice(
        ((-128, 127), (0, 127), (rng.randrange(-128, 128), rng.randrange(-128, 128)))
    )
    return {
        "sum": total,
        "bias": bias,
        "multiplier": multiplier,
        "shift": shift,
        "zero": rng.choice((0, rng.randrange(-128, 128))),
        "low": low,
        "high": high,
        "once": rng.randrange(2),
    }


def split(rng, dut, total):
    """Return the values that a sum comes as, by members."""
    if hasattr(dut, "second"):
        second = rng.randrange(2)
        others = [rng.randrange(-1000, 1000) for _ in dut.sum]
        return {"second": second, "sum": [*others[:second], total, *others[second + 1 :]]}
    at = rng.randrange(len(dut.sum))
    return {"sum": [total if n == at else 0 for n in range(len(dut.sum))]}


def results(cases, rng, **form):
    """Return what comes out for cases that come one a cycle."""
    m = Module()
    m.submodules.dut = dut = FixedPoint(**form)
    found = []

    async def feed(ctx):
        for number in range(len(cases) + FIXED_POINT):
            for name, stage in STAGES.items():
                if not 0 <= number - stage < len(cases):
                    continue
                value = cases[number - stage][name]
                if name != "sum":
                    ctx.set(getattr(dut, name), value)
                    continue
                given = split(rng, dut, value)
                for member, part in zip(dut.sum, given.pop("sum"), strict=True):
                    ctx.set(member, part)
                for member, part in given.items():
                    ctx.set(getattr(dut, member), part)
            await ctx.delay(1e-9)
            if number >= FIXED_POINT:
                found.append(ctx.get(dut.y))
            await ctx.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(feed)
    simulator.run()
    found.append(None)
    return found[:-1]


@pytest.mark.parametrize(
    "form",
    [{"width": 31}, {"width": 31, "halves": True}, {"width": 34, "parts": 3}],
    ids=["one", "halves", "parts"],
)
def test_results_are_those_of_the_contract(form):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    cases = [case(rng, form["width"]) for _ in range(4000)]
    expected = [
        int(
            numerics.requantize_scaled(
                np.array([c["sum"]]),
                np.array([c["bias"]]),
                np.array([c["multiplier"]]),
                np.array([c["shift"]]),
                zero=c["zero"],
                low=c["low"],
                high=c["high"],
                rounding=Rounding(c["once"]),
            )[0]
        )
        for c in cases
    ]
    found = results(cases, rng, **form)
    assert len(set(expected)) > 200
    assert found == expected[: len(found)]
    assert len(found) == len(cases)
