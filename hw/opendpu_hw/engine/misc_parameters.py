# SPDX-License-Identifier: Apache-2.0
"""Weights and biases of the MISC engine, fetched ahead of the steps that use them."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_arch.extensions import Extension
from opendpu_hw.engine import misc_plan as plan
from opendpu_hw.engine.misc_weight_walk import WeightWalk
from opendpu_hw.memory.ports import BiasRead, ParameterRead
from opendpu_hw.memory.record_ram import record_bits

#: Steps whose weights the ring holds.
ENTRIES = 128
#: Width of a pointer into the ring, one more bit than an index.
POINTER_BITS = ceil_log2(ENTRIES) + 1
_BIASES = 4


class MiscParameters(wiring.Component):
    """A ring of weights, an entry a step, and a queue of biases, a word a channel group.

    Small kernels are fetched once a channel group and read again for every column; larger ones
    are fetched for every column.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Parallelism and memories.
    taps : :class:`int`
        Taps of a kernel column in a step, words of an entry.

    Members
    -------
    job : ``In(stream.Signature(fetch_shape))``
        What to fetch.
    weights, bias : ``Out(ParameterRead)``, ``Out(BiasRead)``
        The banks.
    loaded, freed : ``Out(POINTER_BITS)``, ``In(POINTER_BITS)``
        Entries filled and given back so far, modulo twice the ring.
    fetch, entry, words : ``In(1)``, ``In(POINTER_BITS)``, ``Out(ArrayLayout(CP * 8, taps))``
        ``words`` holds the entry from the cycle after ``fetch``.
    bias_loaded : ``Out(1)``
        Another channel group's biases are in the queue.
    bias_word, bias_taken : ``Out(CP * 8)``, ``In(1)``
        Biases at the head of the queue, a register. With the extension ``channel``,
        ``shift_word`` has what is in SHIFT at their address, with ``scaled`` ``record`` the
        record's number.
    """

    def __init__(self, target, *, taps):
        self._target, self._taps = target, taps
        self._channels = Extension.CHANNEL in target.extensions
        self._scaled = Extension.SCALED in target.extensions
        word = 8 * target.channel_parallel
        super().__init__({
            "job": In(stream.Signature(plan.fetch_shape(target))),
            "weights": Out(ParameterRead(target)), "bias": Out(BiasRead(target)),
            "loaded": Out(POINTER_BITS), "freed": In(POINTER_BITS),
            "fetch": In(1), "entry": In(POINTER_BITS),
            "words": Out(data.ArrayLayout(unsigned(word), taps)),
            "bias_loaded": Out(1), "bias_word": Out(word), "bias_taken": In(1),
            **({"shift_word": Out(word)} if self._channels else {}),
            **({"record": Out(record_bits(target))} if self._scaled else {}),
        })

    def elaborate(self, platform):
        m = Module()
        walk, bias_left = WeightWalk(self._target, taps=self._taps), Signal()
        # A cycle after the last bias, which is there long before the last weights.
        new, begin = self._next_job(m, walk.moves & walk.final & ~bias_left)
        room, got = self._places(m, walk)
        self._read_weights(m, walk, room)
        walk.advance(m, new, begin)
        self._ring(m, got)
        self._biases(m, bias_left, new, begin)
        return m

    def _next_job(self, m, done):
        """Keep a job that comes while another one is at work; return the next one.

        ``done``: nothing of the job at work is left. The second value returned is whether the next
        one begins.
        """
        free = Signal()
        begin = Signal()
        waits = Signal()                    # the next job
        m.d.comb += [
            self.job.ready.eq(~waits),
            free.eq(done),
            begin.eq(free & (waits | self.job.valid)),
        ]
        next_job = Signal.like(self.job.payload, name="next_job", reset_less=True)
        new = Signal.like(self.job.payload, name="new")
        m.d.comb += new.eq(Mux(waits, next_job, self.job.payload))
        with m.If(~waits):
            m.d.sync += next_job.eq(self.job.payload)
        m.d.sync += waits.eq(~free & (waits | self.job.valid))
        return new, begin

    def _places(self, m, walk):
        """Give each word that is read its place in the ring.

        Returns
        -------
        room : ``Signal()``
            There is room for another entry.
        got : namespace
            ``valid``: a word is there, read in the cycle before; ``entry`` and ``tap`` are its
            place, ``done`` means that it completes the entry.
        """
        writing = Signal(POINTER_BITS)
        used = Signal(POINTER_BITS)
        room = Signal(init=1)               # for an entry; one given back makes some a cycle later
        got = SimpleNamespace(
            valid=Signal(name="got"), done=Signal(name="got_done"),
            tap=Signal.like(walk.tap, name="got_tap"), entry=Signal(POINTER_BITS, name="got_entry"))
        m.d.comb += used.eq((writing - self.freed)[:POINTER_BITS])
        m.d.sync += [
            got.valid.eq(walk.go),
            room.eq(Mux(walk.go & walk.entry_done, used < ENTRIES - 1, used < ENTRIES)),
        ]
        with m.If(walk.go):
            m.d.sync += [got.done.eq(walk.entry_done), got.tap.eq(walk.tap), got.entry.eq(writing)]
            m.d.sync += walk.tap.eq(Mux(walk.entry_done, 0, walk.tap + 1))
            with m.If(walk.entry_done):
                m.d.sync += writing.eq(writing + 1)
        return room, got

    def _read_weights(self, m, walk, room):
        """Read the word at which the walk is, if there is room for it."""
        m.d.comb += [
            self.weights.valid.eq(walk.weights_left & room),
            self.weights.addr.eq(walk.at),
            walk.go.eq(self.weights.valid & self.weights.ready),
            walk.moves.eq(~walk.weights_left | (room & self.weights.ready)),
        ]
        walk.look(m)

    def _ring(self, m, got):
        """Write the words that are read into the ring; answer who fetches an entry.

        Words of an entry wait for the last one, so that the ring has one place for all of them and
        wastes no bits of block RAM. It is written a cycle after ``loaded`` counts the entry, and
        read later than that: the walk over the inputs takes some cycles to a step that uses it.
        """
        taps, word = self._taps, len(self.weights.data)
        with m.If(got.valid & got.done):
            m.d.sync += self.loaded.eq(self.loaded + 1)
        tap_words = [Signal(word, name=f"tap{t}", reset_less=True) for t in range(taps)]
        for t, tap_word in enumerate(tap_words):
            with m.If(got.valid & (got.tap == t)):
                m.d.sync += tap_word.eq(self.weights.data)
        complete = Signal()
        at_entry = Signal(POINTER_BITS - 1, reset_less=True)
        m.d.sync += [complete.eq(got.valid & got.done), at_entry.eq(got.entry)]
        m.submodules.ring = ring = Memory(shape=unsigned(taps * word), depth=ENTRIES, init=[])
        write = ring.write_port()
        read = ring.read_port()
        m.d.comb += [
            write.en.eq(complete), write.addr.eq(at_entry), write.data.eq(Cat(tap_words)),
            read.en.eq(self.fetch), read.addr.eq(self.entry[:POINTER_BITS - 1]),
            self.words.as_value().eq(read.data),
        ]

    def _biases(self, m, bias_left, new, begin):
        """Read a word of biases for each channel group of the job, and queue them.

        ``bias_left`` becomes whether another one is to be read. Behind the queue there is a
        register, which a word may reach at once: additions follow.
        """
        head, entry = self._bias_entry(m)
        m.submodules.biases = biases = fifo.SyncFIFO(width=len(head), depth=_BIASES - 1)
        head_valid = Signal()
        refill = Signal()
        bias_left_1 = Signal(8)             # after the next one
        bias_at = Signal.like(self.bias.addr, name="bias_at")
        bias_got = Signal()
        m.d.comb += [
            self.bias.valid.eq(bias_left & (biases.level + head_valid + bias_got < _BIASES)),
            self.bias.addr.eq(bias_at), self.bias_loaded.eq(bias_got),
            refill.eq(~head_valid | self.bias_taken),
            biases.w_en.eq(bias_got & ~(refill & ~biases.r_rdy)), biases.r_en.eq(refill),
            biases.w_data.eq(entry),
            *self._bias_outputs(head),
        ]
        with m.If(refill):
            m.d.sync += [
                head.eq(Mux(biases.r_rdy, biases.r_data, biases.w_data)),
                head_valid.eq(biases.r_rdy | bias_got),
            ]
        m.d.sync += bias_got.eq(self.bias.valid & self.bias.ready)
        with m.If(self.bias.valid & self.bias.ready):
            m.d.sync += [bias_at.eq(bias_at + 1), bias_left_1.eq(bias_left_1 - 1)]
            with m.If(bias_left_1 == 0):
                m.d.sync += bias_left.eq(0)
        with m.If(~bias_left):
            m.d.sync += [
                bias_left.eq(begin & new.bias), bias_at.eq(new.bias_addr),
                bias_left_1.eq(new.groups_1),
            ]

    def _bias_entry(self, m):
        """Return the register behind the queue of biases, and what comes into the queue."""
        entry = [self.bias.data, *([self.bias.shifts] if self._channels else [])]
        if self._scaled:
            got_record = Signal(record_bits(self._target), reset_less=True)
            m.d.sync += got_record.eq(self.bias.addr)
            entry.append(got_record)
        head = Signal(sum(map(len, entry)), name="head", reset_less=True)
        return head, Cat(entry) if len(entry) > 1 else self.bias.data

    def _bias_outputs(self, head):
        """Return statements that give out what is at the head of the queue of biases."""
        word = len(self.bias.data)
        return [
            self.bias_word.eq(head[:word]),
            *([self.shift_word.eq(head[word:2 * word])] if self._channels else []),
            *([self.record.eq(head[-len(self.record):])] if self._scaled else []),
        ]
