# SPDX-License-Identifier: Apache-2.0
"""Multiply-accumulate of the MISC engine: depthwise convolution and everything with a factor."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.datapath.scale import SUM_WIDTH


class Depthwise(wiring.Component):
    """PP_alu rows of CP channels, ``taps`` taps of a kernel column a step.

    Average pooling has its factor as every
    weight; hard sigmoid has the slope as its one weight. In PRELU steps (LEAKYRELU too) operands
    that are not negative are multiplied by one instead.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP_alu and CP.
    taps : :class:`int`
        Multipliers of a lane.

    Members
    -------
    x : ``In(signed(8)).array(taps, PP_alu, CP)``
        Operands.
    w : ``In(signed(16)).array(taps, CP)``
        Weights, zero for taps that are not there.
    step, prelu : ``In(1)``
        A step is made with these operands.
    add, first : ``In(1)``
        One cycle later: its products are summed up, into a new sum if ``first``.
    total : ``Out(signed(SUM_WIDTH)).array(PP_alu, CP)``
        Sums (of up to 8191 products of 8 and 16 bits), :attr:`LATENCY` cycles after the step.
    """

    LATENCY = 2

    def __init__(self, target, *, taps):
        self._rows, self._lanes, self._taps = (
            target.alu_pixel_parallel, target.channel_parallel, taps)
        super().__init__({
            "x": In(signed(8)).array(taps, self._rows, self._lanes),
            "w": In(signed(16)).array(taps, self._lanes),
            "step": In(1), "prelu": In(1), "add": In(1), "first": In(1),
            "total": Out(signed(SUM_WIDTH)).array(self._rows, self._lanes),
        })

    def elaborate(self, platform):
        m = Module()
        width = 24 + (self._taps > 1) + (self._taps > 2)
        for h in range(self._rows):
            for c in range(self._lanes):
                dot = Signal(signed(width), name=f"dot{h}_{c}", reset_less=True)
                total = Signal(signed(SUM_WIDTH), name=f"sum{h}_{c}", reset_less=True)
                m.d.comb += self.total[h][c].eq(total)
                w = [self.w[t][c] for t in range(self._taps)]
                w[0] = Mux(self.prelu & ~self.x[0][h][c][7], 1, w[0])
                products = [self.x[t][h][c] * w[t] for t in range(self._taps)]
                with m.If(self.step):
                    m.d.sync += dot.eq(sum(products[1:], products[0]))
                with m.If(self.add):
                    m.d.sync += total.eq((Mux(self.first, 0, total) + dot)[:SUM_WIDTH])
        return m
