# SPDX-License-Identifier: Apache-2.0
"""LOAD: memory to banks, over two channels."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import isa
from opendpu_arch.errors import TargetError
from opendpu_arch.regs import Fault
from opendpu_hw.bus.axi4 import read_signature
from opendpu_hw.engine.base import engine_members
from opendpu_hw.engine.dma_order import DmaOrder
from opendpu_hw.engine.load_channel import OVERLAP_MAX, LoadChannel
from opendpu_hw.engine.segment import SegmentStage
from opendpu_hw.memory.ports import BankWrite
from opendpu_hw.shapes import fields_of, segments_shape

#: Channel augmentation works on pixels of at most this many bytes.
MASKED_MAX = 64


class Load(wiring.Component):
    """The LOAD engine.

    LOADs of even banks go to one channel, those of odd banks to the other, so every bank sees its
    words in program order. Channels write a bank word a cycle each, work ahead of each other, and
    report in program order.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Parallelism and memories. Elaboration raises :class:`opendpu_arch.errors.TargetError` if it
        has ``load_mean``: where the means come from is known of no target.

    Members
    -------
    (engine members) : see :func:`opendpu_hw.engine.base.engine_members`
    bus0, bus1 : ``Out(read_signature(128))``
        Memory.
    write0, write1 : ``Out(BankWrite)``
        The banks.
    segments : ``In(segments_shape)``
        Where the address registers point, and how far.
    """

    #: Most LOADs in flight.
    DEPTH = 16

    def __init__(self, target):
        self._target = target
        super().__init__({
            **engine_members(),
            "bus0": Out(read_signature(128)), "bus1": Out(read_signature(128)),
            "write0": Out(BankWrite(target)), "write1": Out(BankWrite(target)),
            "segments": In(segments_shape),
        })

    def elaborate(self, platform):
        target = self._target
        if target.load_mean:
            raise TargetError(
                f"target {target.name} has load_mean=True, but must have False: "
                "no bank with means is known")
        m = Module()
        lanes = target.channel_parallel
        halt = Signal()
        m.d.comb += halt.eq(self.abort | self.fault.valid)

        # -- front: one LOAD a cycle, to a channel ------------------------------------------------
        m.submodules.front = front = SegmentStage(
            isa.Load, jump="jump_read", size=lambda f: f.channel)
        m.submodules.order = order = DmaOrder(depth=self.DEPTH)
        channels = [LoadChannel(target) for _ in range(2)]
        m.submodules.channel_0, m.submodules.channel_1 = channels
        m.d.comb += [
            front.insn.payload.eq(self.insn.payload),
            front.insn.valid.eq(self.insn.valid & ~halt),
            self.insn.ready.eq(front.insn.ready & ~halt),
            front.segments.eq(self.segments),
            front.clear.eq(self.abort),
            order.clear.eq(self.abort),
        ]
        f = fields_of(isa.Load, front.words)
        choice = Signal()
        go = Signal()
        beyond = Signal()
        constant = Signal()
        room = [c.plan.ready & c.job.ready for c in channels]
        m.d.comb += [
            constant.eq(f.broadcast == isa.LOAD_CONSTANT),
            beyond.eq(front.valid & front.beyond & ~constant),
            choice.eq(f.bank_id[0]),
            go.eq(front.valid & ~beyond & order.ready & ~halt & Mux(choice, room[1], room[0])),
            front.ready.eq(go),
            order.push.eq(go), order.channel.eq(choice),
        ]

        # -- what the channels need to know -------------------------------------------------------
        touching = Signal()
        overlapping = Signal()
        masked = Signal()
        tail = Signal(7)
        m.d.comb += [
            overlapping.eq(f.jump_read < f.channel),
            touching.eq(Mux(overlapping, f.channel < OVERLAP_MAX, f.jump_read - f.channel < 16)),
            masked.eq((f.channel >= f.jump_read) & (f.channel < MASKED_MAX)),
            tail.eq(self._tail(m, f, lanes)),
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
                job.pad_idx.eq(f.pad_idx), job.tail.eq(tail),
            ]

        # -- channels -----------------------------------------------------------------------------
        buses, writes = (self.bus0, self.bus1), (self.write0, self.write1)
        for i, channel in enumerate(channels):
            wiring.connect(m, wiring.flipped(buses[i]), channel.bus)
            wiring.connect(m, wiring.flipped(writes[i]), channel.write)
            m.d.comb += [
                channel.stop.eq(halt),
                order.finished[i].eq(channel.finished), order.failed[i].eq(channel.failed),
            ]

        # -- completion ---------------------------------------------------------------------------
        m.d.comb += [
            self.done.eq(order.done & ~halt),
            self.busy.eq(~order.empty | front.busy),
            self.active.eq(Cat(w.valid & w.ready for w in writes).any()),
            self.idle.eq(channels[0].empty & channels[1].empty & (halt | ~self.busy)),
        ]
        with m.If(order.fault.any() & ~halt):
            m.d.sync += [
                self.fault.valid.eq(1), self.fault.cause.eq(Fault.LOAD_BUS_ERROR),
                self.fault.addr.eq(Mux(
                    order.fault[1], channels[1].fault_addr, channels[0].fault_addr)),
            ]
        with m.Elif(beyond & order.empty & ~halt):
            m.d.sync += [
                self.fault.valid.eq(1), self.fault.cause.eq(Fault.LOAD_ADDRESS),
                self.fault.addr.eq(front.last_addr),
            ]
        with m.If(self.abort):
            m.d.sync += self.fault.valid.eq(0)
        return m

    @staticmethod
    def _tail(m, f, lanes):
        """Bytes kept in the first pixel with ``pad_end``; in pixel 0 if all have it."""
        words = Signal(range(MASKED_MAX // lanes + 2))
        aligned = Signal(8)
        cut = Signal(14)
        tail = Signal(7)
        short = Signal(5)                   # pixels that would lie before pixel 0
        m.d.comb += [
            words.eq(1 + sum(f.channel[:6] >= k for k in range(lanes, MASKED_MAX, lanes))),
            aligned.eq(words * lanes),
            short.eq(Mux(f.length < f.pad_idx, f.pad_idx - f.length, 0)),
            cut.eq(f.pad_end + short * (f.jump_read[:6] + 1)),
            tail.eq(Mux(aligned > cut, (aligned - cut)[:7], 0)),
        ]
        return tail
