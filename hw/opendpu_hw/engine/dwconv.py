# SPDX-License-Identifier: Apache-2.0
"""Multiply-accumulate of the MISC engine: depthwise convolution and everything with a factor."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

#: Width of a sum: 2^13 products of 8 and 16 bits.
SUM_WIDTH = 36


class Depthwise(wiring.Component):
    """PP_alu rows of CP channels, ``taps`` taps of a kernel column a step.

    Output row h takes position h + t with weight t. Average pooling has its factor as every
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
    x : ``In(ArrayLayout(ArrayLayout(signed(8), CP), PP_alu + taps - 1))``
        Operands by position.
    w : ``In(ArrayLayout(ArrayLayout(signed(16), CP), taps))``
        Weights, zero for taps that are not there.
    step, prelu : ``In(1)``
        A step is made with these operands.
    add, first : ``In(1)``
        One cycle later: its products are summed up, into a new sum if ``first``.
    total : ``Out(ArrayLayout(ArrayLayout(signed(SUM_WIDTH), CP), PP_alu))``
        Sums, :attr:`LATENCY` cycles after the step.
    """

    LATENCY = 2

    def __init__(self, target, *, taps):
        self._rows, self._lanes, self._taps = (
            target.alu_pixel_parallel, target.channel_parallel, taps)
        array = data.ArrayLayout
        super().__init__({
            "x": In(array(array(signed(8), self._lanes), self._rows + taps - 1)),
            "w": In(array(array(signed(16), self._lanes), taps)),
            "step": In(1), "prelu": In(1), "add": In(1), "first": In(1),
            "total": Out(array(array(signed(SUM_WIDTH), self._lanes), self._rows)),
        })

    def elaborate(self, platform):
        m = Module()
        width = 24 + (self._taps > 1) + (self._taps > 2)
        for h in range(self._rows):
            for c in range(self._lanes):
                dot = Signal(signed(width), name=f"dot{h}_{c}")
                total = self.total[h][c]
                w = [self.w[t][c] for t in range(self._taps)]
                w[0] = Mux(self.prelu & ~self.x[h][c][7], 1, w[0])
                products = [self.x[h + t][c] * w[t] for t in range(self._taps)]
                with m.If(self.step):
                    m.d.sync += dot.eq(sum(products[1:], products[0]))
                with m.If(self.add):
                    m.d.sync += total.eq((Mux(self.first, 0, total) + dot)[:SUM_WIDTH])
        return m
