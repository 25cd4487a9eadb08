# SPDX-License-Identifier: Apache-2.0
"""Byte runs to the beats of write bursts."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.bus.fields import FieldStream
from opendpu_hw.datapath.bytes import pieces, shift_down

#: Bytes of a beat.
BEAT_BYTES = 16


def run_fields(lanes):
    """Up to ``lanes`` bytes, ``count`` of them; ``first`` and ``last`` of a contiguous range.

    A range starts at byte ``offset`` of its first beat; ``fills`` says that its first run reaches
    that beat's end, ``offset + count >= 16``, which is wanted soon.
    """
    return {"data": 8 * lanes, "count": 5, "first": 1, "offset": 4, "fills": 1, "last": 1}


#: A beat with its byte strobes.
beat_fields = {"data": 8 * BEAT_BYTES, "strobe": BEAT_BYTES}


class Packer(wiring.Component):
    """Join runs of bytes to beats; the beats of two ranges are never joined.

    One run a cycle, less a cycle a range whose last run ends in another beat than it begins.

    Parameters
    ----------
    lanes : :class:`int`
        Most bytes of a run, at most 16.

    Members
    -------
    i : ``In(FieldStream(run_fields(lanes)))``
        The runs.
    o : ``Out(FieldStream(beat_fields))``
        The beats, registered. Payload bytes without strobe are undefined.
    flushing : ``Out(1)``
        A range ends with what is held: nothing is taken.
    clear : ``In(1)``
        Forget everything, also what is taken in this cycle; the payload of ``o`` does not change.
    """

    def __init__(self, *, lanes):
        self._lanes = lanes
        super().__init__({
            "i": In(FieldStream(run_fields(lanes))),
            "o": Out(FieldStream(beat_fields)),
            "flushing": Out(1), "clear": In(1),
        })

    def takes(self, ready):
        """Return ``i.ready`` if ``o.ready`` is ``ready``: an expression of registers besides."""
        return (~self.o.valid | ready) & ~self.flushing

    def elaborate(self, platform):
        if not 1 <= self._lanes <= BEAT_BYTES:
            raise ValueError(f"lanes is {self._lanes}, but must be in 1..{BEAT_BYTES}")
        m = Module()
        run = self.i
        held = [Signal(8, name=f"held_{i}", reset_less=True) for i in range(BEAT_BYTES)]
        held_strobe = Signal(BEAT_BYTES)
        place = Signal(4)                   # of the next byte, in a range
        flush = self.flushing

        at = Signal(4)
        end = Signal(6)
        free = Signal()
        advance = Signal()
        take = Signal()
        full = Signal()
        m.d.comb += [
            at.eq(Mux(run.first, run.offset, place)),
            end.eq(at + run.count),
            # as end[4:].any(), without waiting for the choice of `at`
            full.eq(Mux(run.first, run.fills, (place + run.count)[4:].any())),
            free.eq(~self.o.valid | self.o.ready),
            advance.eq(free & ~self.clear),
            self.i.ready.eq(self.takes(self.o.ready)),
            take.eq(self.i.valid & self.i.ready),
        ]

        # The run, turned so that its first byte is at its place; bytes before that stay. A byte is
        # held by its enable, so that it takes one multiplexer, at the output.
        down = Signal(4)
        m.d.comb += down.eq(-at)
        turned = shift_down(m, pieces(run.data, 4), down, 4, name="turned")
        stay = Signal(BEAT_BYTES)
        old = Signal(BEAT_BYTES)            # comes from what is held
        joined = [Signal(64, name=f"joined_{i}") for i in range(2)]
        strobe = Signal(2 * BEAT_BYTES)
        low_strobe = Signal(BEAT_BYTES)
        m.d.comb += [
            stay.eq(Cat(at > i for i in range(BEAT_BYTES))),
            old.eq(Mux(flush, 2**BEAT_BYTES - 1, stay)),
            *(joined[i].eq(Cat(
                Mux(old[b], held[b], turned[b // 4][8 * (b % 4):][:8])
                for b in range(8 * i, 8 * i + 8))) for i in range(2)),
            strobe.eq(Cat((at <= i) & (end > i) for i in range(2 * BEAT_BYTES))),
            low_strobe.eq(strobe[:BEAT_BYTES] | Mux(run.first, 0, held_strobe)),
        ]

        with m.If(advance):
            m.d.sync += self.o.valid.eq(flush | (take & (full | run.last)))
            with m.If(flush | self.i.valid):
                m.d.sync += [
                    self.o.data.eq(Cat(joined)),
                    self.o.strobe.eq(Mux(flush, held_strobe, low_strobe)),
                ]
        with m.If(take):
            m.d.sync += [
                place.eq(end[:4]),
                flush.eq(run.last & (end > BEAT_BYTES)),
                held_strobe.eq(Mux(full, strobe[BEAT_BYTES:], low_strobe)),
            ]
            for b in range(BEAT_BYTES):
                with m.If(full | ~stay[b]):
                    m.d.sync += held[b].eq(turned[b // 4][8 * (b % 4):][:8])
        with m.Elif(advance & flush):
            m.d.sync += flush.eq(0)
        with m.If(self.clear):
            m.d.sync += [flush.eq(0), self.o.valid.eq(0)]
        return m
