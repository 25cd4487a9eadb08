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
        lanes = self._target.channel_parallel
        fields = save_job_fields(self._target)
        lasting = ("bank_id", "jump_read", "bytes", "jump", "merged", "constant", "value", "argmax",
                   "largest")
        job = SimpleNamespace(**{n: Signal(fields[n], name=f"job_{n}") for n in lasting})
        running = Signal()
        fresh = Signal()
        pixel_first = Signal()
        rows = Signal(10)
        rest = Signal(12)
        addr, pixel_addr = Signal.like(self.read.addr), Signal.like(self.read.addr)
        offset = Signal(4)

        # -- words that are read wait here until the packer takes them ----------------------------
        m.submodules.words = words = FieldQueue(word_fields(self._target), depth=self.DEPTH)
        wiring.connect(m, words.o, wiring.flipped(self.o))
        promised = Signal(range(self.DEPTH + 1))

        # -- reads: whether the banks serve one does not reach the walk in the same cycle ---------
        known = {name: bits for name, bits in word_fields(self._target).items() if name != "data"}
        m.submodules.reads = reads = FieldSkid({
            "bank_id": 6, "addr": len(self.read.addr), "constant": 1, "value": 8, **known})
        info, ask = reads.i, reads.o
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
        m.d.comb += [
            words.clear.eq(self.clear), words.i.valid.eq(arriving),
            words.i.data.eq(Mux(
                answer["constant"], answer["value"].replicate(lanes), self.read.data)),
            *(getattr(words.i, name).eq(answer[name]) for name in known),
        ]

        # -- walk ---------------------------------------------------------------------------------
        room = Signal()
        step = Signal()
        pixel_end = Signal()
        job_end = Signal()
        m.d.comb += [
            room.eq((promised != self.DEPTH) & info.ready),
            step.eq(running & room), info.valid.eq(step),
            info.bank_id.eq(job.bank_id), info.addr.eq(addr),
            info.constant.eq(job.constant), info.value.eq(job.value),
            info.count.eq(Mux(pixel_end, rest[:4] + 1, Const(lanes))),
            info.pixel_first.eq(pixel_first), info.pixel_last.eq(pixel_end),
            info.range_first.eq(fresh | ~job.merged),
            info.range_last.eq((rows == 0) | ~job.merged),
            info.offset.eq(offset), info.argmax.eq(job.argmax), info.largest.eq(job.largest),
            pixel_end.eq(rest < lanes),
            job_end.eq(pixel_end & (rows == 0)),
            self.i.ready.eq(~running | (step & job_end)),
        ]
        m.d.sync += promised.eq(next_level(promised, step, words.o.valid & words.o.ready))
        with m.If(step):
            with m.If(~pixel_end):
                m.d.sync += [addr.eq(addr + 1), rest.eq(rest - lanes), pixel_first.eq(0)]
            with m.Else():
                m.d.sync += [
                    addr.eq(pixel_addr + job.jump_read + 1),
                    pixel_addr.eq(pixel_addr + job.jump_read + 1),
                    rest.eq(job.bytes), rows.eq(rows - 1), pixel_first.eq(1), fresh.eq(0),
                    offset.eq(offset + job.jump + 1),
                ]
                with m.If(rows == 0):
                    m.d.sync += running.eq(0)
        with m.If(self.i.valid & self.i.ready):
            p = self.i
            m.d.sync += [
                *(getattr(job, n).eq(getattr(p, n)) for n in lasting),
                running.eq(1), fresh.eq(1), pixel_first.eq(1), rows.eq(p.rows),
                rest.eq(p.bytes), addr.eq(p.bank_addr), pixel_addr.eq(p.bank_addr),
                offset.eq(p.offset),
            ]
        with m.If(self.clear):
            m.d.sync += [running.eq(0), promised.eq(0)]
        return m
