# SPDX-License-Identifier: Apache-2.0
"""Instructions into an engine, and what it says about them."""

import random
from collections.abc import Sequence
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from opendpu_arch import isa
from opendpu_hw.shapes import INSTRUCTION_WORDS
from opendpu_sim.tb.clock import stalls


class InstructionSource:
    """Gives instructions to ``insn`` of an engine, with random pauses, and counts ``done``."""

    def __init__(
        self, dut: Any, instructions: Sequence[isa.Instruction], rng: random.Random
    ) -> None:
        self._dut = dut
        self._instructions = instructions
        self._pause = stalls(rng)
        self.accepted = 0
        self.done = 0
        dut.insn_valid.value = 0
        dut.abort.value = 0
        cocotb.start_soon(self._feed())
        cocotb.start_soon(self._count())

    async def finished(self) -> None:
        """Wait until every instruction is done; fail when one is done that was not given."""
        while self.done < len(self._instructions):
            await RisingEdge(self._dut.clk)

    async def _feed(self) -> None:
        dut = self._dut
        for instruction in self._instructions:
            while next(self._pause):
                await RisingEdge(dut.clk)
            words = instruction.encode()
            payload = sum(word << 32 * i for i, word in enumerate(words[:INSTRUCTION_WORDS]))
            dut.insn_payload.value = payload
            dut.insn_valid.value = 1
            await RisingEdge(dut.clk)
            while not int(dut.insn_ready.value):
                await RisingEdge(dut.clk)
            self.accepted += 1
            dut.insn_valid.value = 0

    async def _count(self) -> None:
        dut = self._dut
        reports = hasattr(dut, "fault")  # LOAD and SAVE meet a bus, the others nothing that fails
        while True:
            await RisingEdge(dut.clk)
            if reports:
                fault = int(dut.fault.value)
                assert not fault & 1, f"the engine reports fault {fault >> 1 & 0xFF}"
            if int(dut.done.value):
                self.done += 1
                assert self.done <= self.accepted + 1, "done for an instruction not yet given"
