# SPDX-License-Identifier: Apache-2.0
"""Sequencer: from start to END or fault, and back to idle with nothing left on the bus."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch.isa import Engine
from opendpu_arch.regs import Fault
from opendpu_hw.bus.axi4 import ADDRESS_WIDTH
from opendpu_hw.control.decode import decode_fault_shape
from opendpu_hw.shapes import fault_shape


class Sequencer(wiring.Component):
    """Run state of the DPU.

    A program ends when END is done and nothing waits or runs; tokens that are left then are a
    fault. After a fault everything is aborted, and the program ends when the buses are quiet and
    the queues empty.

    Members
    -------
    start : ``In(1)``
        Begin.
    decode_fault, engine_faults, finished : ``In``
        What went wrong, and instructions that ended, each of :attr:`FAULTING`.
    ended, blocked : ``In(1)``
        From the decoder.
    empty, stuck, tokens : ``In(1)``
        From the dispatcher.
    quiet : ``In(1)``
        Fetch and engines are idle.
    running, done : ``Out(1)``
        A program runs; pulse at its end.
    begin : ``Out(1)``
        Pulse: fetch and decode may start.
    abort : ``Out(1)``
        Engines and queues drop everything.
    stop_fetch : ``Out(1)``
        Fetch drops everything: END has been decoded, or all is aborted.
    status, fault_instruction, fault_addr : ``Out``
        For the registers; of the last program.
    """

    #: Cycles nothing may move before a wait counts as a deadlock.
    PATIENCE = 64
    #: Engines that can fail: those that have a bus. Of two faults in a cycle the later one counts.
    FAULTING = (Engine.LOAD, Engine.SAVE)

    def __init__(self):
        super().__init__({
            "start": In(1), "decode_fault": In(decode_fault_shape),
            "engine_faults": In(fault_shape).array(len(self.FAULTING)),
            "finished": In(1).array(len(self.FAULTING)),
            "ended": In(1), "blocked": In(1), "empty": In(1), "stuck": In(1), "tokens": In(1),
            "quiet": In(1),
            "running": Out(1), "done": Out(1), "begin": Out(1), "abort": Out(1, init=1),
            "stop_fetch": Out(1), "status": Out(32), "fault_instruction": Out(32),
            "fault_addr": Out(ADDRESS_WIDTH),
        })

    def elaborate(self, platform):
        m = Module()
        cause = Signal(8)
        engine = Signal(4)
        patience = Signal(range(self.PATIENCE + 1))
        m.d.comb += self.status.eq(Cat(cause, engine, cause != 0))
        fresh = Signal(init=1)              # a program begins, or the DPU
        failed = Signal()                   # in this cycle
        self._record(m, failed, fresh)

        def abort():
            m.d.sync += self.abort.eq(1)
            m.next = "Abort"

        def fail(why, *, who=0):
            m.d.comb += failed.eq(1)
            m.d.sync += [cause.eq(why), engine.eq(who)]
            abort()

        # What all engines get comes from registers.
        m.d.comb += self.stop_fetch.eq(self.abort | (self.ended & ~self.begin))
        m.d.sync += self.begin.eq(0)

        with m.FSM(init="Idle"):
            with m.State("Idle"):
                with m.If(self.start):
                    m.d.sync += [cause.eq(0), engine.eq(0), fresh.eq(1), self.running.eq(1)]
                    m.next = "Begin"
            with m.State("Begin"):
                with m.If(self.quiet & self.empty):
                    m.d.sync += [patience.eq(0), self.abort.eq(0), self.begin.eq(1)]
                    m.next = "Go"
            with m.State("Go"):
                m.next = "Run"
            with m.State("Run"):
                self._watch(m, patience, abort, fail)
            with m.State("Abort"):
                with m.If(self.quiet & self.empty):
                    m.d.comb += self.done.eq(1)
                    m.d.sync += self.running.eq(0)
                    m.next = "Idle"
        return m

    def _record(self, m, failed, fresh):
        """Keep which instruction failed and where; forgotten a cycle after ``fresh``."""
        ended = [Signal(32, name=f"ended_{e.name.lower()}", reset_less=True)
                 for e in self.FAULTING]
        valid = Cat(fault.valid for fault in self.engine_faults)
        number = self.decode_fault.number & (
            self.decode_fault.valid & ~valid.any()).replicate(32)
        addr = Const(0)
        for i, fault in enumerate(self.engine_faults):
            mine = fault.valid & ~valid[i + 1:].any()
            number = number | (ended[i] & mine.replicate(32))
            addr = addr | (fault.addr & mine.replicate(ADDRESS_WIDTH))
            with m.If(self.finished[i]):
                m.d.sync += ended[i].eq(ended[i] + 1)
        with m.If(failed):
            m.d.sync += [self.fault_instruction.eq(number), self.fault_addr.eq(addr)]
        # Cleared by a register of its own, as after reset.
        m.d.sync += fresh.eq(0)
        with m.If(fresh):
            m.d.sync += [
                *(count.eq(0) for count in ended), self.fault_instruction.eq(0),
                self.fault_addr.eq(0),
            ]

    def _watch(self, m, patience, abort, fail):
        """End a program after END, or when something is wrong; the last reason here counts."""
        with m.If(self.ended & self.empty):
            with m.If(self.tokens):
                fail(Fault.LEFTOVER_TOKEN)
            with m.Else():
                abort()
        with m.If(self.stuck & (self.ended | self.blocked)):
            m.d.sync += patience.eq(patience + 1)
            with m.If(patience == self.PATIENCE):
                fail(Fault.DEADLOCK)
        with m.Else():
            m.d.sync += patience.eq(0)
        with m.If(self.decode_fault.valid):
            fail(self.decode_fault.cause)
        for e, fault in zip(self.FAULTING, self.engine_faults, strict=True):
            with m.If(fault.valid):
                fail(fault.cause, who=e)
