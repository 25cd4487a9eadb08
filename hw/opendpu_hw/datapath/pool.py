# SPDX-License-Identifier: Apache-2.0
"""Maximum of the MISC engine: MAXPOOL, MAXREDUCE and POOL's maxima.

Averages are sums with a factor, see :mod:`opendpu_hw.datapath.dwconv`.
"""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.datapath.compare import exceeds

LOWEST = -128


class MaxPool(wiring.Component):
    """PP_alu rows of CP channels, ``taps`` taps of a kernel column a step.

    Sliding steps take the maximum over the last three steps.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP_alu and CP.
    taps : :class:`int`
        Taps a step.
    window : :class:`bool`
        Whether there are sliding steps.
    vendor : :class:`str` or None
        ``xilinx``: bytes are compared by LUTs of six inputs. Otherwise as simulators do it best.

    Members
    -------
    x : ``In(signed(8)).array(taps, PP_alu, CP)``
        Operands.
    exists : ``In(taps)``
        Which taps count.
    step : ``In(1)``
        A step is made with these operands.
    add, first : ``In(1)``
        One cycle later: it joins the maximum, a new one if ``first``.
    slide : ``In(1)``
        With ``add``: it was a sliding step.
    total : ``Out(signed(8)).array(PP_alu, CP)``
        Maxima, :attr:`LATENCY` cycles after the step.
    """

    LATENCY = 2

    def __init__(self, target, *, taps, window=False, vendor=None):
        self._rows, self._lanes, self._taps, self._window = (
            target.alu_pixel_parallel, target.channel_parallel, taps, window)
        self._vendor = vendor
        super().__init__({
            "x": In(signed(8)).array(taps, self._rows, self._lanes),
            "exists": In(taps), "step": In(1), "slide": In(1), "add": In(1), "first": In(1),
            "total": Out(signed(8)).array(self._rows, self._lanes),
        })

    def elaborate(self, platform):
        m = Module()
        for h in range(self._rows):
            for c in range(self._lanes):
                m.submodules[f"lane{h}_{c}"] = lane = MaxLane(
                    taps=self._taps, window=self._window, vendor=self._vendor)
                m.d.comb += [
                    *(lane.x[t].eq(self.x[t][h][c]) for t in range(self._taps)),
                    lane.exists.eq(self.exists), lane.step.eq(self.step), lane.add.eq(self.add),
                    lane.slide.eq(self.slide), lane.first.eq(self.first),
                    self.total[h][c].eq(lane.total),
                ]
        return m


class MaxLane(wiring.Component):
    """One row of one channel of :class:`MaxPool`.

    Members
    -------
    x, exists, step, add, first, slide, total
        As that has them.
    """

    def __init__(self, *, taps, window, vendor):
        self._taps, self._window, self._vendor = taps, window, vendor
        super().__init__({
            "x": In(signed(8)).array(taps), "exists": In(taps), "step": In(1), "slide": In(1),
            "add": In(1), "first": In(1), "total": Out(signed(8))})

    def elaborate(self, platform):
        m = Module()
        best = Signal(signed(8), reset_less=True)
        here = self.x[0]
        for t in range(1, self._taps):
            larger = Signal(signed(8), name=f"larger{t}")
            m.d.comb += larger.eq(
                Mux(self.exists[t], self._maximum(here, self.x[t]), here))
            here = larger
        with m.If(self.step):
            m.d.sync += best.eq(here)
        # Of this column's steps, or the last two steps if they slide.
        most = Signal(signed(8), reset_less=True)
        total, joined = Signal(signed(8), name="sum", reset_less=True), Signal(signed(8))
        m.d.comb += [
            joined.eq(Mux(self.first & ~self.slide, best, self._maximum(most, best))),
            self.total.eq(total),
        ]
        with m.If(self.add):
            m.d.sync += [total.eq(joined), most.eq(joined)]
        if self._window:
            previous = Signal(signed(8), reset_less=True)
            with m.If(self.add & self.slide):
                m.d.sync += [previous.eq(best), most.eq(self._maximum(previous, best))]
        return m

    def _maximum(self, a, b):
        """Return the larger of two INT8 values."""
        return Mux(exceeds(a, b) if self._vendor == "xilinx" else a > b, a, b)
