# SPDX-License-Identifier: Apache-2.0
"""Proofs about the bus and queues: bursts, addresses in flight, entries in order."""

from amaranth.hdl import Assert, Assume, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from proof import check

from opendpu_hw.bus import burst, fields, level
from opendpu_hw.bus.fields import FieldStream


class BurstsKeepToAPage(wiring.Component):
    """No burst crosses 4 KiB, whatever is asked for: 256 beats of 16 bytes."""

    i: In(FieldStream(burst.plan_fields))
    ready: In(1)

    def __init__(self, module):
        self._module = module
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self._module.BurstGenerator()
        wiring.connect(m, wiring.flipped(self.i), dut.i)
        m.d.comb += [
            dut.o.ready.eq(self.ready),
            Assert(~dut.o.valid | (dut.o.beat[:8] + dut.o.len <= 255)),
        ]
        return m


def test_bursts_keep_to_a_page():
    faults = [
        ("limit.eq(Mux(far, 15, page))", "limit.eq(15)"),
        ("page.eq(~beat[:4])", "page.eq(~beat[:4] + 1)"),
        ("far.eq(beat[4:8] != 14)", "far.eq(beat[4:8] != 15)"),
        ("far.eq(~p.addr[BEAT_SHIFT + 4:12].all())", "far.eq(1)"),
    ]
    check(BurstsKeepToAPage, burst, faults, induction=2)


class RowsAreCovered(wiring.Component):
    """The bursts of a plan follow each other, and end with the beat of its last byte."""

    address: In(40)
    reach: In(10)
    ready: In(1)

    def __init__(self, module):
        self._module = module
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self._module.BurstGenerator()
        begun, ended = Signal(), Signal()
        expected = Signal(burst.BEAT_WIDTH)
        last = Signal(burst.BEAT_WIDTH)
        m.d.comb += [
            dut.i.valid.eq(~begun), dut.i.addr.eq(self.address), dut.i.merged.eq(1),
            dut.i.reach.eq(self.reach), dut.o.ready.eq(self.ready),
            Assert(~begun | dut.o.valid | ended),
            Assert(~(ended & dut.o.valid)),
        ]  # fmt: skip
        m.d.sync += begun.eq(1)
        with m.If(~begun):
            m.d.sync += [
                expected.eq(self.address[4:]), last.eq((self.address + self.reach)[4:40]),
            ]  # fmt: skip
        with m.If(dut.o.valid):
            end = (dut.o.beat + dut.o.len)[: burst.BEAT_WIDTH]
            m.d.comb += [Assert(dut.o.beat == expected), Assert(dut.o.last == (end == last))]
            with m.If(self.ready):
                m.d.sync += [expected.eq(end + 1), ended.eq(dut.o.last)]
        return m


def test_a_plan_is_covered_exactly():
    faults = [
        ("left.eq(beyond[:24])", "left.eq(beyond[:24] + 1)"),
        ("far | (left[:4] <= page)", "far | (left[:4] < page)"),
        ("extent[BEAT_SHIFT:BEAT_SHIFT + 4].all() & carry", "0"),
        ("many.eq(beyond[4:24].any())", "many.eq(0)"),
    ]
    check(RowsAreCovered, burst, faults, cycles=6)


class AddressesHold(wiring.Component):
    """A burst that is taken is offered, until it is taken on; 8 at most are in flight."""

    i: In(FieldStream(burst.burst_fields))
    ready: In(1)
    retire: In(1)
    stop: In(1)

    def __init__(self, module):
        self._module = module
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self._module.BurstIssuer()
        wiring.connect(m, wiring.flipped(self.i), dut.i)
        flying = Signal(8)
        held, addr, length = Signal(), Signal(40), Signal(8)
        came, beat, beats = Signal(), Signal.like(self.i.beat), Signal.like(self.i.len)
        m.d.comb += [
            dut.ready.eq(self.ready), dut.retire.eq(self.retire), dut.stop.eq(self.stop),
            Assume(~self.retire | (flying != 0)),
            Assert(flying <= burst.OUTSTANDING), Assert(dut.empty == (flying == 0)),
            Assert(~held | (dut.valid & (dut.addr == addr) & (dut.len == length))),
            Assert(~came | (dut.valid & (dut.addr == beat << 4) & (dut.len == beats))),
        ]  # fmt: skip
        m.d.sync += [
            flying.eq(flying + dut.taken - self.retire),
            held.eq(dut.valid & ~self.ready), addr.eq(dut.addr), length.eq(dut.len),
            came.eq(dut.taken), beat.eq(self.i.beat), beats.eq(self.i.len),
        ]  # fmt: skip
        return m


def test_addresses_hold_and_credits_do():
    faults = [
        ("~self.stop & ~count[-1] &", "~self.stop &"),
        ("& (~self.valid | self.ready)),", "),"),
        ("with m.If(~self.valid | self.ready):", "with m.If(1):"),
    ]
    check(AddressesHold, burst, faults, cycles=12)


class LevelsCount(wiring.Component):
    """A level goes up by what comes and down by what leaves."""

    now: In(4)
    more: In(1)
    less: In(1)

    def __init__(self, module):
        self._module = module
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        after = Signal(4)
        m.d.comb += [
            after.eq(self._module.next_level(self.now, self.more, self.less)),
            Assert(after == (self.now + self.more - self.less)[:4]),
        ]
        return m


def test_levels_count():
    faults = [
        ("~level[:i].any()", "~level[:i].all()"),
        ("level[:i].all()", "level[:i].any()"),
        ("if i else more ^ less", "if i else more | less"),
    ]
    check(LevelsCount, level, faults)


class EntriesInOrder(wiring.Component):
    """An entry chosen at will comes out once, after those before it and before those behind."""

    i: In(FieldStream({"data": 4}))
    ready: In(1)
    chosen: In(1)

    def __init__(self, module):
        self._module = module
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self._module.FieldQueue({"data": 4}, depth=4)
        wiring.connect(m, wiring.flipped(self.i), dut.i)
        inside, over, before, data = Signal(), Signal(), Signal(4), Signal(4)
        level = Signal(4)
        put, get = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready
        m.d.comb += [
            dut.o.ready.eq(self.ready),
            Assert(dut.level == level), Assert(level <= 4),
            Assert(dut.i.ready == (level != 4)), Assert(dut.o.valid == (level != 0)),
            Assert(~inside | (before < level)),
            Assert(~(inside & (before == 0)) | (dut.o.data == data)),
        ]  # fmt: skip
        m.d.sync += level.eq(level + put - get)
        with m.If(put & self.chosen & ~inside & ~over):
            m.d.sync += [inside.eq(1), before.eq(level - get), data.eq(self.i.data)]
        with m.If(inside & get):
            m.d.sync += before.eq(before - 1)
            with m.If(before == 0):
                m.d.sync += [inside.eq(0), over.eq(1)]
        return m


def test_queues_keep_their_entries():
    faults = [
        ("self.i.ready.eq(~self.level[-1])", "self.i.ready.eq(1)"),
        ("m.d.sync += get.eq(get + 1)", "m.d.sync += get.eq(get + 1 + (get == 2))"),
        ("writer.en.eq(self.i.ready)", "writer.en.eq(self.i.ready & (put != 3))"),
    ]
    check(EntriesInOrder, fields, faults, cycles=11)
