# SPDX-License-Identifier: Apache-2.0
"""Terms in place of ELEW's inputs (extension ``scaled``)."""

from amaranth.hdl import Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import scaled
from opendpu_hw.datapath.tap_sums import TERM_BITS
from opendpu_hw.memory.table_ram import TableWrite
from opendpu_hw.memory.term_ram import TermRam

#: Width of a sum of four terms.
TOTAL_WIDTH = TERM_BITS + 2


class ScaledTerms(wiring.Component):
    """PP_alu rows of CP channels, one input a step.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP_alu and CP.

    Members
    -------
    write : ``In(TableWrite)``
        TERM.
    step, slot, x : ``In(1)``, ``In``, ``In(signed(8)).array(PP_alu, CP)``
        A step comes with these inputs; which of their terms count.
    term : ``Out(signed(32)).array(PP_alu, CP)``
        They, one cycle later, until the next step.
    """

    def __init__(self, target):
        self._shape = target.alu_pixel_parallel, target.channel_parallel
        super().__init__({
            "write": In(TableWrite()),
            "step": In(1), "slot": In(range(scaled.TERM_SLOTS)),
            "x": In(signed(8)).array(*self._shape),
            "term": Out(signed(TERM_BITS)).array(*self._shape),
        })

    def elaborate(self, platform):
        m = Module()
        rows, lanes = self._shape
        for h, c in ((h, c) for h in range(rows) for c in range(lanes)):
            m.submodules[f"terms{h}_{c}"] = ram = TermRam()
            wiring.connect(m, wiring.flipped(self.write), ram.write)
            m.d.comb += [
                ram.en.eq(self.step), ram.slot.eq(self.slot), ram.index.eq(self.x[h][c]),
                self.term[h][c].eq(ram.term),
            ]
        return m
