# SPDX-License-Identifier: Apache-2.0
"""Sliding sums of the MISC engine in DSP blocks at twice the clock: a kernel column a half."""

from amaranth.hdl import Cat, Const, Module, Signal, signed
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

    A block keeps the weights of both columns, which come one after the other with the steps that
    first need them, in its two registers for them.

    Cycles of the doubled clock, 0 being the first half of ``step``'s:

    ======== =======================================================
    1, 2     operands of taps 0; those of the others come at 2 and stay for both products
    2, 3 + t the pre-adder's sum of tap ``t``, for one column and the other; a new weight
    4, 5     products of tap 0, added; one later at each next tap
    6, 7     both sums, of which the first is kept
    ======== =======================================================

    Members
    -------
    x : ``In(signed(8)).array(2, 3)``
        Operands of both rows.
    w : ``In(signed(8)).array(3)``
        The step's weights, see :class:`SlidingWeights`.
    load, newest, second : ``In(3)``, ``In(3)``, ``In(1)``
        See there, and :class:`opendpu_hw.double_rate.Phase`.
    keep : ``In(1)``
        Two cycles after a step: its sums count.
    part : ``Out(signed(18)).array(2)``
        Sums of the first column in the step before and of the second one in this step, from the
        second half of the cycle after ``keep``.
    """

    def __init__(self):
        super().__init__({
            "x": In(signed(8)).array(2, WINDOW), "w": In(signed(8)).array(WINDOW),
            "load": In(WINDOW), "newest": In(WINDOW), "second": In(1), "keep": In(1),
            "part": Out(signed(PART_WIDTH)).array(2),
        })

    def elaborate(self, platform):
        m = Module()
        add = Signal()
        keep = Signal()
        m.d[DOMAIN] += add.eq(self.keep)
        m.d.sync += keep.eq(self.keep)
        total = None
        for t in range(WINDOW):
            last = t == WINDOW - 1
            cascade = total
            total = Signal(signed(SUM_WIDTH), name=f"sum{t}")
            enables = dict.fromkeys(("CEB1", "CEB2"), self.load[t])
            if t > 0:       # a tap later, half a cycle later: operands come and stay
                enables |= dict.fromkeys(("CEA2", "CED"), self.second)
            if t > 1:
                enables["CEAD"] = self.second
            m.submodules[f"multiply{t}"] = dsp48e2(
                total, a=extended(m, self.x[1][t] << FIELD, 30, f"a{t}"),
                d=extended(m, self.x[0][t], 27, f"d{t}"), b=extended(m, self.w[t], 18, f"b{t}"),
                pcin=cascade, c=Const(_BIAS, SUM_WIDTH) if cascade is None else None,
                operands=True, last=last, domain=DOMAIN, operand_enables=enables,
                newest_b=self.newest[t], again=~self.second if last else None,
                enable=(1, add) if last else None)
        low, high = (Signal(signed(PART_WIDTH), name=name, reset_less=True)
                     for name in ("low", "high"))
        with m.If(keep & ~self.second):
            m.d[DOMAIN] += [low.eq(total[:FIELD]), high.eq(total[FIELD:])]
        m.d.comb += [
            self.part[0].eq(Cat(low[:-1], ~low[-1])),   # less twice the bias
            self.part[1].eq(high),
        ]
        return m


class SlidingWeights(wiring.Component):
    """The weights of all channels' :class:`DoubleRateSlidingSums`, and when each tap's are taken.

    A block's newest weight is the second column's. The first column's moves on to its second
    register when that comes; in the one step before it is the newest itself.

    Parameters
    ----------
    lanes : :class:`int`
        Channels.

    Members
    -------
    early, slot : ``In(1)``, ``In(1)``
        It is a sliding step whose weights are those of the kernel's first or second column, and
        which. The second one's come after the first one's.
    w : ``In(signed(8)).array(3, lanes)``
        Weights.
    o : ``Out(signed(8)).array(3, lanes)``
        The same, those of taps 1 and 2 a cycle later.
    second : ``In(1)``
        See :class:`opendpu_hw.double_rate.Phase`.
    load, newest : ``Out(3)``
        A bit a tap: blocks take ``o``; a cycle of the doubled clock later they multiply by the
        newest weight.
    """

    def __init__(self, *, lanes):
        self._lanes = lanes
        super().__init__({
            "early": In(1), "slot": In(1), "w": In(signed(8)).array(WINDOW, lanes),
            "o": Out(signed(8)).array(WINDOW, lanes), "second": In(1),
            "load": Out(WINDOW), "newest": Out(WINDOW),
        })

    def elaborate(self, platform):
        m = Module()
        load_later = Signal()
        alone = Signal()        # there is no weight of the second column
        alone_later = Signal()
        m.d.sync += [
            load_later.eq(self.early), alone.eq(self.early & ~self.slot), alone_later.eq(alone)]
        for t in range(WINDOW):
            for c in range(self._lanes):
                value = self.w[t][c]
                if t > 0:
                    later = Signal(signed(8), name=f"w{t}_{c}", reset_less=True)
                    m.d.sync += later.eq(value)
                    value = later
                m.d.comb += self.o[t][c].eq(value)
        first, second = ~self.second, self.second
        m.d.comb += [
            self.load.eq(Cat(self.early & second, load_later & first, load_later & second)),
            self.newest.eq(Cat(second | alone, first | alone, second | alone_later)),
        ]
        return m
