# SPDX-License-Identifier: Apache-2.0
"""The address side of a LOAD channel: bursts, and the beats that wait for the banks."""

from amaranth.hdl import Cat, Const, Mux, ResetInserter, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.utils import ceil_log2

from opendpu_hw.bus.axi4 import constant_fields
from opendpu_hw.bus.burst import BEAT_SHIFT, BurstGenerator, BurstIssuer

#: Beats between the bus and the banks.
WINDOW = 16
#: Longest pixel, in bytes, that may overlap the next one in one fetched range.
OVERLAP_MAX = 128
#: Bits of a beat's number, which counts modulo four windows.
POSITION = ceil_log2(WINDOW) + 2


class BeatWindow:
    """Bursts of plans, and their beats in the order in which they come.

    Attributes
    ----------
    newest, keep : ``Signal(POSITION)``
        Number of the newest beat, and of the oldest one still needed, which the user gives.
    low_port, high_port : read ports
        Two beats; the user gives their addresses.
    error, error_beat, error_before : ``Signal()``, ``Signal(POSITION)``, ``Signal(POSITION)``
        A beat came with an error: its number, and the one before.
    """

    def __init__(self, m, bus, plans, *, stop, fault_addr):
        """Add it to ``m``.

        It has a read port of the bus and a queue of plans, drops all work with ``stop``, and
        sets ``fault_addr`` to the address of the burst that failed first.
        """
        self._bus, self._stop, self._fault_addr = bus, stop, fault_addr
        self.error = Signal(name="error")
        self.error_beat = Signal(POSITION, name="error_beat")
        self.error_before = Signal(POSITION, name="error_before")
        self._put = Signal(POSITION, name="put")        # number of the next beat
        self.newest = Signal(POSITION, name="newest", init=-1)
        self.keep = Signal(POSITION, name="keep")
        self._room = Signal(name="room", init=1)        # for another beat
        self._issue(m, plans)
        self._take_beats(m)

    def _issue(self, m, plans):
        """Ask for bursts, also for those of LOADs whose turn has not come."""
        bus = self._bus
        m.submodules.bursts = bursts = ResetInserter({"sync": self._stop})(BurstGenerator())
        m.submodules.issuer = self._issuer = issuer = BurstIssuer()
        m.d.comb += [
            issuer.stop.eq(self.error),
            *constant_fields(bus, "ar"),
            bus.araddr.eq(issuer.addr), bus.arlen.eq(issuer.len),
            bus.arvalid.eq(issuer.valid), issuer.ready.eq(bus.arready),
        ]
        # A burst may still be taken in the first cycle of ``stop``, none later.
        self.empty = issuer.empty & ~bursts.o.valid
        wiring.connect(m, plans, bursts.i)
        wiring.connect(m, bursts.o, issuer.i)

    def _take_beats(self, m):
        """Keep beats while there is room; note where the first error was."""
        bus, put, stop = self._bus, self._put, self._stop
        m.submodules.window = window = memory.Memory(
            shape=unsigned(128), depth=WINDOW, init=[])
        put_port = window.write_port()
        self.low_port = window.read_port(domain="comb")
        self.high_port = window.read_port(domain="comb")
        # Registers, because the bus is far: beats that leave make room a cycle later.
        room, stopping = self._room, Signal()
        used = Signal(POSITION)             # negative while the next byte is beyond a gap
        few = Signal()
        accept = Signal()
        m.d.comb += [
            used.eq(put - self.keep),
            few.eq(used[-1] | ~used[ceil_log2(WINDOW):].any()),
            bus.rready.eq(stopping | room),
            accept.eq(bus.rvalid & bus.rready),
            self._issuer.retire.eq(accept & bus.rlast),
            put_port.addr.eq(put), put_port.data.eq(bus.rdata), put_port.en.eq(accept),
        ]
        fits_one_more = few & (used[-1] | ~used[:ceil_log2(WINDOW)].all())
        m.d.sync += [room.eq(Mux(accept, fits_one_more, few)), stopping.eq(stop)]
        with m.If(accept):
            m.d.sync += [put.eq(put + 1), self.newest.eq(put)]
            with m.If(bus.rresp[1] & ~self.error & ~stop):
                m.d.sync += [
                    self.error.eq(1), self.error_beat.eq(put), self.error_before.eq(put - 1),
                    self._fault_addr.eq(Cat(Const(0, BEAT_SHIFT), self._issuer.oldest_beat)),
                ]

    def reset(self, m):
        """Forget all beats; to be said after what takes them."""
        m.d.sync += [self._put.eq(0), self.newest.eq(-1), self.error.eq(0), self._room.eq(1)]
