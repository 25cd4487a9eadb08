# SPDX-License-Identifier: Apache-2.0
"""Sliding sums of the MISC engine in DSP blocks at twice the clock: a kernel column a half."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.datapath.dsp48e2 import SUM_WIDTH, dsp48e2
from opendpu_hw.datapath.packed_multiply import FIELD
from opendpu_hw.datapath.tap_sums import PART_WIDTH, WINDOW, extended
from opendpu_hw.double_rate import DOMAIN

#: Three products of bytes and this are not negative; twice the sum of both is half a field.
_BIAS = 1 << FIELD - 2


class DoubleRateSlidingSums(wiring.Component):
    """The same as :class:`opendpu_hw.datapath.tap_sums.SlidingSums` with half as many DSP blocks.

    In the first half of a cycle the cascade multiplies by the kernel's second column and adds what
    the step before left, in the second half by the first column, which it leaves to the next step.
    Each sum has a bias that keeps the lower field positive, so it takes nothing from the upper one.

    Cycles of the doubled clock, 0 being the first half of ``step``'s:

    ======== =======================================================
    1, 2     operands of taps 0; those of the others come at 2 and stay for both products
    2, 3 + t the pre-adder's sum of tap ``t``, for one column and the other
    4, 5     products of tap 0, added; one later at each next tap
    6, 7     both sums, of which the first is kept
    ======== =======================================================

    Members
    -------
    x : ``In(signed(8)).array(2, 3)``
        Operands of both rows.
    w : ``In(signed(8)).array(2, 3)``
        The kernel's first and second column.
    second : ``In(1)``
        See :class:`opendpu_hw.double_rate.Phase`.
    keep : ``In(1)``
        Two cycles after a step: its sums count.
    part : ``Out(signed(18)).array(2)``
        Sums of the first column in the step before and of the second one in this step, from the
        second half of the cycle after ``keep``.
    """

    def __init__(self):
        super().__init__({
            "x": In(signed(8)).array(2, WINDOW), "w": In(signed(8)).array(2, WINDOW),
            "second": In(1), "keep": In(1), "part": Out(signed(PART_WIDTH)).array(2),
        })

    def elaborate(self, platform):
        m = Module()
        add, keep = Signal(), Signal()
        m.d[DOMAIN] += add.eq(self.keep)
        m.d.sync += keep.eq(self.keep)
        total = None
        for t, weight in enumerate(self._weights(m)):
            last = t == WINDOW - 1
            cascade = total
            total = Signal(signed(SUM_WIDTH), name=f"sum{t}")
            enables = {}
            if t > 0:       # a tap later, half a cycle later: operands come and stay
                enables = dict.fromkeys(("CEA2", "CED"), self.second)
            if t > 1:
                enables["CEAD"] = self.second
            m.submodules[f"multiply{t}"] = dsp48e2(
                total, a=extended(m, self.x[1][t] << FIELD, 30, f"a{t}"),
                d=extended(m, self.x[0][t], 27, f"d{t}"), b=extended(m, weight, 18, f"b{t}"),
                pcin=cascade, c=Const(_BIAS, SUM_WIDTH) if cascade is None else None,
                operands=True, last=last, domain=DOMAIN, operand_enables=enables,
                again=~self.second if last else None, enable=(1, add) if last else None)
        low, high = (Signal(signed(PART_WIDTH), name=name, reset_less=True)
                     for name in ("low", "high"))
        with m.If(keep & ~self.second):
            m.d[DOMAIN] += [low.eq(total[:FIELD]), high.eq(total[FIELD:])]
        m.d.comb += [
            self.part[0].eq(Cat(low[:-1], ~low[-1])),   # less twice the bias
            self.part[1].eq(high),
        ]
        return m

    def _weights(self, m):
        """Yield the weights of each tap: the second column's first, half a cycle later each tap.

        What is wanted in the next cycle waits, as then another step's may be there.
        """
        for t in range(WINDOW):
            turn = [self.w[1][t], self.w[0][t]]
            for column in range(2):
                if column + t >= 2:
                    later = Signal(signed(8), name=f"w{column}_{t}", reset_less=True)
                    m.d.sync += later.eq(turn[column])
                    turn[column] = later
            early, late = turn if t % 2 == 0 else turn[::-1]
            yield Mux(self.second, late, early)
