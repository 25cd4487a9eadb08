# SPDX-License-Identifier: Apache-2.0
"""From start to END or fault and back to idle, the parts around it played by the test."""

import random

import pytest
from amaranth_bench import simulate, tick

from opendpu_arch.isa import Engine
from opendpu_arch.regs import Fault
from opendpu_hw.control.sequencer import Sequencer


class Bench:
    """A sequencer whose surroundings are idle: quiet, empty, nothing wrong."""

    def __init__(self, ctx, dut):
        self.ctx, self.dut = ctx, dut
        names = ("running", "done", "begin", "abort", "stop_fetch", "status")
        self.signals = {n: getattr(dut, n) for n in names}
        self.signals |= {"instruction": dut.fault_instruction, "addr": dut.fault_addr}
        self.dones = self.begins = 0
        self.set(quiet=1, empty=1)

    def set(self, **values):
        for name, value in values.items():
            self.ctx.set(getattr(self.dut, name), value)

    async def step(self, count=1):
        for _ in range(count):
            s = await tick(self.ctx, self.signals)
            self.dones += s["done"]
            self.begins += s["begin"]
            if not s["running"]:
                assert s["abort"] and s["stop_fetch"] and not s["begin"]
        return s

    async def start(self):
        """Start, and go as far as the first cycle in which the program runs."""
        self.set(start=1)
        s = await self.step()
        assert not s["running"]
        self.set(start=0)
        assert (await self.step())["abort"]
        s = await self.step()
        assert s["begin"] and not s["abort"] and not s["stop_fetch"]

    async def expect_end(self, cause=Fault.NONE, engine=0, instruction=0, addr=0):
        """The program has ended or ends now, for this reason; exactly one ``done``."""
        before = self.dones
        for _ in range(3):
            s = await self.step()
        assert not s["running"] and self.dones == before + 1
        assert s["status"] == cause | engine << 8 | (cause != 0) << 12
        assert (s["instruction"], s["addr"]) == (instruction, addr)
        await self.step(5)
        assert self.dones == before + 1

    async def end(self):
        """End the program that runs."""
        self.set(ended=1)
        await self.expect_end()
        self.set(ended=0)


def run(bench):
    dut = Sequencer()

    async def testbench(ctx):
        await bench(Bench(ctx, dut))

    simulate(dut, testbench)


def test_runs_until_end_is_done():
    async def bench(b):
        await b.start()
        s = await b.step(3 * Sequencer.PATIENCE)  # nothing fetched yet: not a deadlock
        assert s["running"] and not s["abort"] and not s["stop_fetch"]
        b.set(empty=0)
        await b.step(5)
        b.set(ended=1)
        s = await b.step()
        assert s["stop_fetch"] and not s["abort"]  # what is in flight goes on
        s = await b.step(2 * Sequencer.PATIENCE)
        assert s["running"] and not b.dones
        b.set(empty=1)
        await b.expect_end()
        assert b.begins == 1

    run(bench)


def test_tokens_do_not_matter_before_the_end():
    async def bench(b):
        await b.start()
        b.set(empty=0, tokens=1)
        assert (await b.step(20))["running"]
        b.set(empty=1)  # all done so far; the decoder has more
        assert (await b.step(20))["running"]
        b.set(tokens=0)
        await b.end()

    run(bench)


def test_leftover_token():
    async def bench(b):
        await b.start()
        b.set(empty=0, tokens=1, ended=1)
        assert (await b.step(20))["running"]
        b.set(empty=1)
        await b.step()
        b.set(tokens=0, ended=0)  # cleared by the abort
        await b.expect_end(Fault.LEFTOVER_TOKEN)

    run(bench)


@pytest.mark.parametrize("why", ["ended", "blocked"])
def test_deadlock_needs_patience(why):
    async def bench(b):
        await b.start()
        b.set(empty=0, stuck=1)
        assert (await b.step(3 * Sequencer.PATIENCE))["running"]  # more may come
        b.set(**{why: 1})
        for _ in range(3):
            await b.step(Sequencer.PATIENCE)
            b.set(stuck=0)  # something moved: counting begins again
            await b.step()
            b.set(stuck=1)
        s = await b.step(Sequencer.PATIENCE + 1)
        assert not s["abort"]
        s = await b.step()
        assert s["abort"] and s["stop_fetch"]
        b.set(stuck=0, empty=1, **{why: 0})
        await b.expect_end(Fault.DEADLOCK)

    run(bench)


@pytest.mark.parametrize("cause", [Fault.UNKNOWN_OPCODE, Fault.ILLEGAL_FIELD, Fault.FETCH_ERROR])
def test_decoder_fault(cause):
    async def bench(b):
        await b.start()
        b.set(empty=0, tokens=1)
        await b.step(7)
        b.set(decode_fault={"valid": 1, "cause": cause, "number": 0x89ABCDEF})
        await b.step()
        b.set(empty=1, tokens=0)
        await b.expect_end(cause, instruction=0x89ABCDEF)
        b.set(decode_fault={"valid": 0, "cause": cause, "number": 0x89ABCDEF})
        await b.start()  # the next program finds no trace of it
        await b.end()

    run(bench)


@pytest.mark.parametrize("engine", Sequencer.FAULTING)
@pytest.mark.parametrize("seed", range(2))
def test_engine_fault_counts_its_own_instructions(engine, seed):
    rng = random.Random(f"engine fault {engine} {seed}")

    async def bench(b):
        for _ in range(2):  # counts start anew with each program
            await b.start()
            b.set(empty=0)
            ended = 0
            for _ in range(rng.randint(0, 30)):
                pulses = [rng.getrandbits(1) for _ in Sequencer.FAULTING]
                for e in Sequencer.FAULTING:
                    b.ctx.set(b.dut.finished[e], pulses[e])
                ended += pulses[engine]
                await b.step()
            for e in Sequencer.FAULTING:
                b.ctx.set(b.dut.finished[e], 0)
            addr, cause = rng.getrandbits(40), rng.randint(1, 255)
            fault = b.dut.engine_faults[engine]
            b.ctx.set(fault, {"valid": 1, "cause": cause, "addr": addr})
            s = await b.step()
            assert not s["abort"]
            b.ctx.set(fault, {"valid": 0, "cause": 0, "addr": 0})
            b.set(empty=1)
            await b.expect_end(cause, engine, ended, addr)

    run(bench)


def test_a_fault_in_the_cycle_of_the_end_is_not_lost():
    async def bench(b):
        await b.start()
        b.set(ended=1)
        b.ctx.set(b.dut.engine_faults[Engine.SAVE], {"valid": 1, "cause": 5, "addr": 16})
        await b.step()
        b.ctx.set(b.dut.engine_faults[Engine.SAVE], {"valid": 0, "cause": 0, "addr": 0})
        b.set(ended=0)
        await b.expect_end(Fault.SAVE_BUS_ERROR, Engine.SAVE, 0, 16)

    run(bench)


@pytest.mark.parametrize("late", ["quiet", "empty"])
def test_aborts_until_buses_are_quiet_and_queues_empty(late):
    async def bench(b):
        await b.start()
        b.set(quiet=0, empty=0)
        b.ctx.set(b.dut.engine_faults[Engine.LOAD], {"valid": 1, "cause": 4, "addr": 0x123})
        await b.step()
        b.set(quiet=1, empty=1)
        b.set(**{late: 0})
        s = await b.step(200)
        assert s["abort"] and s["stop_fetch"] and s["running"] and not b.dones
        # what an engine still reports while it is aborted changes nothing
        b.ctx.set(b.dut.engine_faults[Engine.LOAD], {"valid": 1, "cause": 6, "addr": 0x456})
        await b.step(3)
        b.ctx.set(b.dut.engine_faults[Engine.LOAD], {"valid": 0, "cause": 0, "addr": 0})
        b.set(**{late: 1})
        await b.expect_end(Fault.LOAD_BUS_ERROR, Engine.LOAD, 0, 0x123)

    run(bench)


@pytest.mark.parametrize("late", ["quiet", "empty"])
def test_begins_only_when_nothing_of_the_last_program_is_left(late):
    async def bench(b):
        b.set(start=1, **{late: 0})
        await b.step()
        b.set(start=0)
        s = await b.step(50)
        assert s["running"] and s["abort"] and not b.begins
        b.set(**{late: 1})
        await b.step(2)
        assert b.begins == 1
        await b.end()

    run(bench)


def test_start_while_running_is_ignored():
    async def bench(b):
        await b.start()
        b.set(start=1)
        await b.step(10)
        b.set(start=0)
        assert b.begins == 1
        b.set(decode_fault={"valid": 1, "cause": Fault.ILLEGAL_FIELD, "number": 3}, quiet=0)
        await b.step(2)
        b.set(start=1)  # also while it aborts
        await b.step(10)
        b.set(start=0, quiet=1)
        await b.expect_end(Fault.ILLEGAL_FIELD, instruction=3)
        assert b.begins == 1

    run(bench)


def test_the_next_program_clears_the_status():
    async def bench(b):
        await b.start()
        b.ctx.set(b.dut.engine_faults[Engine.SAVE], {"valid": 1, "cause": 7, "addr": 99})
        await b.step()
        b.ctx.set(b.dut.engine_faults[Engine.SAVE], {"valid": 0, "cause": 0, "addr": 0})
        await b.expect_end(Fault.SAVE_ADDRESS, Engine.SAVE, 0, 99)
        await b.start()
        s = await b.step()
        assert (s["status"], s["instruction"], s["addr"]) == (0, 0, 0)
        await b.end()
        assert b.dones == b.begins == 2

    run(bench)
