# SPDX-License-Identifier: Apache-2.0
"""One of the two halves of LOAD: a read port of the bus and a write port of the banks."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_arch.extensions import Extension
from opendpu_hw.bus.axi4 import constant_fields, read_signature
from opendpu_hw.bus.burst import BEAT_SHIFT, BurstGenerator, BurstIssuer, plan_fields
from opendpu_hw.bus.fields import FieldQueue, FieldSkid, FieldStream
from opendpu_hw.datapath.bytes import MASK_BYTES, masks, pieces, shift_down
from opendpu_hw.memory.ports import BankWrite

#: Beats between the bus and the banks.
WINDOW = 16
#: Longest pixel, in bytes, that may overlap the next one in one fetched range.
OVERLAP_MAX = 128
_POSITION = ceil_log2(WINDOW) + 2


def load_job_fields(target):
    """What the bank side needs to know of a LOAD; lengths are raw (less one).

    ``offset`` is the first byte's place in its beat; ``merged`` means the pixels come as one range,
    ``overlap`` that they overlap in it. ``masked`` LOADs (channel augmentation) zero ``skip`` bytes
    of pixel 0, ``jump`` less in each after it, and in the last ``pad_idx + 1`` pixels keep ``tail``
    bytes, ``jump`` less in each after the first of those; with the extension ``scaled``, bytes that
    are not kept become ``value``.
    """
    return {
        "bank_id": 6, "bank_addr": ceil_log2(target.bank_depth), "jump_write": 10,
        "rows": 10, "bytes": 14, "jump": 10, "offset": BEAT_SHIFT,
        "merged": 1, "overlap": 1, "constant": 1, "value": 8,
        "masked": 1, "skip": 5, "pad_idx": 5, "tail": 7}


class LoadChannel(wiring.Component):
    """Fetch the bytes of LOADs and write them to the banks, one word a cycle.

    Bursts are issued ahead, also those of LOADs whose turn has not come. Beats wait in a window of
    :data:`WINDOW` beats, from which any CP adjacent bytes are taken each cycle.

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
        lanes = self._target.channel_parallel
        stop = Signal()
        m.d.comb += stop.eq(self.stop | self.failed)

        # -- queues: plans for the address side, jobs for the bank side ---------------------------
        job_fields = load_job_fields(self._target)
        m.submodules.plans = plans = FieldQueue(plan_fields, depth=self.DEPTH)
        m.submodules.jobs = jobs = FieldQueue(job_fields, depth=self.DEPTH)
        wiring.connect(m, wiring.flipped(self.plan), plans.i)
        wiring.connect(m, wiring.flipped(self.job), jobs.i)
        m.d.comb += [plans.clear.eq(stop), jobs.clear.eq(stop)]

        # -- address side -------------------------------------------------------------------------
        m.submodules.bursts = bursts = ResetInserter({"sync": stop})(BurstGenerator())
        m.submodules.issuer = issuer = BurstIssuer()
        error = Signal()
        m.d.comb += [
            issuer.stop.eq(error),
            *constant_fields(self.bus, "ar"),
            self.bus.araddr.eq(issuer.addr), self.bus.arlen.eq(issuer.len),
            self.bus.arvalid.eq(issuer.valid), issuer.ready.eq(self.bus.arready),
            # A burst may still be taken in the first cycle of ``stop``, none later.
            self.empty.eq(issuer.empty & ~bursts.o.valid),
        ]
        wiring.connect(m, plans.o, bursts.i)
        wiring.connect(m, bursts.o, issuer.i)

        # -- window of beats ----------------------------------------------------------------------
        m.submodules.window = window = memory.Memory(
            shape=unsigned(128), depth=WINDOW, init=[])
        put_port = window.write_port()
        low_port, high_port = window.read_port(domain="comb"), window.read_port(domain="comb")
        put = Signal(_POSITION)             # number of the next beat, modulo 4·WINDOW
        newest = Signal(_POSITION, init=-1)     # number of the beat before it
        keep = Signal(_POSITION)            # number of the oldest beat still needed
        room = Signal()
        used = Signal(_POSITION)            # negative while the next byte is beyond a gap
        accept = Signal()
        error_beat = Signal(_POSITION)
        error_before = Signal(_POSITION)    # the beat before it
        m.d.comb += [
            used.eq(put - keep),
            room.eq(used[-1] | ~used[ceil_log2(WINDOW):].any()),
            self.bus.rready.eq(stop | room),
            accept.eq(self.bus.rvalid & self.bus.rready),
            issuer.retire.eq(accept & self.bus.rlast),
            put_port.addr.eq(put), put_port.data.eq(self.bus.rdata), put_port.en.eq(accept),
        ]
        with m.If(accept):
            m.d.sync += [put.eq(put + 1), newest.eq(put)]
            with m.If(self.bus.rresp[1] & ~error & ~stop):
                m.d.sync += [
                    error.eq(1), error_beat.eq(put), error_before.eq(put - 1),
                    self.fault_addr.eq(Cat(Const(0, BEAT_SHIFT), issuer.oldest_beat)),
                ]

        # -- bank side: the word to write next ----------------------------------------------------
        queued = jobs.o
        lasting = ("bank_id", "jump_write", "bytes", "jump", "merged", "overlap", "constant",
                   "value", "masked", "pad_idx")
        job = SimpleNamespace(**{n: Signal(job_fields[n], name=f"job_{n}") for n in lasting})
        running = Signal()
        rows = Signal(10)
        rest = Signal(14)                   # bytes of the pixel after the next one
        here = Signal(_POSITION + BEAT_SHIFT)
        pixel = Signal(_POSITION + BEAT_SHIFT)
        addr = Signal.like(queued.bank_addr)
        pixel_addr = Signal.like(queued.bank_addr)
        skip = Signal(5)
        pixel_skip = Signal(5)
        limit = Signal(15)
        tail = Signal(7)                    # of the next pixel

        pixel_end = Signal()
        job_end = Signal()
        two_beats = Signal()
        margin = Signal(_POSITION + 1)      # beats beyond those that the word needs, and a bit
        ready = Signal()
        bad = Signal()
        step = Signal()
        advance = Signal()
        beat = here[BEAT_SHIFT:]
        beat_1 = Signal(_POSITION)
        m.submodules.out = out = FieldSkid({
            "data": len(self.write.data), "bank_id": 6, "addr": len(self.write.addr), "ending": 1})

        def next_word(rest, place):
            """Whether the next word is its pixel's last, and in two beats: known a cycle before."""
            ends, reach = Signal(), Signal(5)
            m.d.comb += [ends.eq(rest < lanes),
                         reach.eq(place[:BEAT_SHIFT] + Mux(ends, rest[:4], lanes - 1))]
            return [pixel_end.eq(ends), two_beats.eq(reach[BEAT_SHIFT])]

        m.d.comb += [
            job_end.eq(pixel_end & (rows == 0)),
            beat_1.eq(beat + 1),
            # newest - beat - two_beats with one carry chain, into which the lowest bit carries
            margin.eq(Cat(1, newest) + Cat(~two_beats, ~beat)),
            ready.eq(job.constant | ~margin[-1]),
            bad.eq(error & ~job.constant
                   & ((error_beat == beat) | (two_beats & (error_before == beat)))),
            advance.eq(out.i.ready),
            step.eq(running & ready & ~bad & advance),
            keep.eq(Mux(job.overlap, pixel[BEAT_SHIFT:], beat)),
            low_port.addr.eq(beat), high_port.addr.eq(beat_1),
        ]
        with m.If(running & ready & bad & ~self.write.valid):
            m.d.sync += self.failed.eq(1)

        after = Signal(_POSITION)           # beat after the last one of this word
        next_pixel = Signal.like(pixel)
        m.d.comb += after.eq(Mux(job.constant, beat, beat_1 + two_beats))
        with m.If(job.constant):
            m.d.comb += next_pixel.eq(here)
        with m.Elif(job.merged):
            m.d.comb += next_pixel.eq(pixel + job.jump + 1)
        with m.Else():
            m.d.comb += next_pixel.eq(
                Cat((pixel[:BEAT_SHIFT] + job.jump + 1)[:BEAT_SHIFT], after))
        next_addr = Signal.like(addr)
        m.d.comb += next_addr.eq(pixel_addr + job.jump_write + 1)
        next_in_tail = Signal()
        next_skip = Signal(5)
        jump = Signal(8)

        def less(tail, jump, in_tail):
            """The bytes that the pixel after one keeps."""
            return Mux(in_tail, Mux(tail > jump, (tail - jump)[:7], 0), tail)

        m.d.comb += [
            jump.eq(job.jump[:7] + 1),
            next_in_tail.eq(rows <= job.pad_idx + 1),
            next_skip.eq(Mux(pixel_skip > jump, (pixel_skip - jump)[:5], 0)),
        ]

        start = Signal(_POSITION + BEAT_SHIFT)
        starts_in_tail = Signal()
        m.d.comb += [
            queued.ready.eq(~running | (step & job_end)),
            start.eq(Cat(queued.offset, Mux(running, after, beat))),
            starts_in_tail.eq(queued.rows <= queued.pad_idx),
        ]
        rest_after, here_after = Signal.like(rest), Signal.like(here)
        m.d.comb += [rest_after.eq(rest - lanes), here_after.eq(here + lanes)]
        # What comes next does not depend on `step`, which is known late.
        move = step | ~running
        with m.If(move & running & ~pixel_end):
            m.d.sync += [
                *next_word(rest_after, here_after),
                here.eq(Mux(job.constant, here, here_after)),
                addr.eq(addr + 1), rest.eq(rest_after),
                skip.eq(Mux(skip > lanes, skip - lanes, 0)),
                limit.eq(Mux(limit > lanes, limit - lanes, 0)),
            ]
        with m.Elif(move & running & ~job_end):
            m.d.sync += [
                *next_word(job.bytes, next_pixel),
                here.eq(next_pixel), pixel.eq(next_pixel),
                addr.eq(next_addr), pixel_addr.eq(next_addr),
                rest.eq(job.bytes), rows.eq(rows - 1),
                skip.eq(next_skip), pixel_skip.eq(next_skip),
                tail.eq(less(tail, jump, next_in_tail)),
                limit.eq(self._limit(job.bytes, job.masked & next_in_tail, tail)),
            ]
        with m.Elif(move):
            # Without a job only the beat means something.
            m.d.sync += [
                *next_word(queued.bytes, queued.offset),
                running.eq(queued.valid), here.eq(start), pixel.eq(start),
                *(getattr(job, n).eq(getattr(queued, n)) for n in lasting),
                job.overlap.eq(queued.overlap & queued.valid),
                addr.eq(queued.bank_addr), pixel_addr.eq(queued.bank_addr),
                rest.eq(queued.bytes), rows.eq(queued.rows),
                skip.eq(queued.skip), pixel_skip.eq(queued.skip),
                tail.eq(less(queued.tail, queued.jump[:7] + 1, starts_in_tail)),
                limit.eq(self._limit(
                    queued.bytes, queued.masked & starts_in_tail, queued.tail)),
            ]

        # -- the word ------------------------------------------------------------------------------
        halves = -(-lanes // MASK_BYTES)
        source = pieces(low_port.data, 4) + pieces(high_port.data, 4)
        word = shift_down(m, source, here[:BEAT_SHIFT], 2 * halves, name="word")
        kept = Signal(5)
        m.d.comb += kept.eq(Mux(limit[4:].any(), 16, limit[:4]))
        keep_masks = masks(m, kept, halves, name="keep")
        skip_masks = masks(m, skip, halves, name="skip")
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
        m.d.comb += [
            out.i.valid.eq(step), out.i.data.eq(Cat(result)), out.i.bank_id.eq(job.bank_id),
            out.i.addr.eq(addr), out.i.ending.eq(job_end), out.clear.eq(stop),
            self.write.valid.eq(out.o.valid), out.o.ready.eq(self.write.ready),
            *(getattr(self.write, n).eq(getattr(out.o, n)) for n in ("data", "bank_id", "addr")),
            self.finished.eq(self.write.valid & self.write.ready & out.o.ending),
        ]

        with m.If(stop):
            m.d.sync += [
                running.eq(0), put.eq(0), newest.eq(-1), here.eq(0), job.overlap.eq(0),
                error.eq(0),
            ]
        with m.If(self.stop):
            m.d.sync += self.failed.eq(0)
        return m

    @staticmethod
    def _limit(size, in_tail, tail):
        """Bytes of a pixel to keep, of ``size + 1``."""
        return Mux(in_tail & (tail <= size), tail, size + 1)
