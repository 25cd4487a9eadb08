# SPDX-License-Identifier: Apache-2.0
"""AXI4-Lite: the port, and a slave that turns it into register accesses."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature


class AxiLiteSignature(Signature):
    """A 32-bit AXI4-Lite port seen from the master."""

    def __init__(self, *, addr_width):
        super().__init__({
            "awaddr": Out(addr_width), "awprot": Out(3), "awvalid": Out(1), "awready": In(1),
            "wdata": Out(32), "wstrb": Out(4), "wvalid": Out(1), "wready": In(1),
            "bresp": In(2), "bvalid": In(1), "bready": Out(1),
            "araddr": Out(addr_width), "arprot": Out(3), "arvalid": Out(1), "arready": In(1),
            "rdata": In(32), "rresp": In(2), "rvalid": In(1), "rready": Out(1),
        })


class AxiLiteSlave(wiring.Component):
    """One access at a time, each way.

    Members
    -------
    bus : ``In(AxiLiteSignature)``
        The port.
    open : ``In(1)``
        Accesses are accepted from the next cycle on.
    write, write_addr, write_data, write_strobe : ``Out``
        A write happens in the cycle ``write`` is high; ``write_addr`` counts words.
    read, read_addr, read_data : ``Out``, ``Out``, ``In``
        ``read_data`` is taken in the cycle ``read`` is high; ``read_addr`` counts words.
    """

    def __init__(self, *, addr_width):
        self._width = addr_width
        super().__init__({
            "bus": In(AxiLiteSignature(addr_width=addr_width)), "open": In(1),
            "write": Out(1), "write_addr": Out(addr_width - 2), "write_data": Out(32),
            "write_strobe": Out(4),
            "read": Out(1), "read_addr": Out(addr_width - 2), "read_data": In(32),
        })

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        have_addr = Signal()
        have_data = Signal()
        awake = Signal()        # nothing is accepted in the reset cycle: it would be lost
        m.d.sync += awake.eq(self.open)
        m.d.comb += [
            bus.awready.eq(awake & ~have_addr), bus.wready.eq(awake & ~have_data),
            bus.bresp.eq(0), bus.rresp.eq(0), bus.arready.eq(awake & ~self.read & ~bus.rvalid),
            self.write.eq(have_addr & have_data & ~bus.bvalid),
        ]
        with m.If(bus.awvalid & bus.awready):
            m.d.sync += [have_addr.eq(1), self.write_addr.eq(bus.awaddr[2:])]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += [have_data.eq(1), self.write_data.eq(bus.wdata),
                         self.write_strobe.eq(bus.wstrb)]
        with m.If(self.write):
            m.d.sync += [have_addr.eq(0), have_data.eq(0), bus.bvalid.eq(1)]
        with m.Elif(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [self.read.eq(1), self.read_addr.eq(bus.araddr[2:])]
        with m.If(self.read):
            m.d.sync += [self.read.eq(0), bus.rvalid.eq(1), bus.rdata.eq(self.read_data)]
        with m.Elif(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        return m
