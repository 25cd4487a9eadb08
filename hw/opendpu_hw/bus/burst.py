# SPDX-License-Identifier: Apache-2.0
"""Strided byte ranges to AXI4 bursts, and the burst addresses in flight."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.bus.fields import FieldStream
from opendpu_hw.bus.level import next_level

#: Bytes of a beat are 2^BEAT_SHIFT.
BEAT_SHIFT = 4
#: Width of a beat's number in memory.
BEAT_WIDTH = 40 - BEAT_SHIFT
#: Most bursts a port has in flight, a power of two.
OUTSTANDING = 8

#: Rows in memory: ``rows`` more after the first, ``jump + 1`` bytes apart, ``bytes + 1`` long.
#: ``merged``: everything between the first byte and ``reach`` bytes after it is one range.
plan_fields = {"addr": 40, "bytes": 14, "rows": 10, "jump": 16, "merged": 1, "reach": 27}

#: A burst of ``len + 1`` beats; ``last`` of its plan.
burst_fields = {"beat": BEAT_WIDTH, "len": 4, "last": 1}


class BurstGenerator(wiring.Component):
    """Cut plans into bursts of at most 16 aligned beats that keep to one 4 KiB page.

    One burst a cycle, without gaps between rows and plans.

    Members
    -------
    i : ``In(FieldStream(plan_fields))``
        What to access.
    o : ``Out(FieldStream(burst_fields))``
        The bursts, in order of address in a row, rows in order.
    """

    i: In(FieldStream(plan_fields))
    o: Out(FieldStream(burst_fields))

    def elaborate(self, platform):
        m = Module()
        running = Signal()
        row = Signal(40)
        rows = Signal(10)
        jump = Signal(16)
        size = Signal(14)
        beat = Signal(BEAT_WIDTH)
        left = Signal(24)                   # beats of this row after the next one
        many = Signal()                     # sixteen or more
        last_row = Signal()

        page = Signal(4)                    # beats after the next one up to a multiple of 16
        far = Signal()                      # which is not the end of the page
        limit = Signal(4)
        length = Signal(4)
        beyond = Signal(25)                 # beats of this row after the next burst's, or negative
        row_end = Signal()
        free = Signal()                     # for a plan, once the burst is taken
        m.d.comb += [
            page.eq(~beat[:4]),
            limit.eq(Mux(far, 15, page)),
            beyond.eq(Cat(left, 0) + ~Cat(limit, 0).as_signed()),   # left - limit - 1
            row_end.eq(~many & (far | (left[:4] <= page))),         # the sign of `beyond`, sooner
            length.eq(Mux(row_end, left[:4], limit)),
            self.o.valid.eq(running),
            self.o.beat.eq(beat),
            self.o.len.eq(length),
            self.o.last.eq(row_end & last_row),
            free.eq(~running | self.o.last),
            self.i.ready.eq(free & (~running | self.o.ready)),
        ]
        next_row = Signal(40)
        m.d.comb += next_row.eq(row + jump + 1)
        # What is loaded does not depend on what is known late: whether a burst is taken, and
        # whether there is a plan.
        with m.If(~running | self.o.ready):
            with m.If(free):
                p = self.i
                extent = Mux(p.merged, p.reach, p.bytes)
                m.d.sync += [
                    last_row.eq(p.merged | (p.rows == 0)), many.eq(_many_beats(p.addr, extent)),
                    running.eq(p.valid), row.eq(p.addr), rows.eq(p.rows),
                    jump.eq(p.jump), size.eq(p.bytes), beat.eq(p.addr[BEAT_SHIFT:]),
                    far.eq(~p.addr[BEAT_SHIFT + 4:12].all()),
                    left.eq((p.addr[:BEAT_SHIFT] + extent) >> BEAT_SHIFT),
                ]
            with m.Elif(~row_end):
                # To the next page, or by 16: either way the upper bits count by one.
                m.d.sync += [
                    beat.eq(Cat(Mux(far, beat[:4], 0), beat[4:] + 1)),
                    far.eq(beat[4:8] != 14),
                    left.eq(beyond[:24]), many.eq(beyond[4:24].any()),
                ]
            with m.Else():
                m.d.sync += [
                    rows.eq(rows - 1), last_row.eq(rows == 1),
                    row.eq(next_row),
                    beat.eq(next_row[BEAT_SHIFT:]), far.eq(~next_row[BEAT_SHIFT + 4:12].all()),
                    left.eq((next_row[:BEAT_SHIFT] + size) >> BEAT_SHIFT),
                    many.eq(_many_beats(next_row, size)),
                ]
        return m


def _many_beats(addr, extent):
    """Whether the byte ``extent`` bytes after ``addr`` is sixteen beats or more after its beat.

    As (addr[:4] + extent) >> 8 != 0, without the carry through all bits.
    """
    carry = (addr[:BEAT_SHIFT] + extent[:BEAT_SHIFT])[BEAT_SHIFT]
    return extent[BEAT_SHIFT + 4:].any() | (extent[BEAT_SHIFT:BEAT_SHIFT + 4].all() & carry)


class BurstIssuer(wiring.Component):
    """Offer bursts on an address channel, and remember those that are not answered.

    Members
    -------
    i : ``In(FieldStream(burst_fields))``
        Bursts to issue; none is taken while ``stop`` is high or :data:`OUTSTANDING` are in flight.
    stop : ``In(1)``
        Take no further burst; one already offered stays.
    taken : ``Out(1)``
        The burst at ``i`` is being taken; it is offered from the next cycle on.
    addr, len, valid, ready
        The address channel.
    retire : ``In(1)``
        The oldest burst is answered.
    oldest_beat, oldest_last : ``Out``
        The oldest burst in flight.
    empty : ``Out(1)``
        Nothing is in flight.
    """

    i: In(FieldStream(burst_fields))
    stop: In(1)
    taken: Out(1)
    addr: Out(40)
    len: Out(8)
    valid: Out(1)
    ready: In(1)
    retire: In(1)
    oldest_beat: Out(BEAT_WIDTH)
    oldest_last: Out(1)
    empty: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.ring = ring = memory.Memory(
            shape=unsigned(BEAT_WIDTH + 1), depth=OUTSTANDING, init=[])
        put_port = ring.write_port()
        get_port = ring.read_port(domain="comb")
        put = Signal(range(OUTSTANDING))
        get = Signal(range(OUTSTANDING))
        count = Signal(range(OUTSTANDING + 1))
        m.d.comb += [
            self.i.ready.eq(~self.stop & ~count[-1] & (~self.valid | self.ready)),
            self.taken.eq(self.i.valid & self.i.ready),
            put_port.addr.eq(put), put_port.data.eq(Cat(self.i.beat, self.i.last)),
            put_port.en.eq(~count[-1]),     # in time, and written again until one is taken
            get_port.addr.eq(get), Cat(self.oldest_beat, self.oldest_last).eq(get_port.data),
            self.empty.eq(count == 0),
        ]
        with m.If(~self.valid | self.ready):
            m.d.sync += [
                self.addr.eq(Cat(Const(0, BEAT_SHIFT), self.i.beat)), self.len.eq(self.i.len),
                self.valid.eq(self.taken),
            ]
        with m.If(self.taken):
            m.d.sync += put.eq(put + 1)
        with m.If(self.retire):
            m.d.sync += get.eq(get + 1)
        m.d.sync += count.eq(next_level(count, self.taken, self.retire))
        return m
