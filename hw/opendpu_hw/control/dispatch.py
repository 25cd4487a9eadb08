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
        counters = {(p, c): Signal(self._TOKEN_BITS, name=f"tokens_{p.name}_{c.name}".lower())
                    for p in Engine for c in Engine if p != c}
        some = {key: Signal(name=f"some_{key[0].name}_{key[1].name}".lower()) for key in counters}
        give = {key: Signal(name=f"give_{key[0].name}_{key[1].name}".lower()) for key in counters}
        take = {key: Signal(name=f"take_{key[0].name}_{key[1].name}".lower()) for key in counters}
        waiting, flying, eligible = [], [], []
        for e in Engine:
            words = QUEUE_WORDS[e]
            # Only bits that mean something are kept; others are zero.
            kept = [slice(32 * n + low, 32 * n + high)
                    for n, runs in enumerate(used_bits(e)) for low, high in runs]
            given = self.i[e].payload.as_value()
            queue = BlockQueue(width=sum(bits.stop - bits.start for bits in kept), depth=self.DEPTH)
            after = BlockQueue(width=4, depth=self.IN_FLIGHT)
            m.submodules[f"queue_{e.name.lower()}"] = queue
            m.submodules[f"after_{e.name.lower()}"] = after
            # The first instruction has a register of its own: block RAM answers late in a cycle.
            head = Signal(32 * words, name=f"head_{e.name.lower()}", reset_less=True)
            there = Signal(name=f"there_{e.name.lower()}")
            fire = Signal(name=f"fire_{e.name.lower()}")
            have = Signal(name=f"have_tokens_{e.name.lower()}")
            late = Signal(range(self.IN_FLIGHT + 1), name=f"late_{e.name.lower()}")
            some_late = Signal(name=f"some_late_{e.name.lower()}")
            more, less = Signal(), Signal()     # late
            ended = Signal(name=f"ended_{e.name.lower()}")
            wants, gives = head[24:28], head[20:24]
            m.d.comb += [
                queue.i.payload.eq(Cat(given[bits] for bits in kept)),
                queue.i.valid.eq(self.i[e].valid & ~self.clear),
                self.i[e].ready.eq(queue.i.ready),
                have.eq(~Cat(wants[p] & ~some[p, e] for p in Engine if p != e).any()),
                self.o[e].payload.as_value().eq(head),
                self.o[e].valid.eq(there & have & after.i.ready & ~self.clear),
                fire.eq(self.o[e].valid & self.o[e].ready),
                queue.o.ready.eq(~there | fire | self.clear),
                after.i.payload.eq(gives), after.i.valid.eq(fire),
                # An INIT may be done before its entry has come through the queue: wait for it.
                ended.eq(after.o.valid & (self.done[e] | some_late)),
                more.eq(self.done[e] & ~after.o.valid),
                less.eq(~self.done[e] & after.o.valid & some_late),
                after.o.ready.eq(self.done[e] | some_late | self.clear),
                self.started[e].eq(fire), self.finished[e].eq(ended),
            ]
            m.d.sync += [late.eq(next_level(late, more, less)),
                         some_late.eq(more | late[1:].any() | (late[0] & ~less))]
            with m.If(queue.o.ready):
                m.d.sync += [Cat(head[bits] for bits in kept).eq(queue.o.payload),
                             there.eq(queue.o.valid & ~self.clear)]
            for other in Engine:
                if other != e:
                    m.d.comb += [
                        take[other, e].eq(fire & wants[other]),
                        give[e, other].eq(ended & after.o.payload[other]),
                    ]
            # not whether one is at the output: it takes a cycle from one end to the other
            waiting.append(queue.some | there)
            flying.append(after.some)
            eligible.append((queue.some & ~there) | (there & have))
            with m.If(self.clear):
                m.d.sync += [late.eq(0), some_late.eq(0)]
        for key, counter in counters.items():
            # tokens beyond the counter are lost, but it does not wrap to zero as if none were left
            room = ~counter.all()
            m.d.sync += [
                counter.eq(next_count(counter, give[key] & room, take[key])),
                some[key].eq(give[key] | (some[key] & ~(take[key] & (counter == 1)))),
            ]
            with m.If(self.clear):
                m.d.sync += [counter.eq(0), some[key].eq(0)]
        m.d.comb += [
            self.empty.eq(~Cat(waiting).any() & ~Cat(flying).any()),
            self.stuck.eq(Cat(waiting).any() & ~Cat(flying).any() & ~Cat(eligible).any()),
            self.tokens.eq(Cat(some.values()).any()),
        ]
        return m
