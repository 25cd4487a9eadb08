# SPDX-License-Identifier: Apache-2.0
"""Decode: words to instructions, each to its engine's queue."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import isa
from opendpu_arch.regs import Fault
from opendpu_hw.control.fetch import word_shape
from opendpu_hw.control.legality import Legality
from opendpu_hw.shapes import INSTRUCTION_WORDS, InstructionStream, instruction_shape

#: What stopped decoding: the cause, and the number of the instruction.
decode_fault_shape = data.StructLayout({"valid": 1, "cause": 8, "number": 32})


class Decode(wiring.Component):
    """Collect the words of an instruction, judge it, and hand it to its engine's queue.

    One word a cycle, and two cycles an instruction more; stops after END or a fault.

    Members
    -------
    words : ``In(stream.Signature(word_shape))``
        The program.
    out : ``Out(InstructionStream).array(4)``
        By :class:`opendpu_arch.isa.Engine`.
    start, stop : ``In(1)``
        A program begins; drop everything.
    ended : ``Out(1)``
        END has been handed on.
    blocked : ``Out(1)``
        An instruction waits for room in its queue.
    count : ``Out(32)``
        Instructions handed on.
    fault : ``Out(decode_fault_shape)``
    """

    def __init__(self, target):
        self._target = target
        super().__init__({
            "words": In(stream.Signature(word_shape)),
            "out": Out(InstructionStream).array(4),
            "start": In(1), "stop": In(1),
            "ended": Out(1), "blocked": Out(1), "count": Out(32),
            "fault": Out(decode_fault_shape),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.legality = legality = Legality(self._target)
        held = Signal(instruction_shape)
        at = Signal(range(INSTRUCTION_WORDS + 1))
        m.d.comb += [legality.words.eq(held), legality.clear.eq(self.start)]

        def by_opcode(opcode, value, width):
            result = Signal(width)
            with m.Switch(opcode):
                for number, instruction in isa.INSTRUCTIONS.items():
                    with m.Case(number):
                        m.d.comb += result.eq(value(instruction))
            return result

        incoming = self.words.payload
        words_incoming = by_opcode(incoming.data[28:32], lambda i: i.WORDS, 3)
        words_held = by_opcode(held[0][28:32], lambda i: i.WORDS, 3)
        engine = by_opcode(held[0][28:32], lambda i: i.ENGINE, 2)
        last = Signal()
        m.d.comb += last.eq(at + 1 == words_held)
        for e in range(4):
            m.d.comb += self.out[e].payload.eq(held)

        def fault(cause):
            m.d.sync += [self.fault.valid.eq(1), self.fault.cause.eq(cause),
                         self.fault.number.eq(self.count)]
            m.next = "Stopped"

        with m.FSM(init="Stopped"):
            with m.State("Stopped"):
                with m.If(self.start):
                    m.d.sync += [self.ended.eq(0), self.count.eq(0), self.fault.valid.eq(0)]
                    m.next = "First"
            with m.State("First"):
                m.d.comb += self.words.ready.eq(1)
                with m.If(self.words.valid):
                    m.d.sync += [held.eq(0), at.eq(1)]
                    m.d.sync += held[0].eq(incoming.data)
                    with m.If(incoming.error):
                        fault(Fault.FETCH_ERROR)
                    with m.Elif(words_incoming == 0):
                        fault(Fault.UNKNOWN_OPCODE)
                    with m.Elif(words_incoming == 1):
                        m.next = "Judge"
                    with m.Else():
                        m.next = "Rest"
                with m.If(self.stop):
                    m.next = "Stopped"
            with m.State("Rest"):
                m.d.comb += self.words.ready.eq(1)
                with m.If(self.words.valid):
                    m.d.sync += at.eq(at + 1)
                    for i in range(1, INSTRUCTION_WORDS):
                        with m.If(at == i):
                            m.d.sync += held[i].eq(incoming.data)
                    with m.If(incoming.error):
                        fault(Fault.FETCH_ERROR)
                    with m.Elif(last):
                        m.next = "Judge"
                with m.If(self.stop):
                    m.next = "Stopped"
            with m.State("Judge"):
                m.next = "Hand-On"
                with m.If(self.stop):
                    m.next = "Stopped"
            with m.State("Hand-On"):
                with m.If(~legality.legal):
                    fault(Fault.ILLEGAL_FIELD)
                with m.Else():
                    for e in range(4):
                        m.d.comb += self.out[e].valid.eq(engine == e)
                        with m.If((engine == e) & self.out[e].ready):
                            m.d.comb += legality.accept.eq(1)
                            m.d.sync += self.count.eq(self.count + 1)
                            m.next = "First"
                            with m.If(held[0][28:32] == isa.Opcode.END):
                                m.d.sync += self.ended.eq(1)
                                m.next = "Stopped"
                    m.d.comb += self.blocked.eq(~legality.accept)
                with m.If(self.stop):
                    m.next = "Stopped"
        return m
