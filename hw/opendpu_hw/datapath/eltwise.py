# SPDX-License-Identifier: Apache-2.0
"""What elementwise sums and products of the MISC engine (ELEW) are made of."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.datapath.tap_sums import LEFT_WIDTH as TERM_WIDTH

#: ``shift`` with which an input counts what it is.
UNSHIFTED = 2


class Eltwise(wiring.Component):
    """PP_alu rows of CP channels, one input a step.

    An input counts ``floor(x · 4 / 2^shift)``, which needs ten bits. Sums and products of two are
    made by :class:`opendpu_hw.datapath.dwconv.Depthwise`, whose multipliers are free then. First
    taps of other steps come through here too, with :data:`UNSHIFTED`.

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
    term, before : ``Out(signed(TERM_WIDTH)).array(PP_alu, CP)``
        What they count; what those of the step before counted.
    """

    def __init__(self, target):
        self._rows, self._lanes = target.alu_pixel_parallel, target.channel_parallel
        shape = self._rows, self._lanes
        super().__init__({
            "x": In(signed(8)).array(*shape), "step": In(1), "shift": In(4),
            "term": Out(signed(TERM_WIDTH)).array(*shape),
            "before": Out(signed(TERM_WIDTH)).array(*shape),
        })

    def elaborate(self, platform):
        m = Module()
        for h in range(self._rows):
            for c in range(self._lanes):
                before = Signal(signed(TERM_WIDTH), name=f"term{h}_{c}", reset_less=True)
                m.d.comb += [
                    self.term[h][c].eq(((self.x[h][c] << 2) >> self.shift)[:TERM_WIDTH]),
                    self.before[h][c].eq(before),
                ]
                with m.If(self.step):
                    m.d.sync += before.eq(self.term[h][c])
        return m
