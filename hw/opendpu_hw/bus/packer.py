# SPDX-License-Identifier: Apache-2.0
"""Byte runs to the beats of write bursts."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

#: Bytes of a beat.
BEAT_BYTES = 16


def run_shape(lanes):
    """Up to ``lanes`` bytes, ``count`` of them; ``first`` and ``last`` of a contiguous range.

    A range starts at byte ``offset`` of its first beat.
    """
    return data.StructLayout({
        "data": 8 * lanes, "count": range(lanes + 1), "first": 1, "offset": 4, "last": 1})


#: A beat with its byte strobes.
beat_shape = data.StructLayout({"data": 8 * BEAT_BYTES, "strobe": BEAT_BYTES})


class Packer(wiring.Component):
    """Join runs of bytes to beats; the beats of two ranges are never joined.

    One run a cycle, less a cycle a range whose last run ends in another beat than it begins.

    Parameters
    ----------
    lanes : :class:`int`
        Most bytes of a run, at most 16.

    Members
    -------
    i : ``In(stream.Signature(run_shape(lanes)))``
        The runs.
    o : ``Out(stream.Signature(beat_shape))``
        The beats, registered. Payload bytes without strobe are undefined.
    clear : ``In(1)``
        Forget everything; the payload of ``o`` does not change.
    """

    def __init__(self, *, lanes):
        if not 1 <= lanes <= BEAT_BYTES:
            raise ValueError(f"lanes is {lanes}, but must be in 1..{BEAT_BYTES}")
        self._lanes = lanes
        super().__init__({
            "i": In(stream.Signature(run_shape(lanes))),
            "o": Out(stream.Signature(beat_shape)),
            "clear": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        lanes = self._lanes
        run = self.i.payload
        held = Signal(8 * BEAT_BYTES)
        held_strobe = Signal(BEAT_BYTES)
        place = Signal(4)                   # of the next byte, in a range
        flush = Signal()                    # the range ends with what is held

        at = Signal(4)
        end = Signal(6)
        advance = Signal()
        take = Signal()
        full = Signal()
        strobe = Signal(lanes)
        wide = Signal(8 * 2 * BEAT_BYTES)
        wide_strobe = Signal(2 * BEAT_BYTES)
        m.d.comb += [
            at.eq(Mux(run.first, run.offset, place)),
            end.eq(at + run.count),
            full.eq(end[4:].any()),
            advance.eq((~self.o.valid | self.o.ready) & ~self.clear),
            self.i.ready.eq(advance & ~flush),
            take.eq(self.i.valid & self.i.ready),
            wide.eq(run.data << Cat(Const(0, 3), at)),
            wide_strobe.eq(strobe << at),
        ]
        m.d.comb += [strobe[i].eq(run.count > i) for i in range(lanes)]

        old_strobe = Signal(BEAT_BYTES)
        m.d.comb += old_strobe.eq(Mux(run.first, 0, held_strobe))
        with m.If(advance):
            m.d.sync += self.o.valid.eq(flush | (take & (full | run.last)))
        with m.If(take):
            m.d.sync += [
                place.eq(end[:4]),
                flush.eq(run.last & (end > BEAT_BYTES)),
                self.o.payload.strobe.eq(wide_strobe[:BEAT_BYTES] | old_strobe),
                held_strobe.eq(Mux(
                    full, wide_strobe[BEAT_BYTES:], wide_strobe[:BEAT_BYTES] | old_strobe)),
            ]
            for i in range(BEAT_BYTES):
                byte = slice(8 * i, 8 * i + 8)
                with m.If(wide_strobe[i]):
                    m.d.sync += [
                        self.o.payload.data[byte].eq(wide[byte]), held[byte].eq(wide[byte])]
                with m.Else():
                    m.d.sync += self.o.payload.data[byte].eq(held[byte])
                with m.If(wide_strobe[BEAT_BYTES + i]):
                    m.d.sync += held[byte].eq(wide[128 + 8 * i:136 + 8 * i])
        with m.Elif(advance & flush):
            m.d.sync += [
                flush.eq(0), self.o.payload.data.eq(held), self.o.payload.strobe.eq(held_strobe)]
        with m.If(self.clear):
            m.d.sync += [flush.eq(0), self.o.valid.eq(0)]
        return m
