# SPDX-License-Identifier: Apache-2.0
"""Multiply-accumulate of the MISC engine: depthwise convolution and everything with a factor."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.datapath.scale import SUM_WIDTH
from opendpu_hw.datapath.tap_sums import PART_WIDTH, WINDOW, SlidingSums, TapSum


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
    vendor : :class:`str` or None
        See :mod:`opendpu_hw.datapath.tap_sums`.

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
    add : ``In(1)``
        One cycle later: the products of its taps are summed up.
    join, first, slid : ``In(1)``
        Another cycle later: that joins the sum, a new one if ``first``; the step was a sliding one.
    clear : ``In(1)``
        ``total`` becomes zero where nothing joins it.
    total : ``Out(signed(SUM_WIDTH)).array(PP_alu, CP)``
        Sums (of up to 8191 products of 8 and 16 bits), :attr:`LATENCY` cycles after the step.
    """

    LATENCY = 3

    def __init__(self, target, *, taps, window=False, vendor=None):
        self._vendor = vendor
        self._rows, self._lanes, self._taps, self._window = (
            target.alu_pixel_parallel, target.channel_parallel, taps, window)
        super().__init__({
            "x": In(signed(8)).array(taps, self._rows, self._lanes),
            "w": In(signed(16)).array(taps, self._lanes),
            "before": In(signed(8)).array(2, 3, self._lanes),
            "sliding": In(1), "slide": In(1),
            "step": In(1), "prelu": In(1), "add": In(1),
            "join": In(1), "first": In(1), "slid": In(1), "clear": In(1),
            "total": Out(signed(SUM_WIDTH)).array(self._rows, self._lanes),
        })

    def elaborate(self, platform):
        m = Module()
        sliding = self._sliding(m) if self._window else None
        for h in range(self._rows):
            for c in range(self._lanes):
                m.submodules[f"dot{h}_{c}"] = dot = TapSum(taps=self._taps, vendor=self._vendor)
                total = Signal(signed(SUM_WIDTH), name=f"sum{h}_{c}", reset_less=True)
                w = [self.w[t][c] for t in range(self._taps)]
                w[0] = Mux(self.prelu & ~self.x[0][h][c][7], 1, w[0])
                m.d.comb += [
                    *(dot.x[t].eq(self.x[t][h][c]) for t in range(self._taps)),
                    *(dot.w[t].eq(value) for t, value in enumerate(w)),
                    dot.step.eq(self.step), dot.add.eq(self.add), self.total[h][c].eq(total),
                ]
                start, carry = Mux(self.first, 0, total), Const(0)
                if sliding:
                    part, borrow = sliding[h][c]
                    start = Mux(self.slid, part, start)
                    carry = borrow if isinstance(borrow, Const) else self.slid & borrow
                with m.If(self.join):
                    m.d.sync += total.eq(_sum(start, dot.total, carry))
                with m.Elif(self.clear):
                    m.d.sync += total.eq(0)
        return m

    def _sliding(self, m):
        """Return, by row and channel, what waits for the last column, and what to add to it."""
        kept = [[None] * self._lanes for _ in range(self._rows)]
        for h in range(0, self._rows, 2):
            for c in range(self._lanes):
                m.submodules[f"sliding{h}_{c}"] = sums = SlidingSums(vendor=self._vendor)
                m.d.comb += [
                    *(sums.w[k][t].eq(self.before[k][t][c])
                      for k in range(2) for t in range(WINDOW)),
                    sums.step.eq(self.step & self.sliding), sums.add.eq(self.add & self.slide),
                ]
                borrow = Signal(name=f"borrow{h + 1}_{c}", reset_less=True)
                for n in range(min(2, self._rows - h)):
                    part = Signal(signed(PART_WIDTH), name=f"part{h + n}_{c}", reset_less=True)
                    m.d.comb += [sums.x[n][t].eq(self.x[t][h + n][c]) for t in range(WINDOW)]
                    with m.If(self.join & self.slid):
                        m.d.sync += part.eq(sums.part[n])
                    kept[h + n][c] = part, borrow if n and self._vendor else Const(0)
                with m.If(self.join & self.slid):
                    m.d.sync += borrow.eq(sums.borrow)
        return kept


def _sum(a, b, carry):
    """Return the sum of two numbers and a bit: one adder with a carry into bit 0."""
    if isinstance(carry, Const):
        return (a + b)[:SUM_WIDTH]
    return (Cat(Const(1, 1), a).as_signed() + Cat(carry, b).as_signed())[1:SUM_WIDTH + 1]
