# SPDX-License-Identifier: Apache-2.0
"""Decode: words to instructions, each to its engine's queue."""

from types import SimpleNamespace

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
        What stopped decoding, until the next start.
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
        gathered = SimpleNamespace(
            words=Signal(instruction_shape, name="gathered", reset_less=True),
            at=Signal(range(INSTRUCTION_WORDS + 1), name="at"),     # number of the next word
            last=Signal(name="last"))                               # that is its last one
        held = SimpleNamespace(
            words=Signal(instruction_shape, name="held", reset_less=True),
            valid=Signal(name="holding"),
            judging=Signal(latency.JUDGEMENT, name="judging"),      # bit n: for n + 1 cycles
            room=Signal(name="room"))                               # for another instruction
        m.d.comb += [legality.words.eq(held.words), legality.clear.eq(self.start)]
        words_incoming = _by_opcode(m, self.words.payload.data, lambda i: i.WORDS, 3)
        words_gathered = _by_opcode(m, gathered.words[0], lambda i: i.WORDS, 3)
        engine = _by_opcode(m, held.words[0], lambda i: i.ENGINE, 2)
        m.d.comb += gathered.last.eq(gathered.at + 1 == words_gathered)

        illegal, count = self._hand_on(m, legality, held, engine)
        stopped = Signal()
        m.d.comb += stopped.eq(self.stop | illegal)
        # Nothing is handed on after a fault: its number stays.
        m.d.comb += [self.count.eq(count), self.fault.number.eq(count)]
        with m.If(self.start):
            m.d.sync += count.eq(0)
        self._gather(m, gathered, words_incoming, held, stopped)
        with m.If(illegal):
            m.d.sync += [self.fault.valid.eq(1), self.fault.cause.eq(Fault.ILLEGAL_FIELD),
                         held.valid.eq(0)]
        with m.If(self.stop):
            m.d.sync += held.valid.eq(0)
        return m

    def _hand_on(self, m, legality, held, engine):
        """Hand on the instruction that is held, when it is judged.

        Return whether it is illegal, and how many have been handed on.
        """
        for e in range(4):
            m.d.comb += self.out[e].payload.eq(held.words)
        illegal = Signal()
        judged = held.judging[-1]
        m.d.comb += [
            illegal.eq(held.valid & judged & ~legality.legal),
            held.room.eq(~held.valid | legality.accept),
            self.blocked.eq(held.valid & judged & legality.legal & ~legality.accept),
        ]
        m.d.sync += held.judging.eq(Cat(held.valid, held.judging))
        with m.If(held.valid & judged & legality.legal):
            for e in range(4):
                m.d.comb += self.out[e].valid.eq(engine == e)
                with m.If((engine == e) & self.out[e].ready):
                    m.d.comb += legality.accept.eq(1)
        count = Signal(32, reset_less=True)
        with m.If(legality.accept):
            m.d.sync += [count.eq(count + 1), held.valid.eq(0), held.judging.eq(0)]
            with m.If(_opcode(held.words[0]) == isa.Opcode.END):
                m.d.sync += self.ended.eq(1)
        return illegal, count

    def _gather(self, m, gathered, words_incoming, held, stopped):
        """Take words of the program until END, a fault or ``stopped``."""
        cause = Signal(8)

        def bad(value):
            m.d.sync += cause.eq(value)
            m.next = "Bad"

        with m.FSM(init="Stopped"):
            with m.State("Stopped"):
                with m.If(self.start):
                    m.d.sync += [self.ended.eq(0), self.fault.valid.eq(0)]
                    m.next = "First"
            with m.State("First"):
                self._first_word(m, gathered, words_incoming, bad)
                with m.If(stopped):
                    m.next = "Stopped"
            with m.State("Rest"):
                self._further_word(m, gathered, held, bad)
                with m.If(stopped):
                    m.next = "Stopped"
            with m.State("Full"):
                with m.If(held.room):
                    self._hold(m, gathered, held)
                    m.next = "First"
                with m.If(stopped):
                    m.next = "Stopped"
            with m.State("Single"):
                # Only END has one word; nothing comes after it.
                with m.If(held.room):
                    self._hold(m, gathered, held)
                    m.next = "Stopped"
                with m.If(stopped):
                    m.next = "Stopped"
            with m.State("Bad"):
                # The fault of an instruction before this one comes first.
                with m.If(~held.valid):
                    m.d.sync += [self.fault.valid.eq(1), self.fault.cause.eq(cause)]
                    m.next = "Stopped"
                with m.If(stopped):
                    m.next = "Stopped"

    def _first_word(self, m, gathered, words_incoming, bad):
        """Take the first word of an instruction, which says how many there are."""
        words, incoming = gathered.words, self.words.payload
        m.d.comb += self.words.ready.eq(1)
        with m.If(self.words.valid):
            m.d.sync += [
                gathered.at.eq(1), words[0].eq(incoming.data),
                *(words[i].eq(0) for i in range(1, INSTRUCTION_WORDS)),
            ]
            with m.If(incoming.error):
                bad(Fault.FETCH_ERROR)
            with m.Elif(words_incoming == 0):
                bad(Fault.UNKNOWN_OPCODE)
            with m.Elif(words_incoming == 1):
                m.d.sync += gathered.at.eq(0)   # what comes is not its second word
                m.next = "Single"
            with m.Else():
                m.next = "Rest"

    def _further_word(self, m, gathered, held, bad):
        """Take another word of an instruction; whether there is room is known too late to wait."""
        incoming = self.words.payload
        m.d.comb += self.words.ready.eq(1)
        with m.If(self.words.valid):
            m.d.sync += gathered.at.eq(gathered.at + 1)
            for i in range(1, INSTRUCTION_WORDS):
                with m.If(gathered.at == i):
                    m.d.sync += gathered.words[i].eq(incoming.data)
            with m.If(incoming.error):
                bad(Fault.FETCH_ERROR)
            with m.Elif(gathered.last & held.room):
                self._hold(m, gathered, held)
                m.next = "First"
            with m.Elif(gathered.last):
                m.d.sync += gathered.at.eq(0)   # no other word is this instruction's
                m.next = "Full"

    def _hold(self, m, gathered, held):
        """Hold what is gathered, and the word that comes."""
        words = gathered.words
        m.d.sync += [
            held.valid.eq(1), held.judging.eq(0), held.words[0].eq(words[0]),
            *(held.words[i].eq(Mux(gathered.at == i, self.words.payload.data, words[i]))
              for i in range(1, INSTRUCTION_WORDS)),
        ]


def _opcode(word):
    """Return the opcode in the first word of an instruction."""
    return word[28:32]


def _by_opcode(m, word, value, width):
    """Return a number that depends on the opcode in a word; 0 for an unknown one."""
    result = Signal(width)
    with m.Switch(_opcode(word)):
        for number, instruction in isa.INSTRUCTIONS.items():
            with m.Case(number):
                m.d.comb += result.eq(value(instruction))
    return result
