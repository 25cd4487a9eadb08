# SPDX-License-Identifier: Apache-2.0
"""Clock, reset and deadline of a bench."""

import random
from collections.abc import Iterator
from typing import Any, NoReturn

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

PERIOD_NS = 10


async def start(clock: Any, reset: Any, *, active: int, deadline: int) -> None:
    """Start the clock, reset the DUT, and fail the bench after ``deadline`` cycles."""
    reset.value = active
    Clock(clock, PERIOD_NS, unit="ns").start()
    await ClockCycles(clock, 5)
    reset.value = 1 - active
    await RisingEdge(clock)
    cocotb.start_soon(_deadline(clock, deadline))


async def _deadline(clock: Any, cycles: int) -> NoReturn:
    await ClockCycles(clock, cycles)
    raise AssertionError(f"the bench is not done after {cycles} cycles")


def stalls(rng: random.Random) -> Iterator[bool]:
    """Yield for ever whether to stall in a cycle; the rate changes now and then."""
    while True:
        rate = rng.choice((0.0, 0.0, 0.1, 0.5, 0.9))
        for _ in range(rng.randrange(16, 128)):
            yield rng.random() < rate
