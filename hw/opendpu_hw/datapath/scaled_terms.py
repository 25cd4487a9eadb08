# SPDX-License-Identifier: Apache-2.0
"""Sums and products of ELEW with terms in place of inputs (extension ``scaled``)."""

from amaranth.hdl import Const, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import scaled
from opendpu_hw.datapath.dsp48e2 import SUM_WIDTH, dsp48e2
from opendpu_hw.datapath.tap_sums import extended
from opendpu_hw.memory.table_ram import TableWrite
from opendpu_hw.memory.term_ram import TermRam

#: Width of a sum of four 32-bit terms.
TOTAL_WIDTH = 34


class TermSum(wiring.Component):
    """Sum of the terms of an element, or product of two.

    Parameters
    ----------
    vendor : :class:`str` or None
        ``xilinx``: a DSP48E2 does both. Otherwise plain registers.

    Members
    -------
    term : ``In(signed(32))``
        Term of a step.
    add, first, join, multiply : ``In(1)``
        It counts: alone, or joins the sum, or the product, which is one of two; exactly one of the
        last three is high.
    load, late : ``In(1)``, ``In(1)``
        ``add`` with ``first``; ``add`` of the cycle before.
    total : ``Out(signed(34))``
        Sum or product, two cycles later.
    """

    def __init__(self, *, vendor=None):
        self._vendor = vendor
        super().__init__({
            "term": In(signed(8 * scaled.TERM_BYTES)),
            "add": In(1), "first": In(1), "join": In(1), "multiply": In(1), "load": In(1),
            "late": In(1), "total": Out(signed(TOTAL_WIDTH)),
        })

    def elaborate(self, platform):
        m = Module()
        if self._vendor == "xilinx":
            total = Signal(signed(SUM_WIDTH), name="sum")
            factor = self.term[:scaled.FACTOR_BITS].as_signed()
            m.submodules.dsp = dsp48e2(
                total, a=extended(m, factor, 30, "a"), b=extended(m, factor, 18, "b"),
                c=extended(m, self.term, SUM_WIDTH, "c"), c_enable=Const(1), operands=True,
                b_registers=1, last=True, product_alone=self.multiply, again=self.join,
                enable=(Const(1), self.late), operand_enables={"CEA2": self.load})
            m.d.comb += self.total.eq(total)
            return m
        sums = [Signal(signed(TOTAL_WIDTH), name=f"total{n}", reset_less=True) for n in range(2)]
        factors = [value[:scaled.FACTOR_BITS].as_signed() for value in (sums[0], self.term)]
        with m.If(self.add):
            with m.If(self.first):
                m.d.sync += sums[0].eq(self.term)
            with m.Elif(self.multiply):
                m.d.sync += sums[0].eq(factors[0] * factors[1])
            with m.Else():
                m.d.sync += sums[0].eq((sums[0] + self.term)[:TOTAL_WIDTH].as_signed())
        with m.If(self.late):
            m.d.sync += sums[1].eq(sums[0])
        m.d.comb += self.total.eq(sums[1])
        return m


class ScaledTerms(wiring.Component):
    """PP_alu rows of CP channels, one input a step.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP_alu and CP.
    vendor : :class:`str` or None
        See :class:`TermSum`.

    Members
    -------
    x : ``In(signed(8)).array(PP_alu, CP)``
        Operands.
    write : ``In(TableWrite)``
        TERM.
    step, slot : ``In(1)``, ``In``
        A step is made with these operands; which of their terms count.
    add, first, multiply : ``In(1)``
        One cycle later: they join the sum or product, a new one if ``first``.
    total : ``Out(signed(34)).array(PP_alu, CP)``
        Sums or products, three cycles after the step.
    """

    def __init__(self, target, *, vendor=None):
        self._shape = target.alu_pixel_parallel, target.channel_parallel
        self._vendor = vendor
        super().__init__({
            "x": In(signed(8)).array(*self._shape), "write": In(TableWrite()),
            "step": In(1), "slot": In(range(scaled.TERM_SLOTS)),
            "add": In(1), "first": In(1), "multiply": In(1),
            "total": Out(signed(TOTAL_WIDTH)).array(*self._shape),
        })

    def elaborate(self, platform):
        m = Module()
        rows, lanes = self._shape
        late, load, join, multiply = (
            Signal(name=name) for name in ("late", "load", "join", "product"))
        m.d.sync += late.eq(self.add)
        m.d.comb += [
            load.eq(self.add & self.first), join.eq(~self.first & ~self.multiply),
            multiply.eq(~self.first & self.multiply),
        ]
        for h, c in ((h, c) for h in range(rows) for c in range(lanes)):
            m.submodules[f"terms{h}_{c}"] = ram = TermRam()
            m.submodules[f"sum{h}_{c}"] = total = TermSum(vendor=self._vendor)
            wiring.connect(m, wiring.flipped(self.write), ram.write)
            m.d.comb += [
                ram.en.eq(self.step), ram.slot.eq(self.slot), ram.index.eq(self.x[h][c]),
                total.term.eq(ram.term), total.add.eq(self.add), total.first.eq(self.first),
                total.join.eq(join), total.multiply.eq(multiply), total.load.eq(load),
                total.late.eq(late), self.total[h][c].eq(total.total),
            ]
        return m
