# SPDX-License-Identifier: Apache-2.0
"""One engine by itself: instructions in, banks and memories around it, all stalling at random."""

import random

import cocotb
from cocotb.triggers import ClockCycles
from cocotbext.axi import (
    AxiRamRead,
    AxiRamWrite,
    AxiReadBus,
    AxiWriteBus,
)
from cocotbext.axi.sparse_memory import SparseMemory

from opendpu_arch import latency
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target
from opendpu_sim.progen import random_program
from opendpu_sim.tb.bank import BankResponder
from opendpu_sim.tb.clock import stalls, start
from opendpu_sim.tb.run import parameters_of
from opendpu_sim.tb.scoreboard import expectation
from opendpu_sim.tb.stream import InstructionSource

SPACE = 2**40
ENGINES = {"load": Engine.LOAD, "save": Engine.SAVE, "conv": Engine.CONV}
"""All other kinds of program are for MISC."""
PORTS = {
    Engine.LOAD: {"write0": "BankWrite", "write1": "BankWrite"},
    Engine.SAVE: {"read0": "BankRead", "read1": "BankRead"},
    Engine.CONV: {"read": "ConvRead", "write": "ConvWrite", "bias": "ParameterRead"},
    Engine.MISC: {
        "read": "RowRead",
        "write": "RowWrite",
        "weights": "ParameterRead",
        "bias": "ParameterRead",
    },
}


def attach_memory(dut, engine, memory, rng):
    """Put memory behind bus0 and bus1 of LOAD or SAVE."""
    for i in range(2):
        if engine == Engine.LOAD:
            bus = AxiReadBus.from_prefix(dut, f"bus{i}")
            ram = AxiRamRead(bus, dut.clk, dut.rst, size=SPACE, mem=memory)
            channels = [ram.ar_channel, ram.r_channel]
        else:
            bus = AxiWriteBus.from_prefix(dut, f"bus{i}")
            ram = AxiRamWrite(bus, dut.clk, dut.rst, size=SPACE, mem=memory)
            channels = [ram.aw_channel, ram.w_channel, ram.b_channel]
        for channel in channels:
            channel.set_pause_generator(stalls(random.Random(rng.random())))


@cocotb.test()
async def random_instructions(dut):
    given = parameters_of()
    target = Target.from_name(given["target"])
    engine = ENGINES.get(given["kind"], Engine.MISC)
    rng = random.Random(given["seed"])
    wanted = expectation(*random_program(given["kind"], target, given["seed"]), engine, target)
    banks = BankResponder(dut, target, wanted.words.copy(), rng)
    for prefix, kind in PORTS[engine].items():
        banks.attach(kind, prefix)
    memory = SparseMemory(SPACE)
    bases = {reg: (reg + 1) << 36 for reg in wanted.segments}
    if engine in (Engine.LOAD, Engine.SAVE):
        layout = 0
        for reg, content in wanted.segments.items():
            memory.write(bases[reg], content.tobytes())
            layout |= (bases[reg] | content.size << 40) << 72 * reg
        dut.segments.value = layout
        attach_memory(dut, engine, memory, rng)
    dut.insn_valid.value = 0
    dut.abort.value = 0
    await start(dut.clk, dut.rst, active=1, deadline=200_000)
    source = InstructionSource(dut, wanted.instructions, rng)
    await source.finished()
    # Everything is visible at the last `done`, or to whoever reads CONV_DONE cycles later, as the
    # other engines do at the earliest; and nothing comes after it.
    if engine == Engine.CONV:
        await ClockCycles(dut.clk, latency.CONV_DONE)
    at_done, writes = banks.words.copy(), banks.writes
    wanted.check(at_done, target.bank_depth)
    for reg, base in bases.items():
        if engine == Engine.SAVE:
            wanted.check_segment(reg, memory.read(base, wanted.segments[reg].size))
    await ClockCycles(dut.clk, 64)
    assert banks.writes == writes, f"{banks.writes - writes} words written after the last done"
    assert source.done == source.accepted == len(wanted.instructions)
    assert int(dut.busy.value) == 0, "busy after the last done"
