# SPDX-License-Identifier: Apache-2.0
"""What LOAD and SAVE have in common: two channels behind one front, their ends and faults."""

from amaranth.hdl import Cat, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from opendpu_hw.engine.base import engine_members
from opendpu_hw.engine.dma_order import DmaOrder
from opendpu_hw.shapes import segments_shape


class DmaEngine(wiring.Component):
    """An engine that moves instructions' bytes over two channels, each with a bus.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Parallelism and memories.
    members : dict
        More members: ``bus0`` and ``bus1``, and the ports of the banks.

    Members
    -------
    (engine members) : see :func:`opendpu_hw.engine.base.engine_members`
    segments : ``In(segments_shape)``
        Where the address registers point, and how far.
    """

    #: Most instructions in flight.
    DEPTH: int
    #: Causes of faults: a bus answers with an error; an instruction reaches beyond its segment.
    BUS_ERROR: int
    ADDRESS: int

    def __init__(self, target, members):
        self._target = target
        super().__init__({
            **engine_members(faults=True), **members, "segments": In(segments_shape)})

    def _begin(self, m, front):
        """Connect the front with instructions; return whether nothing counts, and the order.

        The third value returned is the first one a cycle later. That is soon enough for an
        instruction to begin: what it does is forgotten with all the rest.
        """
        halt = Signal()
        halted = Signal()
        m.d.comb += halt.eq(self.abort | self.fault.valid)
        m.d.sync += halted.eq(halt)
        m.submodules.front = front
        m.submodules.order = order = DmaOrder(depth=self.DEPTH)
        m.d.comb += [
            front.insn.payload.eq(self.insn.payload),
            front.insn.valid.eq(self.insn.valid & ~halt),
            self.insn.ready.eq(front.insn.ready & ~halt),
            front.segments.eq(self.segments),
            front.clear.eq(self.abort),
            order.clear.eq(self.abort),
        ]
        return halt, order, halted

    def _room(self, channels):
        """Return which channels take an instruction, a bit each."""
        return Cat(c.plan.ready & c.job.ready for c in channels)

    def _connect(self, m, channels, order, halt):
        """Connect the channels with their buses, and with the order."""
        m.submodules.channel_0, m.submodules.channel_1 = channels
        for i, (channel, bus) in enumerate(zip(channels, (self.bus0, self.bus1), strict=True)):
            wiring.connect(m, wiring.flipped(bus), channel.bus)
            m.d.comb += [
                channel.stop.eq(halt),
                order.finished[i].eq(channel.finished), order.failed[i].eq(channel.failed),
            ]

    def _complete(self, m, front, order, channels, halt, beyond):
        """Report what is done, in program order, and the first fault.

        ``beyond``: the instruction at the front reaches beyond its segment. That counts when all
        before it are done.
        """
        m.d.comb += [
            self.done.eq(order.done & ~halt),
            self.busy.eq(~order.empty | front.busy),
            self.idle.eq(channels[0].empty & channels[1].empty & (halt | ~self.busy)),
        ]
        with m.If(order.fault.any() & ~halt):
            m.d.sync += [
                self.fault.valid.eq(1), self.fault.cause.eq(self.BUS_ERROR),
                self.fault.addr.eq(Mux(
                    order.fault[1], channels[1].fault_addr, channels[0].fault_addr)),
            ]
        with m.Elif(beyond & order.empty & ~halt):
            m.d.sync += [
                self.fault.valid.eq(1), self.fault.cause.eq(self.ADDRESS),
                self.fault.addr.eq(front.last_addr),
            ]
        with m.If(self.abort):
            m.d.sync += self.fault.valid.eq(0)
