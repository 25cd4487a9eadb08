# SPDX-License-Identifier: Apache-2.0
"""Dispatch: four in-order queues and the tokens between them."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import isa
from opendpu_arch.isa import Engine
from opendpu_hw.bus.block_queue import BlockQueue
from opendpu_hw.bus.level import next_count, next_level
from opendpu_hw.shapes import InstructionStream

#: Words of the longest instruction of each queue.
QUEUE_WORDS = {
    engine: max(i.WORDS for i in isa.INSTRUCTIONS.values() if engine == i.ENGINE)
    for engine in Engine}


def used_bits(engine):
    """Return which bits of each word the engine's instructions have, as (low, high) of runs.

    Opcode and tokens are theirs; all other bits are not kept.
    """
    words = [0] * QUEUE_WORDS[engine]
    words[0] = 0xFFF0_0000
    for instruction in isa.INSTRUCTIONS.values():
        if engine == instruction.ENGINE:
            for n, claimed in enumerate(instruction.claimed()):
                words[n] |= claimed
    return [_runs(word) for word in words]


def _runs(word):
    """Return the runs of ones in a word, each (low, high), ``high`` not included."""
    edges = [i for i in range(33) if (word >> i & 1) != (word << 1 >> i & 1)]
    return list(zip(edges[::2], edges[1::2], strict=True))


class Dispatch(wiring.Component):
    """Hold instructions until their tokens have come, then give them to their engine.

    A program whose tokens are given before (in program order) they are needed never blocks, however
    long it is; one that relies on more than :attr:`DEPTH` instructions of look-ahead may.

    Members
    -------
    i : ``In(InstructionStream).array(4)``
        Decoded instructions, by :class:`Engine`.
    o : ``Out(InstructionStream).array(4)``
        To the engines.
    done : ``In(1).array(4)``
        An instruction of the engine has finished.
    clear : ``In(1)``
        Empty all queues and counters; takes until ``empty``.
    started, finished : ``Out(1).array(4)``
        Pulses, for the counters.
    empty : ``Out(1)``
        Nothing waits and nothing is in flight.
    stuck : ``Out(1)``
        Something waits, nothing is in flight, and no queue's first instruction has its tokens.
    tokens : ``Out(1)``
        Some counter is not zero.
    """

    #: Instructions a queue holds, the first one not counted.
    DEPTH = 64
    #: Cycles from an instruction's entry into an empty queue to its offer.
    LATENCY = 3
    #: Instructions an engine may have in flight.
    IN_FLIGHT = 64

    _TOKEN_BITS = 12

    def __init__(self):
        super().__init__({
            "i": In(InstructionStream).array(4), "o": Out(InstructionStream).array(4),
            "done": In(1).array(4), "clear": In(1),
            "started": Out(1).array(4), "finished": Out(1).array(4),
            "empty": Out(1), "stuck": Out(1), "tokens": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        tokens = _Tokens(self._TOKEN_BITS)
        waiting, flying, eligible = zip(
            *(self._queue(m, e, tokens) for e in Engine), strict=True)
        tokens.count(m, self.clear)
        m.d.comb += [
            self.empty.eq(~Cat(waiting).any() & ~Cat(flying).any()),
            self.stuck.eq(Cat(waiting).any() & ~Cat(flying).any() & ~Cat(eligible).any()),
            self.tokens.eq(Cat(tokens.some.values()).any()),
        ]
        return m

    def _queue(self, m, e, tokens):
        """Build the queue of an engine.

        Return whether an instruction waits in it, whether one is in flight, and whether the first
        one that waits may have its tokens.
        """
        name = e.name.lower()
        # Only bits that mean something are kept; others are zero.
        kept = [slice(32 * n + low, 32 * n + high)
                for n, runs in enumerate(used_bits(e)) for low, high in runs]
        given = self.i[e].payload.as_value()
        queue = BlockQueue(width=sum(bits.stop - bits.start for bits in kept), depth=self.DEPTH)
        after = BlockQueue(width=4, depth=self.IN_FLIGHT)
        m.submodules[f"queue_{name}"] = queue
        m.submodules[f"after_{name}"] = after
        # The first instruction has a register of its own: block RAM answers late in a cycle.
        head = Signal(32 * QUEUE_WORDS[e], name=f"head_{name}", reset_less=True)
        there = Signal(name=f"there_{name}")
        fire = Signal(name=f"fire_{name}")
        have = Signal(name=f"have_tokens_{name}")
        wants, gives = head[24:28], head[20:24]
        m.d.comb += [
            queue.i.payload.eq(Cat(given[bits] for bits in kept)),
            queue.i.valid.eq(self.i[e].valid & ~self.clear),
            self.i[e].ready.eq(queue.i.ready),
            have.eq(~Cat(wants[p] & ~tokens.some[p, e] for p in Engine if p != e).any()),
            self.o[e].payload.as_value().eq(head),
            self.o[e].valid.eq(there & have & after.i.ready & ~self.clear),
            fire.eq(self.o[e].valid & self.o[e].ready),
            queue.o.ready.eq(~there | fire | self.clear),
            after.i.payload.eq(gives), after.i.valid.eq(fire),
        ]
        ended = self._end(m, e, after)
        m.d.comb += [self.started[e].eq(fire), self.finished[e].eq(ended)]
        with m.If(queue.o.ready):
            m.d.sync += [Cat(head[bits] for bits in kept).eq(queue.o.payload),
                         there.eq(queue.o.valid & ~self.clear)]
        for other in Engine:
            if other != e:
                m.d.comb += [
                    tokens.take[other, e].eq(fire & wants[other]),
                    tokens.give[e, other].eq(ended & after.o.payload[other]),
                ]
        # not whether one is at the output: it takes a cycle from one end to the other
        return queue.some | there, after.some, (queue.some & ~there) | (there & have)

    def _end(self, m, e, after):
        """Take an instruction in flight that is done; return whether there is one.

        An INIT may be done before its entry has come through the queue ``after``: wait for it.
        """
        name = e.name.lower()
        late = Signal(range(self.IN_FLIGHT + 1), name=f"late_{name}")
        some_late = Signal(name=f"some_late_{name}")
        more = Signal(name=f"more_late_{name}")
        less = Signal(name=f"less_late_{name}")
        ended = Signal(name=f"ended_{name}")
        m.d.comb += [
            ended.eq(after.o.valid & (self.done[e] | some_late)),
            more.eq(self.done[e] & ~after.o.valid),
            less.eq(~self.done[e] & after.o.valid & some_late),
            after.o.ready.eq(self.done[e] | some_late | self.clear),
        ]
        m.d.sync += [late.eq(next_level(late, more, less)),
                     some_late.eq(more | late[1:].any() | (late[0] & ~less))]
        with m.If(self.clear):
            m.d.sync += [late.eq(0), some_late.eq(0)]
        return ended


class _Tokens:
    """Counters of the tokens from one engine for another, by both.

    Attributes
    ----------
    some : dict of ``Signal()``
        There is one.
    give, take : dict of ``Signal()``
        Another one comes; one is taken.
    """

    def __init__(self, bits):
        pairs = [(p, c) for p in Engine for c in Engine if p != c]

        def signals(name, width=1):
            return {(p, c): Signal(width, name=f"{name}_{p.name}_{c.name}".lower())
                    for p, c in pairs}

        self._counters = signals("tokens", bits)
        self.some, self.give, self.take = signals("some"), signals("give"), signals("take")

    def count(self, m, clear):
        """Count tokens; none are left after ``clear``.

        Those beyond the counter are lost, but it does not wrap to zero as if none were left.
        """
        for key, counter in self._counters.items():
            give, take, some = self.give[key], self.take[key], self.some[key]
            room = ~counter.all()
            m.d.sync += [
                counter.eq(next_count(counter, give & room, take)),
                some.eq(give | (some & ~(take & (counter == 1)))),
            ]
            with m.If(clear):
                m.d.sync += [counter.eq(0), some.eq(0)]
