# SPDX-License-Identifier: Apache-2.0
"""SAVE: banks to memory, over two channels; and END."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from opendpu_arch import isa
from opendpu_arch.regs import Fault
from opendpu_hw.bus.axi4 import ADDRESS_WIDTH, write_signature
from opendpu_hw.bus.level import next_level
from opendpu_hw.engine.dma_engine import DmaEngine
from opendpu_hw.engine.save_channel import SaveChannel
from opendpu_hw.engine.segment import SegmentStage
from opendpu_hw.memory.ports import BankRead
from opendpu_hw.shapes import fields_of


class SaveStage(SegmentStage):
    """:class:`SegmentStage` of SAVEs and END, and where they go.

    Members
    -------
    end : ``Out(1)``
        It is END.
    goes, waits : ``Out(2)``
        A bit each: channel of a SAVE, and the one whose SAVEs in flight it may have to wait for.
    """

    def __init__(self, *, size):
        super().__init__(isa.Save, jump="jump_write", size=size)

    def derived(self):
        return {"end": Out(1), "goes": Out(2), "waits": Out(2)}

    def touches_memory(self, f, words):
        return ~_is_end(words)

    def third(self, m, f, words):
        end, own = _is_end(words), words[0][24 + isa.Engine.SAVE]
        choice = Mux(f.const_en, f.hp_id[0], f.bank_id[0])
        m.d.sync += [
            self.end.eq(end),
            self.goes.eq(Cat(~choice, choice) & (~end).replicate(2)),
            self.waits.eq(Cat(choice, ~choice) & (own & ~end).replicate(2)),
        ]


def _is_end(words):
    return words[0][28:32] == isa.Opcode.END


class Save(DmaEngine):
    """The SAVE engine; END takes its turn here too.

    SAVEs of even banks go to one channel, those of odd banks to the other, and constants to that of
    their ``hp_id``. Channels read a bank word a cycle each and work side by side: a SAVE that waits
    for its predecessor (its own bit in ``dpdon``) is only held back while one in flight on the
    other channel writes the same stretch of memory. Comparing stretches takes it a cycle, unless
    nothing is in flight there. ``done`` comes with the last response, in program order.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Parallelism and memories.

    Members
    -------
    (engine members) : see :class:`opendpu_hw.engine.dma_engine.DmaEngine`
    bus0, bus1 : ``Out(write_signature(128))``
        Memory.
    read0, read1 : ``Out(BankRead)``
        The banks.
    """

    DEPTH = 8
    BUS_ERROR, ADDRESS = Fault.SAVE_BUS_ERROR, Fault.SAVE_ADDRESS

    def __init__(self, target):
        super().__init__(target, {
            "bus0": Out(write_signature(128)), "bus1": Out(write_signature(128)),
            "read0": Out(BankRead(target)), "read1": Out(BankRead(target)),
        })

    def elaborate(self, platform):
        m = Module()
        front = SaveStage(size=self._size)
        halt, order, halted = self._begin(m, front)
        channels = [SaveChannel(self._target) for _ in range(2)]
        end = Signal()
        beyond = Signal()
        m.d.comb += [
            end.eq(front.end),
            beyond.eq(front.valid & front.beyond),
        ]
        blocked = self._blocked(m, front, order, end)
        go = Signal()
        m.d.comb += [
            go.eq(front.valid & ~front.beyond & order.ready & ~halted
                  & (end | (~blocked & (front.goes & self._room(channels)).any()))),
            front.ready.eq(go),
            order.push.eq(go), order.immediate.eq(end), order.channel.eq(front.goes[1]),
        ]
        self._hand_on(m, front, channels, go)
        self._connect(m, channels, order, halt)
        for read, channel in zip((self.read0, self.read1), channels, strict=True):
            wiring.connect(m, wiring.flipped(read), channel.read)
        m.d.comb += self.active.eq(Cat(b.wvalid & b.wready for b in (self.bus0, self.bus1)).any())
        self._complete(m, front, order, channels, halt, beyond)
        return m

    def _blocked(self, m, front, order, end):
        """Return whether the SAVE at the front may not begin because of one in flight.

        Stretches in flight are a ring, one for each instruction of the order. A SAVE that has not
        been compared with them yet waits for all on the other channel.
        """
        put = Signal(range(self.DEPTH))
        get = Signal(range(self.DEPTH))
        some = Signal(2)                    # in flight, by channel
        in_way = Signal(self.DEPTH)         # of the SAVE that is here, as compared
        compared = Signal()                 # in the cycle before
        touched = [self._touched(m, i, front, order, put == i, get == i, end)
                   for i in range(self.DEPTH)]
        for c in range(2):
            flying = Signal(range(self.DEPTH + 1), name=f"flying_{c}")
            comes = order.push & front.goes[c]
            m.d.sync += [
                flying.eq(next_level(flying, comes, order.left[c])),
                some[c].eq(comes | flying[1:].any() | (flying[0] & ~order.left[c])),
            ]
            with m.If(self.abort):
                m.d.sync += [flying.eq(0), some[c].eq(0)]
        m.d.sync += [
            in_way.eq(Cat(touched)),
            put.eq(put + order.push), get.eq(get + order.done),
            compared.eq(front.valid & ~front.ready & ~self.abort),
        ]
        with m.If(self.abort):
            m.d.sync += [put.eq(0), get.eq(0)]
        blocked = Signal()
        m.d.comb += blocked.eq(Mux(compared, in_way.any(), (front.waits & some).any()))
        return blocked

    def _touched(self, m, i, front, order, put_here, get_here, end):
        """Keep a place of the ring; return whether the SAVE at the front has to wait for it.

        ``put_here``, ``get_here``: the next instruction takes this place, and the next one that is
        done has it.
        """
        used = Signal(name=f"used_{i}")
        channel = Signal(name=f"channel_{i}")
        first = Signal(ADDRESS_WIDTH, name=f"first_{i}")
        last = Signal(ADDRESS_WIDTH, name=f"last_{i}")
        with m.If(order.done & get_here):
            m.d.sync += used.eq(0)
        with m.If(order.push & put_here):
            m.d.sync += used.eq(~end)
        # Loaded until a SAVE takes the place: that it does is known late.
        with m.If(~used & put_here):
            m.d.sync += [
                channel.eq(front.goes[1]), first.eq(front.addr), last.eq(front.last_addr)]
        with m.If(self.abort):
            m.d.sync += used.eq(0)
        return (used & ~(order.done & get_here) & front.waits.bit_select(channel, 1)
                & (first <= front.last_addr) & (front.addr <= last))

    def _hand_on(self, m, front, channels, go):
        """Tell the channel of the SAVE at the front what it needs to know of it."""
        f = fields_of(isa.Save, front.words)
        argmax = Signal()
        size = Signal(12)
        touching = Signal()
        m.d.comb += [
            argmax.eq(self._searches(f)),
            size.eq(self._size(f)),
            touching.eq((f.jump_write == size) | (f.length == 0)),
        ]
        for i, c in enumerate(channels):
            plan, job = c.plan, c.job
            valid = go & front.goes[i]
            m.d.comb += [
                plan.valid.eq(valid), plan.addr.eq(front.addr), plan.rows.eq(f.length),
                plan.jump.eq(f.jump_write), plan.bytes.eq(size), plan.merged.eq(touching),
                plan.reach.eq(front.reach),
                job.valid.eq(valid), job.bank_id.eq(f.bank_id), job.bank_addr.eq(f.bank_addr),
                job.jump_read.eq(f.jump_read), job.rows.eq(f.length), job.bytes.eq(f.channel),
                job.jump.eq(f.jump_write), job.offset.eq(front.addr), job.merged.eq(touching),
                job.constant.eq(f.const_en), job.value.eq(f.const_value),
                job.argmax.eq(argmax), job.largest.eq(f.argmax[0]),
            ]

    @staticmethod
    def _searches(f):
        """Return whether a SAVE writes the argmax of each pixel."""
        return f.argmax[1] & ~f.const_en

    @classmethod
    def _size(cls, f):
        """Return the bytes of a pixel in memory, less one."""
        return Mux(cls._searches(f), 0, f.channel)
