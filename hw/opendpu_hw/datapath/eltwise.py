# SPDX-License-Identifier: Apache-2.0
"""Elementwise sums and products of the MISC engine (ELEW)."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch.extensions import Extension
from opendpu_hw.memory.table_ram import TableWrite
from opendpu_hw.memory.term_ram import TermRam

#: Width of an operand with its two guard bits.
TERM_WIDTH = 10
#: Width of a product of two.
TOTAL_WIDTH = 2 * TERM_WIDTH
#: Width of a sum of four 32-bit terms.
SCALED_TOTAL_WIDTH = 34


class Eltwise(wiring.Component):
    """PP_alu rows of CP channels, one input a step.

    An input counts ``floor(x · 4 / 2^shift)``; inputs are summed, or two of them multiplied.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP_alu and CP.

    Members
    -------
    x : ``In(signed(8)).array(PP_alu, CP)``
        Operands.
    step, shift : ``In(1)``, ``In(4)``
        A step is made with these operands.
    add, first, multiply : ``In(1)``
        One cycle later: it joins the sum or product, a new one if ``first``.
    total : ``Out(signed(TOTAL_WIDTH)).array(PP_alu, CP)``
        Sums or products, :attr:`LATENCY` cycles after the step.
    terms : ``In(TableWrite)``
        With the extension ``scaled``: TERM.
    look_up, slot : ``In(1)``
        Operands of the step count what is in this slot of TERM; products take ten bits of it.
    """

    LATENCY = 2

    def __init__(self, target):
        self._rows, self._lanes = target.alu_pixel_parallel, target.channel_parallel
        self._scaled = Extension.SCALED in target.extensions
        width = SCALED_TOTAL_WIDTH if self._scaled else TOTAL_WIDTH
        super().__init__({
            "x": In(signed(8)).array(self._rows, self._lanes),
            "step": In(1), "shift": In(4), "add": In(1), "first": In(1), "multiply": In(1),
            "total": Out(signed(width)).array(self._rows, self._lanes),
            **({"terms": In(TableWrite()), "look_up": In(1), "slot": In(1)}
               if self._scaled else {}),
        })

    def elaborate(self, platform):
        m = Module()
        width = len(self.total[0][0])
        if self._scaled:
            looked_up = Signal()
            m.d.sync += looked_up.eq(self.look_up)
        for h in range(self._rows):
            for c in range(self._lanes):
                term = Signal(signed(TERM_WIDTH), name=f"term{h}_{c}", reset_less=True)
                kept = term
                factor = Signal(signed(TERM_WIDTH), name=f"factor{h}_{c}")
                total = Signal(signed(width), name=f"sum{h}_{c}", reset_less=True)
                m.d.comb += self.total[h][c].eq(total)
                m.d.comb += factor.eq(total[:TERM_WIDTH].as_signed())
                with m.If(self.step):
                    m.d.sync += kept.eq(((self.x[h][c] << 2) >> self.shift)[:TERM_WIDTH])
                if self._scaled:
                    m.submodules[f"terms{h}_{c}"] = ram = TermRam()
                    wiring.connect(m, wiring.flipped(self.terms), ram.write)
                    m.d.comb += [ram.en.eq(self.step & self.look_up), ram.slot.eq(self.slot),
                                 ram.index.eq(self.x[h][c])]
                    term = Mux(looked_up, ram.term, kept)
                with m.If(self.add):
                    with m.If(self.first):
                        m.d.sync += total.eq(term)
                    with m.Elif(self.multiply):
                        m.d.sync += total.eq(factor * term[:TERM_WIDTH].as_signed()
                                             if self._scaled else factor * term)
                    with m.Else():
                        m.d.sync += total.eq((total + term)[:width])
        return m
