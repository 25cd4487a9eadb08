# SPDX-License-Identifier: Apache-2.0
"""Maximum of the MISC engine: MAXPOOL, MAXREDUCE and POOL's maxima.

Averages are sums with a factor, see :mod:`opendpu_hw.datapath.dwconv`.
"""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.datapath.compare import exceeds

LOWEST = -128


def maximum(a, b):
    """Return the larger of two INT8 values."""
    return Mux(exceeds(a, b), a, b)


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

    def __init__(self, target, *, taps, window=False):
        self._rows, self._lanes, self._taps, self._window = (
            target.alu_pixel_parallel, target.channel_parallel, taps, window)
        super().__init__({
            "x": In(signed(8)).array(taps, self._rows, self._lanes),
            "exists": In(taps), "step": In(1), "slide": In(1),
            "add": In(1), "first": In(1),
            "total": Out(signed(8)).array(self._rows, self._lanes),
        })

    def elaborate(self, platform):
        m = Module()
        for h in range(self._rows):
            for c in range(self._lanes):
                best = Signal(signed(8), name=f"best{h}_{c}", reset_less=True)
                here = self.x[0][h][c]
                for t in range(1, self._taps):
                    larger = Signal(signed(8), name=f"larger{h}_{c}_{t}")
                    other = self.x[t][h][c]
                    m.d.comb += larger.eq(Mux(self.exists[t], maximum(here, other), here))
                    here = larger
                total = Signal(signed(8), name=f"total{h}_{c}", reset_less=True)
                m.d.comb += self.total[h][c].eq(total)
                with m.If(self.step):
                    m.d.sync += best.eq(here)
                # Of this column's steps, or the last two steps if they slide.
                most = Signal(signed(8), name=f"most{h}_{c}", reset_less=True)
                joined = Signal(signed(8), name=f"joined{h}_{c}")
                m.d.comb += joined.eq(Mux(self.first & ~self.slide, best, maximum(most, best)))
                with m.If(self.add):
                    m.d.sync += [total.eq(joined), most.eq(joined)]
                if self._window:
                    previous = Signal(signed(8), name=f"previous{h}_{c}", reset_less=True)
                    with m.If(self.add & self.slide):
                        m.d.sync += [previous.eq(best), most.eq(maximum(previous, best))]
        return m
