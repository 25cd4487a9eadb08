# SPDX-License-Identifier: Apache-2.0
"""Bank side of a SAVE channel: the words of the pixels, one a cycle."""

from types import SimpleNamespace

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_arch import latency
from opendpu_hw.bus.fields import FieldQueue, FieldSkid, FieldStream
from opendpu_hw.bus.level import next_level
from opendpu_hw.memory.ports import BankRead

#: Fields of a job that are needed until its last word.
_LASTING = ("bank_id", "jump_read", "bytes", "jump", "merged", "constant", "value", "argmax",
            "largest")


def save_job_fields(target):
    """What the bank side needs to know of a SAVE; lengths are raw (less one).

    ``offset`` is the first byte's place in its beat, ``jump`` the distance of pixels in memory,
    modulo a beat; ``merged`` means that the pixels make one contiguous range. ``argmax`` writes one
    byte a pixel, the ``largest`` or else its index.
    """
    return {
        "bank_id": 6, "bank_addr": ceil_log2(target.bank_depth), "jump_read": 10,
        "rows": 10, "bytes": 12, "jump": 4, "offset": 4, "merged": 1,
        "constant": 1, "value": 8, "argmax": 1, "largest": 1}


def word_fields(target):
    """A word, its bytes, its place in pixel and range, where the range starts."""
    return {
        "data": 8 * target.channel_parallel, "count": 5, "pixel_first": 1, "pixel_last": 1,
        "range_first": 1, "range_last": 1, "offset": 4, "argmax": 1, "largest": 1}


class SaveReader(wiring.Component):
    """Read the words of SAVEs from the banks; constant ones are made up without a read.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Parallelism and memories.

    Members
    -------
    i : ``In(FieldStream(save_job_fields(target)))``
        The SAVEs.
    read : ``Out(BankRead)``
        The banks.
    o : ``Out(FieldStream(word_fields(target)))``
        The words, :attr:`LATENCY` cycles after the read. ``range_first`` and ``range_last`` belong
        to the pixel.
    clear : ``In(1)``
        Forget everything. Does not reach ``read`` in the same cycle: a bank may be read in vain.
    """

    LATENCY = latency.BANK_READ + 1
    #: Words asked for and not yet taken by the packer, at most.
    DEPTH = 8

    def __init__(self, target):
        self._target = target
        super().__init__({
            "i": In(FieldStream(save_job_fields(target))),
            "read": Out(BankRead(target)),
            "o": Out(FieldStream(word_fields(target))),
            "clear": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        place = self._place()
        m.submodules.words = words = FieldQueue(word_fields(self._target), depth=self.DEPTH)
        wiring.connect(m, words.o, wiring.flipped(self.o))
        reads = self._reads(m, words)
        promised = Signal(range(self.DEPTH + 1))
        room = Signal()
        step = Signal()
        pixel_end = Signal()
        job_end = Signal()
        m.d.comb += [
            room.eq((promised != self.DEPTH) & reads.ready),
            step.eq(place.running & room),
            *self._ask(place, reads, step, pixel_end),
            pixel_end.eq(place.rest < self._target.channel_parallel),
            job_end.eq(pixel_end & (place.rows == 0)),
            self.i.ready.eq(~place.running | (step & job_end)),
        ]
        m.d.sync += promised.eq(next_level(promised, step, words.o.valid & words.o.ready))
        with m.If(step):
            self._advance(m, place, pixel_end)
        with m.If(self.i.valid & self.i.ready):
            self._begin(m, place)
        with m.If(self.clear):
            m.d.sync += [place.running.eq(0), promised.eq(0)]
        return m

    def _place(self):
        """Return registers of the job under way, and of which of its words comes next."""
        fields = save_job_fields(self._target)
        return SimpleNamespace(
            job=SimpleNamespace(**{n: Signal(fields[n], name=f"job_{n}") for n in _LASTING}),
            running=Signal(name="running"),
            fresh=Signal(name="fresh"),             # the job's first pixel
            pixel_first=Signal(name="pixel_first"),     # the pixel's first word
            rows=Signal(10, name="rows"),           # pixels after this one
            rest=Signal(12, name="rest"),           # bytes of the pixel from here on, less one
            addr=Signal.like(self.read.addr, name="addr"),          # of the word
            pixel_addr=Signal.like(self.read.addr, name="pixel_addr"),
            offset=Signal(4, name="offset"))        # of the pixel's first byte in its beat

    def _reads(self, m, words):
        """Read words, or make up constant ones, into a queue; return where they are asked for.

        Whether the banks serve a read does not reach who asks for it in the same cycle.
        """
        known = {name: bits for name, bits in word_fields(self._target).items() if name != "data"}
        m.submodules.reads = reads = FieldSkid({
            "bank_id": 6, "addr": len(self.read.addr), "constant": 1, "value": 8, **known})
        ask = reads.o
        taken = Signal()
        m.d.comb += [
            reads.clear.eq(self.clear),
            self.read.valid.eq(ask.valid & ~ask.constant),
            self.read.bank_id.eq(ask.bank_id), self.read.addr.eq(ask.addr),
            ask.ready.eq(ask.constant | self.read.ready), taken.eq(ask.valid & ask.ready),
        ]
        arriving, answer = taken, {n: getattr(ask, n) for n in ("constant", "value", *known)}
        for n in range(latency.BANK_READ):
            valid = Signal(name=f"arriving_{n}")
            later = {name: Signal(len(given), name=f"{name}_{n}", reset_less=True)
                     for name, given in answer.items()}
            m.d.sync += [valid.eq(arriving & ~self.clear),
                         *(later[name].eq(given) for name, given in answer.items())]
            arriving, answer = valid, later
        constant = answer["value"].replicate(self._target.channel_parallel)
        m.d.comb += [
            words.clear.eq(self.clear), words.i.valid.eq(arriving),
            words.i.data.eq(Mux(answer["constant"], constant, self.read.data)),
            *(getattr(words.i, name).eq(answer[name]) for name in known),
        ]
        return reads.i

    def _ask(self, place, reads, step, pixel_end):
        """Return statements that ask for the word at the place."""
        job, lanes = place.job, self._target.channel_parallel
        return [
            reads.valid.eq(step),
            reads.bank_id.eq(job.bank_id), reads.addr.eq(place.addr),
            reads.constant.eq(job.constant), reads.value.eq(job.value),
            reads.count.eq(Mux(pixel_end, place.rest[:4] + 1, Const(lanes))),
            reads.pixel_first.eq(place.pixel_first), reads.pixel_last.eq(pixel_end),
            reads.range_first.eq(place.fresh | ~job.merged),
            reads.range_last.eq((place.rows == 0) | ~job.merged),
            reads.offset.eq(place.offset), reads.argmax.eq(job.argmax),
            reads.largest.eq(job.largest),
        ]

    def _advance(self, m, place, pixel_end):
        """Go on to the next word of the pixel, or to the next pixel."""
        job, rest, rows = place.job, place.rest, place.rows
        with m.If(~pixel_end):
            m.d.sync += [
                place.addr.eq(place.addr + 1), rest.eq(rest - self._target.channel_parallel),
                place.pixel_first.eq(0),
            ]
        with m.Else():
            m.d.sync += [
                place.addr.eq(place.pixel_addr + job.jump_read + 1),
                place.pixel_addr.eq(place.pixel_addr + job.jump_read + 1),
                rest.eq(job.bytes), rows.eq(rows - 1), place.pixel_first.eq(1), place.fresh.eq(0),
                place.offset.eq(place.offset + job.jump + 1),
            ]
            with m.If(rows == 0):
                m.d.sync += place.running.eq(0)

    def _begin(self, m, place):
        """Go to the first word of the job that comes."""
        p = self.i
        m.d.sync += [
            *(getattr(place.job, n).eq(getattr(p, n)) for n in _LASTING),
            place.running.eq(1), place.fresh.eq(1), place.pixel_first.eq(1),
            place.rows.eq(p.rows), place.rest.eq(p.bytes),
            place.addr.eq(p.bank_addr), place.pixel_addr.eq(p.bank_addr),
            place.offset.eq(p.offset),
        ]
