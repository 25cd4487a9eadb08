# SPDX-License-Identifier: Apache-2.0
"""Sums and products of ELEW with terms in place of inputs (extension ``scaled``)."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import scaled
from opendpu_hw.memory.table_ram import TableWrite
from opendpu_hw.memory.term_ram import TermRam

#: Width of a sum of four 32-bit terms.
TOTAL_WIDTH = 34


class ScaledTerms(wiring.Component):
    """PP_alu rows of CP channels, one input a step.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP_alu and CP.

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
        Sums or products, two cycles after the step.
    """

    def __init__(self, target):
        self._shape = target.alu_pixel_parallel, target.channel_parallel
        super().__init__({
            "x": In(signed(8)).array(*self._shape), "write": In(TableWrite()),
            "step": In(1), "slot": In(range(scaled.TERM_SLOTS)),
            "add": In(1), "first": In(1), "multiply": In(1),
            "total": Out(signed(TOTAL_WIDTH)).array(*self._shape),
        })

    def elaborate(self, platform):
        m = Module()
        rows, lanes = self._shape
        for h, c in ((h, c) for h in range(rows) for c in range(lanes)):
            m.submodules[f"terms{h}_{c}"] = ram = TermRam()
            wiring.connect(m, wiring.flipped(self.write), ram.write)
            total = Signal(signed(TOTAL_WIDTH), name=f"total{h}_{c}", reset_less=True)
            factors = [value[:scaled.FACTOR_BITS].as_signed() for value in (total, ram.term)]
            m.d.comb += [
                ram.en.eq(self.step), ram.slot.eq(self.slot), ram.index.eq(self.x[h][c]),
                self.total[h][c].eq(total),
            ]
            with m.If(self.add):
                with m.If(self.first):
                    m.d.sync += total.eq(ram.term)
                with m.Elif(self.multiply):
                    m.d.sync += total.eq(factors[0] * factors[1])
                with m.Else():
                    m.d.sync += total.eq((total + ram.term)[:TOTAL_WIDTH].as_signed())
        return m
