# SPDX-License-Identifier: Apache-2.0
"""LOAD: memory to banks, over two channels."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from opendpu_arch import isa
from opendpu_arch.regs import Fault
from opendpu_hw.bus.axi4 import read_signature
from opendpu_hw.datapath.narrow_product import narrow_product
from opendpu_hw.engine.dma_engine import DmaEngine
from opendpu_hw.engine.load_channel import LoadChannel
from opendpu_hw.engine.load_window import OVERLAP_MAX
from opendpu_hw.engine.segment import SegmentStage
from opendpu_hw.memory.ports import BankWrite
from opendpu_hw.shapes import fields_of

#: Channel augmentation works on pixels of at most this many bytes.
MASKED_MAX = 64


class LoadStage(SegmentStage):
    """:class:`SegmentStage` of LOADs, and what their last pixels keep.

    Members
    -------
    tail : ``Out(7)``
        Bytes kept in the first pixel with ``pad_end``; in pixel 0 if all have it.
    """

    def __init__(self, target):
        self._lanes = target.channel_parallel
        super().__init__(isa.Load, jump="jump_read", size=lambda f: f.channel)

    def derived(self):
        return {"tail": Out(7)}

    def elaborate(self, platform):
        self._short = Signal(5)             # pixels that would lie before pixel 0
        self._aligned = Signal(8)
        self._left = Signal(8)
        self._cut = Signal(14)
        m = super().elaborate(platform)
        m.d.comb += self.tail.eq(Mux(self._left > self._cut, (self._left - self._cut)[:7], 0))
        return m

    def touches_memory(self, f, words):
        return f.broadcast != isa.LOAD_CONSTANT

    def second(self, m, f):
        words = 1 + sum(f.channel[:6] >= k for k in range(self._lanes, MASKED_MAX, self._lanes))
        m.d.sync += [
            self._short.eq(Mux(f.length < f.pad_idx, f.pad_idx - f.length, 0)),
            self._aligned.eq(words * self._lanes),
        ]

    def third(self, m, f, words):
        m.d.sync += [
            self._left.eq(self._aligned),
            self._cut.eq(f.pad_end + narrow_product(f.jump_read[:6] + 1, self._short)),
        ]


class Load(DmaEngine):
    """The LOAD engine.

    LOADs of even banks go to one channel, those of odd banks to the other, so every bank sees its
    words in program order. Channels write a bank word a cycle each, work ahead of each other, and
    report in program order.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Parallelism and memories.

    Members
    -------
    (engine members) : see :class:`opendpu_hw.engine.dma_engine.DmaEngine`
    bus0, bus1 : ``Out(read_signature(128))``
        Memory.
    write0, write1 : ``Out(BankWrite)``
        The banks.
    """

    DEPTH = 16
    BUS_ERROR, ADDRESS = Fault.LOAD_BUS_ERROR, Fault.LOAD_ADDRESS

    def __init__(self, target):
        super().__init__(target, {
            "bus0": Out(read_signature(128)), "bus1": Out(read_signature(128)),
            "write0": Out(BankWrite(target)), "write1": Out(BankWrite(target)),
        })

    def elaborate(self, platform):
        target = self._target
        m = Module()

        # -- front: a LOAD in two cycles, to a channel --------------------------------------------
        front = LoadStage(target)
        halt, order, halted = self._begin(m, front)
        channels = [LoadChannel(target) for _ in range(2)]
        f = fields_of(isa.Load, front.words)
        choice = Signal()
        go = Signal()
        beyond = Signal()
        constant = Signal()
        m.d.comb += [
            constant.eq(f.broadcast == isa.LOAD_CONSTANT),
            beyond.eq(front.valid & front.beyond),
            choice.eq(f.bank_id[0]),
            go.eq(front.valid & ~front.beyond & order.ready & ~halted
                  & self._room(channels).bit_select(choice, 1)),
            front.ready.eq(go),
            order.push.eq(go), order.channel.eq(choice),
        ]

        # -- what the channels need to know -------------------------------------------------------
        touching = Signal()
        overlapping = Signal()
        masked = Signal()
        m.d.comb += [
            overlapping.eq(f.jump_read < f.channel),
            touching.eq(Mux(overlapping, f.channel < OVERLAP_MAX, f.jump_read - f.channel < 16)),
            masked.eq((f.channel >= f.jump_read) & (f.channel < MASKED_MAX)),
        ]
        for i, channel in enumerate(channels):
            plan, job = channel.plan, channel.job
            m.d.comb += [
                plan.valid.eq(go & (choice == i) & ~constant), job.valid.eq(go & (choice == i)),
                plan.addr.eq(front.addr), plan.rows.eq(f.length), plan.jump.eq(f.jump_read),
                plan.bytes.eq(f.channel), plan.reach.eq(front.reach), plan.merged.eq(touching),
                job.bank_id.eq(f.bank_id), job.bank_addr.eq(f.bank_addr),
                job.jump_write.eq(f.jump_write), job.rows.eq(f.length), job.bytes.eq(f.channel),
                job.jump.eq(f.jump_read), job.offset.eq(front.addr), job.merged.eq(touching),
                job.overlap.eq(touching & overlapping),
                job.constant.eq(constant), job.value.eq(f.const_value),
                job.masked.eq(masked), job.skip.eq(Mux(masked, f.pad_start, 0)),
                job.pad_idx.eq(f.pad_idx), job.tail.eq(front.tail),
                job.in_tail.eq(masked & (f.length <= f.pad_idx)),
            ]

        # -- channels -----------------------------------------------------------------------------
        self._connect(m, channels, order, halt)
        writes = (self.write0, self.write1)
        for write, channel in zip(writes, channels, strict=True):
            wiring.connect(m, wiring.flipped(write), channel.write)
        m.d.comb += self.active.eq(Cat(w.valid & w.ready for w in writes).any())
        self._complete(m, front, order, channels, halt, beyond)
        return m
