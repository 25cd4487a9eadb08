# SPDX-License-Identifier: Apache-2.0
"""Fetch: a program as a stream of words, read far ahead in long bursts."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from opendpu_hw.bus.axi4 import ADDRESS_WIDTH, PAGE_BYTES, constant_fields, read_signature

#: A fetched word, and whether the bus answered it with an error.
word_shape = data.StructLayout({"data": unsigned(32), "error": unsigned(1)})


class Fetch(wiring.Component):
    """Read 32-bit words from ``addr`` on.

    Reads run ahead of the decoder by up to :attr:`DEPTH` words, also past END; an error response is
    passed on with its word, so only words that are used can fail.

    Members
    -------
    start, addr : ``In(1)``, ``In(40)``
        Begin at byte address ``addr`` (a multiple of four); only while ``idle``.
    stop : ``In(1)``
        While high, nothing is issued and what still comes is dropped.
    words : ``Out(stream.Signature(word_shape))``
        The program.
    bus : ``Out(Axi4 read, 32 bit)``
        Instruction port.
    idle : ``Out(1)``
        Nothing is outstanding.
    """

    #: Words held.
    DEPTH = 512
    #: Beats of the longest burst.
    BURST = 64
    #: Words on their way: enough for a word a cycle at 100 cycles' latency. A program's end waits
    #: until all of them have come.
    ON_THE_WAY = 192

    def __init__(self):
        super().__init__({
            "start": In(1), "addr": In(ADDRESS_WIDTH), "stop": In(1),
            "words": Out(stream.Signature(word_shape)),
            "bus": Out(read_signature(32)), "idle": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=33, depth=self.DEPTH)
        running = Signal()
        next_addr = Signal(ADDRESS_WIDTH)
        promised = Signal(range(self.DEPTH + 1))        # words in the FIFO or on their way
        outstanding = Signal(range(self.DEPTH + 1))     # words on their way
        beats = Signal(range(self.BURST + 1))
        to_page = Signal(range(PAGE_BYTES // 4 + 1))
        issue = Signal()
        received = Signal()
        taken = Signal()
        m.d.comb += [
            to_page.eq(PAGE_BYTES // 4 - next_addr[2:12]),
            beats.eq(Mux(to_page < self.BURST, to_page, self.BURST)),
            issue.eq(running & ~self.stop & ~bus.arvalid & (promised <= self.DEPTH - self.BURST)
                     & (outstanding <= self.ON_THE_WAY - self.BURST)),
            received.eq(bus.rvalid & bus.rready),
            taken.eq(fifo.r_rdy & fifo.r_en),
            *constant_fields(bus, "ar"),
            self.idle.eq((outstanding == 0) & ~bus.arvalid & ~fifo.r_rdy),
            self.words.valid.eq(fifo.r_rdy & ~self.stop),
            self.words.payload.as_value().eq(fifo.r_data),
            fifo.r_en.eq(self.words.ready | self.stop),
            fifo.w_data[:32].eq(bus.rdata), fifo.w_data[32].eq(bus.rresp[1]),
            fifo.w_en.eq(bus.rvalid & ~self.stop),
            bus.rready.eq(1),
        ]
        m.d.sync += [
            outstanding.eq(outstanding + Mux(issue, beats, 0) - received),
            promised.eq(promised + Mux(issue, beats, 0) - taken),
        ]
        with m.If(issue):
            m.d.sync += [
                bus.arvalid.eq(1), bus.araddr.eq(next_addr), bus.arlen.eq(beats - 1),
                next_addr.eq(next_addr + (beats << 2)),
            ]
        with m.Elif(bus.arready):
            m.d.sync += bus.arvalid.eq(0)
        with m.If(self.stop):
            m.d.sync += running.eq(0)
        with m.If(self.start):
            m.d.sync += [running.eq(1), next_addr.eq(self.addr), promised.eq(0)]
        return m
