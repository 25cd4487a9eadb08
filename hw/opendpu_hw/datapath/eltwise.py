# SPDX-License-Identifier: Apache-2.0
"""What elementwise sums and products of the MISC engine (ELEW) are made of."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch.extensions import Extension
from opendpu_hw.datapath.tap_sums import LEFT_WIDTH as TERM_WIDTH

#: ``shift`` with which an input counts what it is.
UNSHIFTED = 2


class Eltwise(wiring.Component):
    """PP_alu rows of CP channels, one input a step.

    An input counts ``floor(x · 4 / 2^shift)``, which needs ten bits; shifts by fours have been made
    before, so that multipliers have less in front of them. Sums and products of two are
    made by :class:`opendpu_hw.datapath.dwconv.Depthwise`, whose multipliers are free then. First
    taps of other steps come through here too, with :data:`UNSHIFTED`.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP_alu and CP, and whether there are factors of their own (extension ``scaled``).

    Members
    -------
    x : ``In(signed(TERM_WIDTH)).array(PP_alu, CP)``
        Operands, four times as much, shifted right by the multiple of four in their shift.
    step, shift : ``In(1)``, ``In(2)``
        A step is made with these operands; what is left of their shift.
    factor, scaled : ``In(signed(TERM_WIDTH)).array(PP_alu, CP)``, ``In(1)``
        With the extension ``scaled``: what an input counts instead, a cycle later
        (:data:`opendpu_arch.latency.TERM_PRODUCT`), and whether it does. ``scaled`` stays until
        then.
    term, before : ``Out(signed(TERM_WIDTH)).array(PP_alu, CP)``
        What they count; what those of the step before counted.
    """

    def __init__(self, target):
        self._rows, self._lanes = target.alu_pixel_parallel, target.channel_parallel
        self._scaled = Extension.SCALED in target.extensions
        shape = self._rows, self._lanes
        super().__init__({
            "x": In(signed(TERM_WIDTH)).array(*shape), "step": In(1), "shift": In(2),
            **({"factor": In(signed(TERM_WIDTH)).array(*shape), "scaled": In(1)}
               if self._scaled else {}),
            "term": Out(signed(TERM_WIDTH)).array(*shape),
            "before": Out(signed(TERM_WIDTH)).array(*shape),
        })

    def elaborate(self, platform):
        m = Module()
        for h in range(self._rows):
            for c in range(self._lanes):
                before = Signal(signed(TERM_WIDTH), name=f"term{h}_{c}", reset_less=True)
                term = self.x[h][c] >> self.shift
                if self._scaled:
                    # Block RAM answers late in a cycle, and a multiplier follows.
                    factor = Signal(signed(TERM_WIDTH), name=f"factor{h}_{c}", reset_less=True)
                    with m.If(self.step):
                        m.d.sync += factor.eq(self.factor[h][c])
                    term = Mux(self.scaled, factor, term)
                m.d.comb += [self.term[h][c].eq(term), self.before[h][c].eq(before)]
                with m.If(self.step):
                    m.d.sync += before.eq(self.term[h][c])
        return m
