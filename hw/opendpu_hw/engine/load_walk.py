# SPDX-License-Identifier: Apache-2.0
"""Where the bank side of a LOAD channel is: which bytes become the next word, and where it goes."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Mux, Signal
from amaranth.utils import ceil_log2

from opendpu_hw.bus.burst import BEAT_SHIFT

#: Beats between the bus and the banks.
WINDOW = 16
#: Width of the number of a beat, modulo 4·WINDOW.
POSITION = ceil_log2(WINDOW) + 2
#: What of a job holds until its end.
_LASTING = ("bank_id", "jump_write", "bytes", "jump", "merged", "overlap", "constant", "value",
            "masked", "pad_idx")


class LoadWalk:
    """The job that words are made for, and its next word.

    Attributes
    ----------
    job : ``SimpleNamespace``
        Fields of the job (:func:`opendpu_hw.engine.load_channel.load_job_fields`).
    running, step : ``Signal()``
        There is a job; its next word is made.
    here, pixel : ``Signal``
        First byte of the next word, and of its pixel: beat and place in it.
    addr : ``Signal``
        Where the word goes.
    skip, limit : ``Signal``
        Bytes of the word that are not kept at its beginning; those from which on none are.
    two_beats, job_end : ``Signal()``
        The word lies in two beats; it is the job's last one.
    """

    def __init__(self, target, job_fields):
        self._lanes = target.channel_parallel
        self.job = SimpleNamespace(
            **{n: Signal(job_fields[n], name=f"job_{n}") for n in _LASTING})
        self.running = Signal()
        self.step = Signal()
        self.rows = Signal(10)
        self.rest = Signal(14)              # bytes of the pixel after the next one
        self.here = Signal(POSITION + BEAT_SHIFT)
        self.pixel = Signal(POSITION + BEAT_SHIFT)
        self.addr = Signal(job_fields["bank_addr"])
        self.pixel_addr = Signal(job_fields["bank_addr"])
        self.skip = Signal(5)
        self.pixel_skip = Signal(5)
        self.limit = Signal(15)
        self.tail = Signal(7)               # of the next pixel
        self.pixel_end, self.job_end = Signal(), Signal()
        self.two_beats = Signal()
        self.beat = self.here[BEAT_SHIFT:]
        self.beat_1 = Signal(POSITION)
        self.after = Signal(POSITION)       # beat after the last one of this word

    def go_on(self, m):
        """Go on to the next word of the pixel, the next pixel, or past the job."""
        job = self.job
        m.d.comb += [
            self.job_end.eq(self.pixel_end & (self.rows == 0)),
            self.beat_1.eq(self.beat + 1),
            self.after.eq(Mux(job.constant, self.beat, self.beat_1 + self.two_beats)),
        ]
        word_end = Signal()
        m.d.comb += word_end.eq(self.step & ~self.pixel_end)
        with m.If(word_end):
            self._next_word(m)
        with m.Elif(self.step & ~self.job_end):
            self._next_pixel(m)
        with m.Elif(self.step):
            m.d.sync += [
                self.running.eq(0), self.here[BEAT_SHIFT:].eq(self.after), job.overlap.eq(0)]

    def _next_word(self, m):
        lanes = self._lanes
        rest_after, here_after = Signal.like(self.rest), Signal.like(self.here)
        m.d.comb += [rest_after.eq(self.rest - lanes), here_after.eq(self.here + lanes)]
        m.d.sync += [
            *self._reach(m, rest_after, here_after),
            self.here.eq(Mux(self.job.constant, self.here, here_after)),
            self.addr.eq(self.addr + 1), self.rest.eq(rest_after),
            self.skip.eq(Mux(self.skip > lanes, self.skip - lanes, 0)),
            self.limit.eq(Mux(self.limit > lanes, self.limit - lanes, 0)),
        ]

    def _next_pixel(self, m):
        job = self.job
        next_pixel = Signal.like(self.pixel)
        with m.If(job.constant):
            m.d.comb += next_pixel.eq(self.here)
        with m.Elif(job.merged):
            m.d.comb += next_pixel.eq(self.pixel + job.jump + 1)
        with m.Else():
            m.d.comb += next_pixel.eq(
                Cat((self.pixel[:BEAT_SHIFT] + job.jump + 1)[:BEAT_SHIFT], self.after))
        next_addr = Signal.like(self.addr)
        next_in_tail = Signal()
        next_skip = Signal(5)
        jump = Signal(8)
        m.d.comb += [
            next_addr.eq(self.pixel_addr + job.jump_write + 1),
            jump.eq(job.jump[:7] + 1),
            next_in_tail.eq(self.rows <= job.pad_idx + 1),
            next_skip.eq(Mux(self.pixel_skip > jump, (self.pixel_skip - jump)[:5], 0)),
        ]
        m.d.sync += [
            *self._reach(m, job.bytes, next_pixel),
            self.here.eq(next_pixel), self.pixel.eq(next_pixel),
            self.addr.eq(next_addr), self.pixel_addr.eq(next_addr),
            self.rest.eq(job.bytes), self.rows.eq(self.rows - 1),
            self.skip.eq(next_skip), self.pixel_skip.eq(next_skip),
            self.tail.eq(_less(self.tail, jump, next_in_tail)),
            self.limit.eq(_limit(job.bytes, job.masked & next_in_tail, self.tail)),
        ]

    def begin(self, m, queued):
        """Begin the job that is offered, as soon as there is no other."""
        start = Signal(POSITION + BEAT_SHIFT)
        starts_in_tail = Signal()
        m.d.comb += [
            queued.ready.eq(~self.running | (self.step & self.job_end)),
            start.eq(Cat(queued.offset, Mux(self.running, self.after, self.beat))),
            starts_in_tail.eq(queued.rows <= queued.pad_idx),
        ]
        with m.If(queued.ready & queued.valid):
            m.d.sync += [
                *self._reach(m, queued.bytes, queued.offset),
                self.running.eq(1), self.here.eq(start), self.pixel.eq(start),
                *(getattr(self.job, n).eq(getattr(queued, n)) for n in _LASTING),
                self.addr.eq(queued.bank_addr), self.pixel_addr.eq(queued.bank_addr),
                self.rest.eq(queued.bytes), self.rows.eq(queued.rows),
                self.skip.eq(queued.skip), self.pixel_skip.eq(queued.skip),
                self.tail.eq(_less(queued.tail, queued.jump[:7] + 1, starts_in_tail)),
                self.limit.eq(_limit(queued.bytes, queued.masked & starts_in_tail, queued.tail)),
            ]

    def clear(self, m):
        """Drop the job."""
        m.d.sync += [self.running.eq(0), self.here.eq(0), self.job.overlap.eq(0)]

    def _reach(self, m, rest, place):
        """Whether the next word is its pixel's last, and in two beats: known a cycle before."""
        lanes = self._lanes
        ends, reach = Signal(), Signal(5)
        m.d.comb += [ends.eq(rest < lanes),
                     reach.eq(place[:BEAT_SHIFT] + Mux(ends, rest[:4], lanes - 1))]
        return [self.pixel_end.eq(ends), self.two_beats.eq(reach[BEAT_SHIFT])]


def _less(tail, jump, in_tail):
    """Return the bytes that the pixel after one keeps."""
    return Mux(in_tail, Mux(tail > jump, (tail - jump)[:7], 0), tail)


def _limit(size, in_tail, tail):
    """Return the bytes of a pixel to keep, of ``size + 1``."""
    return Mux(in_tail & (tail <= size), tail, size + 1)
