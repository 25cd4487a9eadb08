# SPDX-License-Identifier: Apache-2.0
"""Decode: words to instructions, each to its engine's queue."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import isa, latency
from opendpu_arch.regs import Fault
from opendpu_hw.control.fetch import word_shape
from opendpu_hw.control.legality import Legality
from opendpu_hw.shapes import INSTRUCTION_WORDS, InstructionStream, instruction_shape

#: What stopped decoding: the cause, and the number of the instruction.
decode_fault_shape = data.StructLayout({"valid": 1, "cause": 8, "number": 32})


class Decode(wiring.Component):
    """Collect the words of an instruction, judge it, and hand it to its engine's queue.

    One word a cycle; an instruction is handed on :data:`opendpu_arch.latency.JUDGEMENT` + 1 cycles
    after its last word, while words of the next one come. Stops after END or a fault.

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
        # Words that have come of the next instruction, others zero; what is judged and handed on.
        gathered = Signal(instruction_shape, reset_less=True)
        held = Signal(instruction_shape, reset_less=True)
        at = Signal(range(INSTRUCTION_WORDS + 1))
        count = Signal(32, reset_less=True)
        holding = Signal()
        judging = Signal(latency.JUDGEMENT)         # bit n: for n + 1 cycles
        judged = judging[-1]
        room = Signal()                             # for an instruction in ``held``
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
        words_gathered = by_opcode(gathered[0][28:32], lambda i: i.WORDS, 3)
        engine = by_opcode(held[0][28:32], lambda i: i.ENGINE, 2)
        last = Signal()
        m.d.comb += last.eq(at + 1 == words_gathered)
        for e in range(4):
            m.d.comb += self.out[e].payload.eq(held)

        # -- judge, hand on -----------------------------------------------------------------------
        illegal = Signal()
        m.d.comb += [
            illegal.eq(holding & judged & ~legality.legal),
            room.eq(~holding | legality.accept),
            self.blocked.eq(holding & judged & legality.legal & ~legality.accept),
        ]
        m.d.sync += judging.eq(Cat(holding, judging))
        with m.If(holding & judged & legality.legal):
            for e in range(4):
                m.d.comb += self.out[e].valid.eq(engine == e)
                with m.If((engine == e) & self.out[e].ready):
                    m.d.comb += legality.accept.eq(1)
        with m.If(legality.accept):
            m.d.sync += [count.eq(count + 1), holding.eq(0), judging.eq(0)]
            with m.If(held[0][28:32] == isa.Opcode.END):
                m.d.sync += self.ended.eq(1)

        # -- gather -------------------------------------------------------------------------------
        cause = Signal(8)
        stopped = Signal()
        m.d.comb += stopped.eq(self.stop | illegal)

        # Nothing is handed on after a fault: its number stays.
        m.d.comb += [self.count.eq(count), self.fault.number.eq(count)]
        with m.If(self.start):
            m.d.sync += count.eq(0)

        def hold():
            """Hold what is gathered, and the word that comes."""
            m.d.sync += [
                holding.eq(1), judging.eq(0), held[0].eq(gathered[0]),
                *(held[i].eq(Mux(at == i, incoming.data, gathered[i]))
                  for i in range(1, INSTRUCTION_WORDS)),
            ]

        def bad(value):
            m.d.sync += cause.eq(value)
            m.next = "Bad"

        with m.FSM(init="Stopped"):
            with m.State("Stopped"):
                with m.If(self.start):
                    m.d.sync += [self.ended.eq(0), self.fault.valid.eq(0)]
                    m.next = "First"
            with m.State("First"):
                m.d.comb += self.words.ready.eq(1)
                with m.If(self.words.valid):
                    m.d.sync += [
                        at.eq(1), gathered[0].eq(incoming.data),
                        *(gathered[i].eq(0) for i in range(1, INSTRUCTION_WORDS)),
                    ]
                    with m.If(incoming.error):
                        bad(Fault.FETCH_ERROR)
                    with m.Elif(words_incoming == 0):
                        bad(Fault.UNKNOWN_OPCODE)
                    with m.Elif(words_incoming == 1):
                        m.d.sync += at.eq(0)            # what comes is not its second word
                        m.next = "Single"
                    with m.Else():
                        m.next = "Rest"
                with m.If(stopped):
                    m.next = "Stopped"
            with m.State("Rest"):
                # Whether there is room is known too late to hold back a word.
                m.d.comb += self.words.ready.eq(1)
                with m.If(self.words.valid):
                    m.d.sync += at.eq(at + 1)
                    for i in range(1, INSTRUCTION_WORDS):
                        with m.If(at == i):
                            m.d.sync += gathered[i].eq(incoming.data)
                    with m.If(incoming.error):
                        bad(Fault.FETCH_ERROR)
                    with m.Elif(last & room):
                        hold()
                        m.next = "First"
                    with m.Elif(last):
                        m.d.sync += at.eq(0)            # no other word is this instruction's
                        m.next = "Full"
                with m.If(stopped):
                    m.next = "Stopped"
            with m.State("Full"):
                with m.If(room):
                    hold()
                    m.next = "First"
                with m.If(stopped):
                    m.next = "Stopped"
            with m.State("Single"):
                # Only END has one word; nothing comes after it.
                with m.If(room):
                    hold()
                    m.next = "Stopped"
                with m.If(stopped):
                    m.next = "Stopped"
            with m.State("Bad"):
                # The fault of an instruction before this one comes first.
                with m.If(~holding):
                    m.d.sync += [self.fault.valid.eq(1), self.fault.cause.eq(cause)]
                    m.next = "Stopped"
                with m.If(stopped):
                    m.next = "Stopped"
        with m.If(illegal):
            m.d.sync += [self.fault.valid.eq(1), self.fault.cause.eq(Fault.ILLEGAL_FIELD),
                         holding.eq(0)]
        with m.If(self.stop):
            m.d.sync += holding.eq(0)
        return m
