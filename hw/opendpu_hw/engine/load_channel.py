# SPDX-License-Identifier: Apache-2.0
"""One of the two halves of LOAD: a read port of the bus and a write port of the banks."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_arch.extensions import Extension
from opendpu_hw.bus.axi4 import read_signature
from opendpu_hw.bus.burst import BEAT_SHIFT, plan_fields
from opendpu_hw.bus.fields import FieldQueue, FieldSkid, FieldStream
from opendpu_hw.datapath.bytes import MASK_BYTES, masks, pieces, shift_down
from opendpu_hw.engine.load_window import POSITION, BeatWindow
from opendpu_hw.memory.ports import BankWrite

#: What a job keeps as it is until its end.
_LASTING = ("bank_id", "jump_write", "bytes", "jump", "merged", "overlap", "constant", "value",
            "masked", "pad_idx")


def load_job_fields(target):
    """What the bank side needs to know of a LOAD; lengths are raw (less one).

    ``offset`` is the first byte's place in its beat; ``merged`` means the pixels come as one range,
    ``overlap`` that they overlap in it. ``masked`` LOADs (channel augmentation) zero ``skip`` bytes
    of pixel 0, ``jump`` less in each after it, and in the last ``pad_idx + 1`` pixels keep ``tail``
    bytes, ``jump`` less in each after the first of those; with the extension ``scaled``, bytes that
    are not kept become ``value``. ``in_tail`` means that pixel 0 is one of the last ones.
    """
    return {
        "bank_id": 6, "bank_addr": ceil_log2(target.bank_depth), "jump_write": 10,
        "rows": 10, "bytes": 14, "jump": 10, "offset": BEAT_SHIFT,
        "merged": 1, "overlap": 1, "constant": 1, "value": 8,
        "masked": 1, "skip": 5, "pad_idx": 5, "tail": 7, "in_tail": 1}


class LoadChannel(wiring.Component):
    """Fetch the bytes of LOADs and write them to the banks, one word a cycle.

    Bursts are issued ahead, also those of LOADs whose turn has not come. Beats wait in a
    :class:`opendpu_hw.engine.load_window.BeatWindow`, from which any CP adjacent bytes are taken
    each cycle.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Parallelism and memories.

    Members
    -------
    plan, job : ``In(FieldStream)``
        :data:`opendpu_hw.bus.burst.plan_fields` and :func:`load_job_fields` of LOADs; constant ones
        have no plan.
    bus, write : ``Out(read_signature(128))``, ``Out(BankWrite)``
        The ports.
    finished : ``Out(1)``
        The last word of a LOAD is being written.
    failed, fault_addr : ``Out(1)``, ``Out(40)``
        The oldest unfinished LOAD met a bus error, in the burst at this address: level.
    stop : ``In(1)``
        Drop all work; beats already asked for are taken and dropped.
    empty : ``Out(1)``
        Nothing is outstanding on the bus.
    """

    #: LOADs that can wait in a channel.
    DEPTH = 8

    def __init__(self, target):
        self._target = target
        super().__init__({
            "plan": In(FieldStream(plan_fields)), "job": In(FieldStream(load_job_fields(target))),
            "bus": Out(read_signature(128)), "write": Out(BankWrite(target)),
            "finished": Out(1), "failed": Out(1), "fault_addr": Out(40),
            "stop": In(1), "empty": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        stop = Signal()
        m.d.comb += stop.eq(self.stop | self.failed)
        plans, queued = self._queues(m, stop)
        window = BeatWindow(m, self.bus, plans, stop=stop, fault_addr=self.fault_addr)
        m.d.comb += self.empty.eq(window.empty)
        m.submodules.out = out = FieldSkid({
            "data": len(self.write.data), "bank_id": 6, "addr": len(self.write.addr), "ending": 1})
        place = self._place(queued)
        step, after = self._judge(m, place, window, out.i.ready)
        self._move(m, place, queued, step, after)
        self._write(m, place, step, self._word(m, place, window), out, stop)
        with m.If(stop):
            m.d.sync += [place.running.eq(0), place.here.eq(0), place.job.overlap.eq(0)]
            window.reset(m)
        with m.If(self.stop):
            m.d.sync += self.failed.eq(0)
        return m

    def _queues(self, m, stop):
        """Return plans for the address side and jobs for the bank side."""
        m.submodules.plans = plans = FieldQueue(plan_fields, depth=self.DEPTH)
        m.submodules.jobs = jobs = FieldQueue(load_job_fields(self._target), depth=self.DEPTH)
        wiring.connect(m, wiring.flipped(self.plan), plans.i)
        wiring.connect(m, wiring.flipped(self.job), jobs.i)
        m.d.comb += [plans.clear.eq(stop), jobs.clear.eq(stop)]
        return plans.o, jobs.o

    def _place(self, queued):
        """Return the job under way, and which of its words comes next."""
        job_fields = load_job_fields(self._target)

        def like(name, signal):
            return Signal.like(signal, name=name)

        return SimpleNamespace(
            job=SimpleNamespace(**{n: Signal(job_fields[n], name=f"job_{n}") for n in _LASTING}),
            running=Signal(name="running"), rows=Signal(10, name="rows"),
            rest=Signal(14, name="rest"),           # bytes of the pixel after the next one
            here=Signal(POSITION + BEAT_SHIFT, name="here"),
            pixel=Signal(POSITION + BEAT_SHIFT, name="pixel"),
            addr=like("addr", queued.bank_addr), pixel_addr=like("pixel_addr", queued.bank_addr),
            skip=Signal(5, name="skip"), pixel_skip=Signal(5, name="pixel_skip"),
            limit=Signal(15, name="limit"),
            tail=Signal(7, name="tail"),            # of the next pixel
            pixel_end=Signal(name="pixel_end"), job_end=Signal(name="job_end"),
            two_beats=Signal(name="two_beats"))

    def _judge(self, m, place, window, free):
        """Return whether the next word goes, and the number of the beat after its last one."""
        job, beat, two_beats = place.job, place.here[BEAT_SHIFT:], place.two_beats
        margin = Signal(POSITION + 1)       # beats beyond those that the word needs, and a bit
        ready = Signal()
        # With the word that was here a cycle ago and is still.
        bad = Signal()
        compared = Signal()
        step = Signal()
        beat_1 = Signal(POSITION)
        m.d.comb += [
            place.job_end.eq(place.pixel_end & (place.rows == 0)),
            beat_1.eq(beat + 1),
            # has the sign of newest - beat - two_beats, with one carry chain and no LUT before it
            margin.eq(Cat(0, window.newest) - Cat(two_beats, beat)),
            ready.eq(job.constant | ~margin[-1]),
            # After an error each word waits for its comparison with the beat that had it.
            step.eq(place.running & ready & free
                    & (~window.error | job.constant | (compared & ~bad))),
            window.keep.eq(Mux(job.overlap, place.pixel[BEAT_SHIFT:], beat)),
            window.low_port.addr.eq(beat), window.high_port.addr.eq(beat_1),
        ]
        m.d.sync += [
            compared.eq(place.running & window.error & ~step & ~self.stop),
            bad.eq((window.error_beat == beat) | (two_beats & (window.error_before == beat))),
        ]
        with m.If(place.running & ready & ~job.constant & compared & bad & ~self.write.valid):
            m.d.sync += self.failed.eq(1)
        after = Signal(POSITION)
        m.d.comb += after.eq(Mux(job.constant, beat, beat_1 + two_beats))
        return step, after

    def _next_word(self, m, place, rest, start):
        """Whether the next word is its pixel's last, and in two beats: known a cycle before."""
        lanes = self._target.channel_parallel
        ends = Signal()
        reach = Signal(5)
        m.d.comb += [ends.eq(rest < lanes),
                     reach.eq(start[:BEAT_SHIFT] + Mux(ends, rest[:4], lanes - 1))]
        return [place.pixel_end.eq(ends), place.two_beats.eq(reach[BEAT_SHIFT])]

    def _move(self, m, place, queued, step, after):
        """Go on to the next word, pixel or job.

        What comes next does not depend on ``step``, which is known late.
        """
        running = place.running
        m.d.comb += queued.ready.eq(~running | (step & place.job_end))
        move = step | ~running
        ways = (self._within_pixel(m, place), self._to_next_pixel(m, place, after),
                self._to_next_job(m, place, queued, after))

        def go(way):
            rest, start, others = way
            m.d.sync += [*self._next_word(m, place, rest, start), *others]

        with m.If(move & running & ~place.pixel_end):
            go(ways[0])
        with m.Elif(move & running & ~place.job_end):
            go(ways[1])
        with m.Elif(move):
            go(ways[2])

    def _within_pixel(self, m, place):
        """Return bytes after the next word, where it begins, and all else that changes."""
        lanes, here = self._target.channel_parallel, place.here
        rest_after = Signal.like(place.rest)
        here_after = Signal.like(here)
        m.d.comb += [rest_after.eq(place.rest - lanes), here_after.eq(here + lanes)]
        return rest_after, here_after, [
            here.eq(Mux(place.job.constant, here, here_after)),
            place.addr.eq(place.addr + 1), place.rest.eq(rest_after),
            *(bytes_.eq(Mux(bytes_ > lanes, bytes_ - lanes, 0))
              for bytes_ in (place.skip, place.limit)),
        ]

    def _to_next_pixel(self, m, place, after):
        """Return the same for the first word of the next pixel."""
        job, rows, pixel_skip = place.job, place.rows, place.pixel_skip
        next_pixel = Signal.like(place.pixel)
        next_addr = Signal.like(place.addr)
        next_in_tail = Signal()
        next_skip = Signal(5)
        jump = Signal(8)
        far, near = place.pixel + job.jump + 1, (place.pixel[:BEAT_SHIFT] + job.jump + 1)
        m.d.comb += [
            next_pixel.eq(Mux(job.constant, place.here, Mux(
                job.merged, far, Cat(near[:BEAT_SHIFT], after)))),
            next_addr.eq(place.pixel_addr + job.jump_write + 1),
            jump.eq(job.jump[:7] + 1),
            next_in_tail.eq(rows <= job.pad_idx + 1),
            next_skip.eq(Mux(pixel_skip > jump, (pixel_skip - jump)[:5], 0)),
        ]
        return job.bytes, next_pixel, [
            place.here.eq(next_pixel), place.pixel.eq(next_pixel),
            place.addr.eq(next_addr), place.pixel_addr.eq(next_addr),
            place.rest.eq(job.bytes), rows.eq(rows - 1),
            place.skip.eq(next_skip), pixel_skip.eq(next_skip),
            place.tail.eq(_less(place.tail, jump, next_in_tail)),
            place.limit.eq(_limit(job.bytes, job.masked & next_in_tail, place.tail)),
        ]

    def _to_next_job(self, m, place, queued, after):
        """Return the same for the next job; without one only the beat means something."""
        job = place.job
        start = Signal(POSITION + BEAT_SHIFT)
        m.d.comb += start.eq(
            Cat(queued.offset, Mux(place.running, after, place.here[BEAT_SHIFT:])))
        return queued.bytes, queued.offset, [
            place.running.eq(queued.valid), place.here.eq(start), place.pixel.eq(start),
            *(getattr(job, n).eq(getattr(queued, n)) for n in _LASTING),
            job.overlap.eq(queued.overlap & queued.valid),
            place.addr.eq(queued.bank_addr), place.pixel_addr.eq(queued.bank_addr),
            place.rest.eq(queued.bytes), place.rows.eq(queued.rows),
            place.skip.eq(queued.skip), place.pixel_skip.eq(queued.skip),
            place.tail.eq(_less(queued.tail, queued.jump[:7] + 1, queued.in_tail)),
            place.limit.eq(_limit(queued.bytes, queued.in_tail, queued.tail)),
        ]

    def _word(self, m, place, window):
        """Return the word: bytes of two beats, a constant, or what augmentation leaves of them."""
        job, lanes = place.job, self._target.channel_parallel
        halves = -(-lanes // MASK_BYTES)
        source = pieces(window.low_port.data, 4) + pieces(window.high_port.data, 4)
        word = shift_down(m, source, place.here[:BEAT_SHIFT], 2 * halves, name="word")
        kept = Signal(5)
        m.d.comb += kept.eq(Mux(place.limit[4:].any(), 16, place.limit[:4]))
        keep_masks = masks(m, kept, halves, name="keep")
        skip_masks = masks(m, place.skip, halves, name="skip")
        padded = Signal()
        m.d.comb += padded.eq(job.masked & ~job.constant)
        result = []
        for i in range(halves):
            half = Signal(64, name=f"half_{i}")
            value = Mux(
                job.constant, job.value.replicate(MASK_BYTES), Cat(word[2 * i:2 * i + 2]))
            kept_bytes = keep_masks[i] & ~skip_masks[i]
            m.d.comb += half.eq(value & kept_bytes)
            if Extension.SCALED in self._target.extensions:
                fill = job.value.replicate(MASK_BYTES) & padded.replicate(8 * MASK_BYTES)
                m.d.comb += half.eq((value & kept_bytes) | (fill & ~kept_bytes))
            result.append(half)
        return Cat(result)

    def _write(self, m, place, step, word, out, stop):
        """Hand words to the banks; say when the last one of a LOAD goes."""
        m.d.comb += [
            out.i.valid.eq(step), out.i.data.eq(word), out.i.bank_id.eq(place.job.bank_id),
            out.i.addr.eq(place.addr), out.i.ending.eq(place.job_end), out.clear.eq(stop),
            self.write.valid.eq(out.o.valid), out.o.ready.eq(self.write.ready),
            *(getattr(self.write, n).eq(getattr(out.o, n)) for n in ("data", "bank_id", "addr")),
            self.finished.eq(self.write.valid & self.write.ready & out.o.ending),
        ]


def _less(tail, jump, in_tail):
    """The bytes that the pixel after one keeps."""
    return Mux(in_tail, Mux(tail > jump, (tail - jump)[:7], 0), tail)


def _limit(size, in_tail, tail):
    """Bytes of a pixel to keep, of ``size + 1``."""
    return Mux(in_tail & (tail <= size), tail, size + 1)
