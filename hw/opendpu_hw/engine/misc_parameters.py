# SPDX-License-Identifier: Apache-2.0
"""Weights and biases of the MISC engine, fetched ahead of the steps that use them."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_arch.extensions import Extension
from opendpu_hw.engine import misc_plan as plan
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
        target, taps = self._target, self._taps
        a, word = plan.address_bits(target), 8 * target.channel_parallel

        p = Signal(plan.fetch_shape(target), reset_less=True)
        weights_left = Signal()
        bias_left = Signal()
        go = Signal()
        moves = Signal()                    # a word goes, or none is there: not behind `go`
        final = Signal()                    # no word is left, or only this one
        free = Signal()
        begin = Signal()
        waits = Signal()                    # the next job
        m.d.comb += [
            self.job.ready.eq(~waits),
            # A cycle after the last bias, which is there long before the last weights.
            free.eq(moves & final & ~bias_left),
            begin.eq(free & (waits | self.job.valid)),
        ]
        next_job = Signal.like(p, reset_less=True)
        new = Signal.like(p)
        new_left = new.kernel_h_1 - new.stride_h
        m.d.comb += new.eq(Mux(waits, next_job, self.job.payload))
        with m.If(~waits):
            m.d.sync += next_job.eq(self.job.payload)
        m.d.sync += waits.eq(~free & (waits | self.job.valid))

        # -- weights, in the order of the walk -----------------------------------------------------
        groups_left, columns_left, kernel_left = Signal(8), Signal(11), Signal(8)
        phase = Signal(8)
        # Compared a cycle before: whether this is the last one of its kind.
        last_group, last_column, last_kernel_w, last_phase = (
            Signal(reset_less=True, name=f"last_{name}")
            for name in ("group", "column", "kernel_w", "phase"))
        at_group, at_column, at_phase, at = (Signal(a, name=f"at{i}") for i in range(4))
        tap = Signal(range(max(taps, 2)))
        writing = Signal(POINTER_BITS)
        used = Signal(POINTER_BITS)
        room = Signal(init=1)               # for an entry; one given back makes some a cycle later
        last_row = Signal()
        # Rows from a word's to the last one that a tap may follow, from the top and from this word:
        # kept, because whether there are any goes far.
        rows_left, left = Signal(signed(11), reset_less=True), Signal(signed(11), reset_less=True)
        entry_done = Signal()
        m.d.comb += [
            used.eq((writing - self.freed)[:POINTER_BITS]),
            self.weights.valid.eq(weights_left & room),
            self.weights.addr.eq(at),
            go.eq(self.weights.valid & self.weights.ready),
            moves.eq(~weights_left | (room & self.weights.ready)),
            last_row.eq(left < 0),
            entry_done.eq(last_row | (tap == taps - 1) | p.wide),
            final.eq(~weights_left | (
                last_row & last_phase & last_kernel_w & last_column & last_group)),
        ]
        got = Signal()
        got_done = Signal()
        got_tap, got_entry = Signal.like(tap), Signal(POINTER_BITS)
        m.d.sync += [
            got.eq(go),
            room.eq(Mux(go & entry_done, used < ENTRIES - 1, used < ENTRIES)),
        ]
        with m.If(go):
            m.d.sync += [got_done.eq(entry_done), got_tap.eq(tap), got_entry.eq(writing)]
            m.d.sync += tap.eq(Mux(entry_done, 0, tap + 1))
            with m.If(entry_done):
                m.d.sync += writing.eq(writing + 1)
        # What is loaded does not depend on what is known late: whether the word is read, and
        # whether the next job begins.
        with m.If(moves):
            with m.If(final):
                m.d.sync += [
                    p.eq(new), rows_left.eq(new_left), left.eq(new_left),
                    weights_left.eq(begin & new.weights),
                    groups_left.eq(new.groups_1), last_group.eq(new.groups_1 == 0),
                    columns_left.eq(new.length_1),
                    last_column.eq(new.cached | (new.length_1 == 0)),
                    kernel_left.eq(new.kernel_w_1), last_kernel_w.eq(new.kernel_w_1 == 0),
                    phase.eq(0), last_phase.eq(new.phases_1 == 0), tap.eq(0),
                    at_group.eq(new.addr), at_column.eq(new.addr), at_phase.eq(new.addr),
                    at.eq(new.addr),
                ]
            with m.Elif(~last_row):
                m.d.sync += [left.eq(left - p.stride_h), at.eq((at + p.tap_stride)[:a])]
            with m.Elif(~last_phase):
                onward = (at_phase + p.tap_h)[:a]
                m.d.sync += [phase.eq(phase + 1), last_phase.eq(phase + 1 == p.phases_1),
                             left.eq(rows_left - phase - 1), at_phase.eq(onward), at.eq(onward)]
            with m.Else():
                m.d.sync += [phase.eq(0), last_phase.eq(p.phases_1 == 0), left.eq(rows_left)]
                with m.If(~last_kernel_w):
                    onward = (at_column + p.tap_w)[:a]
                    m.d.sync += [
                        kernel_left.eq(kernel_left - 1), last_kernel_w.eq(kernel_left == 1),
                        at_column.eq(onward), at_phase.eq(onward), at.eq(onward),
                    ]
                with m.Else():
                    m.d.sync += [kernel_left.eq(p.kernel_w_1),
                                 last_kernel_w.eq(p.kernel_w_1 == 0)]
                    onward = Signal(a)
                    m.d.sync += [at_column.eq(onward), at_phase.eq(onward), at.eq(onward)]
                    with m.If(~last_column):
                        m.d.comb += onward.eq(at_group)
                        m.d.sync += [columns_left.eq(columns_left - 1),
                                     last_column.eq(columns_left == 1)]
                    with m.Else():
                        m.d.comb += onward.eq(at_group + p.group_step)
                        m.d.sync += [
                            columns_left.eq(p.length_1),
                            last_column.eq(p.cached | (p.length_1 == 0)),
                            groups_left.eq(groups_left - 1), last_group.eq(groups_left == 1),
                            at_group.eq(onward),
                        ]
        with m.If(got & got_done):
            m.d.sync += self.loaded.eq(self.loaded + 1)
        # Words of an entry wait for the last one, so that the ring has one place for all of them
        # and wastes no bits of block RAM. It is written a cycle after `loaded` counts the entry,
        # and read later than that: the walk takes some cycles to a step that uses it.
        tap_words = [Signal(word, name=f"tap{t}", reset_less=True) for t in range(taps)]
        for t, tap_word in enumerate(tap_words):
            with m.If(got & (got_tap == t)):
                m.d.sync += tap_word.eq(self.weights.data)
        complete, at_entry = Signal(), Signal(POINTER_BITS - 1, reset_less=True)
        m.d.sync += [complete.eq(got & got_done), at_entry.eq(got_entry)]
        m.submodules.ring = ring = Memory(shape=unsigned(taps * word), depth=ENTRIES, init=[])
        write, read = ring.write_port(), ring.read_port()
        m.d.comb += [
            write.en.eq(complete), write.addr.eq(at_entry), write.data.eq(Cat(tap_words)),
            read.en.eq(self.fetch), read.addr.eq(self.entry[:POINTER_BITS - 1]),
            self.words.as_value().eq(read.data),
        ]

        # -- biases --------------------------------------------------------------------------------
        # Behind the queue a register, which a word may reach at once: additions follow.
        width = word * (1 + self._channels)
        entry = [self.bias.data, *([self.bias.shifts] if self._channels else [])]
        if self._scaled:
            got_record = Signal(record_bits(target), reset_less=True)
            m.d.sync += got_record.eq(self.bias.addr)
            entry.append(got_record)
            width += len(got_record)
        m.submodules.biases = biases = fifo.SyncFIFO(width=width, depth=_BIASES - 1)
        head_valid = Signal()
        head = Signal(width, reset_less=True)
        refill = Signal()
        bias_left_1 = Signal(8)             # after the next one
        bias_at = Signal(a)
        bias_got = Signal()
        m.d.comb += [
            self.bias.valid.eq(bias_left & (biases.level + head_valid + bias_got < _BIASES)),
            self.bias.addr.eq(bias_at), self.bias_loaded.eq(bias_got),
            refill.eq(~head_valid | self.bias_taken),
            biases.w_en.eq(bias_got & ~(refill & ~biases.r_rdy)), biases.r_en.eq(refill),
            biases.w_data.eq(Cat(entry) if len(entry) > 1 else self.bias.data),
            self.bias_word.eq(head[:word]),
            *([self.shift_word.eq(head[word:2 * word])] if self._channels else []),
            *([self.record.eq(head[-record_bits(target):])] if self._scaled else []),
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
        return m
