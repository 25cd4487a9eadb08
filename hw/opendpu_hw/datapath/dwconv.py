# SPDX-License-Identifier: Apache-2.0
"""Multiply-accumulate of the MISC engine: depthwise convolution and everything with a factor."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.datapath.scale import SUM_WIDTH


class Depthwise(wiring.Component):
    """PP_alu rows of CP channels, ``taps`` taps of a kernel column a step.

    Average pooling has its factor as every weight; hard sigmoid has the slope as its one weight. In
    PRELU steps (LEAKYRELU too) operands that are not negative are multiplied by one instead.

    Sliding steps multiply their column by all three columns of the kernel. What the first two give
    waits for the next steps, so each step completes the sum of three columns.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP_alu and CP.
    taps : :class:`int`
        Taps of a kernel column in a step.
    window : :class:`bool`
        Whether there are sliding steps.

    Members
    -------
    x : ``In(signed(8)).array(taps, PP_alu, CP)``
        Operands.
    w : ``In(signed(16)).array(taps, CP)``
        Weights, zero for taps that are not there.
    before : ``In(signed(8)).array(2, 3, CP)``
        In sliding steps, weights of the kernel's first and second column; ``w`` has the third.
    step, prelu : ``In(1)``
        A step is made with these operands.
    sliding, slide : ``In(1)``
        It is a sliding one; one cycle later.
    add, first : ``In(1)``
        One cycle later: its products are summed up, into a new sum if ``first``.
    total : ``Out(signed(SUM_WIDTH)).array(PP_alu, CP)``
        Sums (of up to 8191 products of 8 and 16 bits), :attr:`LATENCY` cycles after the step.
    """

    LATENCY = 2

    def __init__(self, target, *, taps, window=False):
        self._rows, self._lanes, self._taps, self._window = (
            target.alu_pixel_parallel, target.channel_parallel, taps, window)
        super().__init__({
            "x": In(signed(8)).array(taps, self._rows, self._lanes),
            "w": In(signed(16)).array(taps, self._lanes),
            "before": In(signed(8)).array(2, 3, self._lanes),
            "sliding": In(1), "slide": In(1),
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
                start = Mux(self.first, 0, total)
                if self._window:
                    parts = [Signal(signed(18 + k), name=f"part{k}_{h}_{c}", reset_less=True)
                             for k in range(2)]
                    dots = [Signal(signed(18), name=f"dot{k}_{h}_{c}", reset_less=True)
                            for k in range(2)]
                    with m.If(self.step & self.sliding):
                        for k in range(2):
                            column = [self.x[t][h][c] * self.before[k][t][c] for t in range(3)]
                            m.d.sync += dots[k].eq(sum(column[1:], column[0]))
                    with m.If(self.add & self.slide):
                        m.d.sync += [parts[0].eq(dots[0]), parts[1].eq(parts[0] + dots[1])]
                    start = Mux(self.slide, parts[1], start)
                with m.If(self.add):
                    m.d.sync += total.eq((start + dot)[:SUM_WIDTH])
        return m
