# SPDX-License-Identifier: Apache-2.0
"""Multiply-accumulate of the MISC engine: depthwise convolution and everything with a factor."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch.extensions import Extension
from opendpu_hw.datapath.double_tap_sums import DoubleRateSlidingSums, SlidingWeights
from opendpu_hw.datapath.scale import SUM_WIDTH
from opendpu_hw.datapath.tap_sums import (
    LEFT_WIDTH,
    PART_WIDTH,
    TERM_BITS,
    WINDOW,
    PairedTapSums,
    SlidingSums,
    TapSum,
    may_be_paired,
)
from opendpu_hw.double_rate import Phase


class Depthwise(wiring.Component):
    """PP_alu rows of CP channels, ``taps`` taps of a kernel column a step.

    Average pooling has its factor as every weight; hard sigmoid has the slope as its one weight. In
    PRELU steps (LEAKYRELU too) operands that are not negative are multiplied by one instead. ELEW's
    sums and products are made here too. All of these but average pooling are wide steps, and so are
    those of weights of 16 bits: they have one tap, because two rows share multipliers of bytes.

    Sliding steps multiply their column by all three columns of the kernel. What the first two give
    waits for the next steps, so each step completes the sum of three columns.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP_alu and CP, and whether there are terms (extension ``scaled``).
    taps : :class:`int`
        Taps of a kernel column in a step.
    window : :class:`bool`
        Whether there are sliding steps.
    vendor : :class:`str` or None
        See :mod:`opendpu_hw.datapath.tap_sums`.
    double_rate : :class:`bool`
        For ``xilinx``: whether the blocks for sliding steps have a doubled clock.

    Members
    -------
    x : ``In(signed(8)).array(taps, PP_alu, CP)``
        Operands.
    w : ``In(signed(16)).array(taps, CP)``
        Weights, zero for taps that are not there; bytes but in wide steps.
    before : ``In(signed(8)).array(2, 3, CP)``
        In sliding steps, weights of the kernel's first and second column; ``w`` has the third. With
        ``double_rate`` they are not looked at.
    early, slot : ``In(1)``, ``In(1)``
        With ``double_rate``: see :class:`opendpu_hw.datapath.double_tap_sums.SlidingWeights`.
    step, wide, prelu : ``In(1)``
        A step is made with these operands; a wide one; PRELU's.
    left : ``In(signed(10)).array(PP_alu, CP)``
        What the first tap multiplies: its operands, or ELEW's.
    eltwise, multiply, right : ``In(1)``, ``In(1)``, ``In(signed(10)).array(PP_alu, CP)``
        With ``step`` and ``wide``: ``left`` times this, or one, instead of a weight.
    sliding, slide : ``In(1)``
        It is a sliding one; one cycle later.
    add, apart : ``In(1)``
        One cycle later: the products of its taps are summed up; it was a wide step.
    term, termed : ``In(signed(32)).array(PP_alu, CP)``, ``In(1)``
        With the extension ``scaled``: valid with ``step``, and, with ``add`` and ``apart``, whether
        it counts in place of the product.
    join, first, slid : ``In(1)``
        Another cycle later: that joins the sum, a new one if ``first``; the step was a sliding one.
    clear : ``In(1)``
        ``total`` becomes zero; nothing joins it then.
    total : ``Out(signed(SUM_WIDTH)).array(PP_alu, CP)``
        Sums (of up to 8191 products of 8 and 16 bits), :attr:`LATENCY` cycles after the step.
    """

    LATENCY = 3

    def __init__(self, target, *, taps, window=False, vendor=None, double_rate=False):
        self._vendor, self._double_rate = vendor, double_rate
        self._rows, self._lanes, self._taps, self._window = (
            target.alu_pixel_parallel, target.channel_parallel, taps, window)
        self._terms = Extension.SCALED in target.extensions
        super().__init__({
            "x": In(signed(8)).array(taps, self._rows, self._lanes),
            "w": In(signed(16)).array(taps, self._lanes),
            "before": In(signed(8)).array(2, 3, self._lanes),
            "early": In(1), "slot": In(1), "sliding": In(1), "slide": In(1),
            "step": In(1), "wide": In(1), "prelu": In(1), "add": In(1), "apart": In(1),
            "eltwise": In(1), "multiply": In(1),
            "left": In(signed(LEFT_WIDTH)).array(self._rows, self._lanes),
            "right": In(signed(LEFT_WIDTH)).array(self._rows, self._lanes),
            "join": In(1), "first": In(1), "slid": In(1), "clear": In(1),
            **({"term": In(signed(TERM_BITS)).array(self._rows, self._lanes), "termed": In(1)}
               if self._terms else {}),
            "total": Out(signed(SUM_WIDTH)).array(self._rows, self._lanes),
        })

    def elaborate(self, platform):
        m = Module()
        sliding = self._sliding(m) if self._window else None
        for c in range(self._lanes):
            for h, dot, borrow in self._dot_products(m, c, sliding):
                total = Signal(signed(SUM_WIDTH), name=f"sum{h}_{c}", reset_less=True)
                m.d.comb += self.total[h][c].eq(total)
                start = Mux(self.first, 0, total)
                if sliding:
                    start = Mux(self.slid, sliding[h][c][0], start)
                with m.If(self.clear):
                    m.d.sync += total.eq(0)
                with m.Elif(self.join):
                    m.d.sync += total.eq(_sum(dot, start, borrow))
        return m

    def _dot_products(self, m, c, sliding):
        """Yield, for each row of a channel, its number, its sum of a step, and what to add."""
        together = Signal(name=f"together{c}")
        m.d.comb += together.eq(self.add & ~self.apart)
        h = 0
        while h < self._rows:
            count = 2 if h + 1 < self._rows and may_be_paired(self._taps) else 1
            sums = (PairedTapSums if count > 1 else TapSum)(
                taps=self._taps, terms=self._terms, vendor=self._vendor)
            m.submodules[f"dot{h}_{c}"] = sums
            m.d.comb += [
                *(sums.w[t].eq(self.w[t][c]) for t in range(self._taps)),
                sums.step.eq(self.step), sums.wide.eq(self.wide),
                sums.add.eq(self.add), sums.apart.eq(self.apart),
            ]
            if count > 1:
                m.d.comb += sums.together.eq(together)
            if self._terms:
                m.d.comb += sums.termed.eq(self.termed)
            if count > 1 and sliding and self._vendor == "xilinx":
                m.d.comb += sums.carry.eq(self.slide & sliding[h][c][1])
            for n in range(count):
                x = [self.x[t][h + n][c] for t in range(self._taps)]
                weight = Mux(self.prelu & ~x[0][7], 1, self.w[0][c])
                factor = Mux(self.multiply, self.right[h + n][c], 1)
                one = count == 1
                m.d.comb += [
                    (sums.left if one else sums.left[n]).eq(self.left[h + n][c]),
                    (sums.right if one else sums.right[n]).eq(Mux(self.eltwise, factor, weight)),
                    *((sums.x if one else sums.x[n])[t].eq(x[t]) for t in range(self._taps)),
                ]
                if self._terms:
                    m.d.comb += (sums.term if one else sums.term[n]).eq(self.term[h + n][c])
                total = sums.total if one else sums.total[n]
                yield h + n, total, sums.borrow if n and self._vendor == "xilinx" else Const(0)
            h += count

    def _sliding(self, m):
        """Return, by row and channel, what waits for the last column, and the borrow of two rows.

        The borrow is there a cycle before what it is the borrow of: with ``add``, not ``join``.
        """
        if self._double_rate:
            return self._doubled(m)
        kept = [[None] * self._lanes for _ in range(self._rows)]
        for h in range(0, self._rows, 2):
            for c in range(self._lanes):
                m.submodules[f"sliding{h}_{c}"] = sums = SlidingSums(vendor=self._vendor)
                m.d.comb += [
                    *(sums.w[k][t].eq(self.before[k][t][c])
                      for k in range(2) for t in range(WINDOW)),
                    sums.step.eq(self.step & self.sliding), sums.add.eq(self.add & self.slide),
                ]
                for n in range(min(2, self._rows - h)):
                    part = Signal(signed(PART_WIDTH), name=f"part{h + n}_{c}", reset_less=True)
                    m.d.comb += [sums.x[n][t].eq(self.x[t][h + n][c]) for t in range(WINDOW)]
                    with m.If(self.join & self.slid):
                        m.d.sync += part.eq(sums.part[n])
                    kept[h + n][c] = part, sums.borrow
        return kept


    def _doubled(self, m):
        """Return the same at twice the clock, where nothing is borrowed."""
        kept = [[None] * self._lanes for _ in range(self._rows)]
        m.submodules.phase = phase = Phase()
        m.submodules.weights = weights = SlidingWeights(lanes=self._lanes)
        m.d.comb += [
            *(weights.w[t][c].eq(self.w[t][c]) for t in range(WINDOW) for c in range(self._lanes)),
            weights.early.eq(self.early), weights.slot.eq(self.slot),
            weights.second.eq(phase.second),
        ]
        for h in range(0, self._rows, 2):
            for c in range(self._lanes):
                m.submodules[f"sliding{h}_{c}"] = sums = DoubleRateSlidingSums()
                m.d.comb += [
                    *(sums.w[t].eq(weights.o[t][c]) for t in range(WINDOW)),
                    sums.load.eq(weights.load), sums.newest.eq(weights.newest),
                    sums.second.eq(phase.second), sums.keep.eq(self.join & self.slid),
                ]
                for n in range(min(2, self._rows - h)):
                    m.d.comb += [sums.x[n][t].eq(self.x[t][h + n][c]) for t in range(WINDOW)]
                    kept[h + n][c] = sums.part[n], Const(0)
        return kept


def _sum(a, b, carry):
    """Return the sum of two numbers and a bit: one adder with a carry into bit 0."""
    if isinstance(carry, Const):
        return (a + b)[:SUM_WIDTH]
    return (Cat(carry, a).as_signed() + Cat(Const(1, 1), b).as_signed())[1:SUM_WIDTH + 1]
