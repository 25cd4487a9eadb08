# SPDX-License-Identifier: Apache-2.0
"""Offset, shift, rounding and clamping of the MISC engine's results."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.datapath.shift import SaturatingShift

#: Width of sums and offsets.
SUM_WIDTH = 36
#: Most left shift there is; more would saturate everything but zero.
LEFT_MAX = 8
#: Largest ``right``; more than this would leave nothing either.
RIGHT_MAX = 55
_DOUBLED_WIDTH = SUM_WIDTH + 2


class Scale(wiring.Component):
    """One lane: ``y = clamp(round((2·(total | maximum) + offset) / 2^(right - 8 + 1)))``.

    Rounding is half up, once. All activations are clamps but ``leaky``, which multiplies negative
    values by 26/256 before the rounding. Written so that nothing is evaluated in idle stages.

    Parameters
    ----------
    leaky : :class:`bool`
        Whether there is a ``leaky``.
    vendor : :class:`str` or None
        See :class:`opendpu_hw.datapath.shift.SaturatingShift`.

    Members
    -------
    total, maximum, offset : ``In(signed(SUM_WIDTH))``, ``In(signed(8))``, ``In(signed(SUM_WIDTH))``
        A sum or a maximum, the other is zero; what to add to twice it; valid with ``capture``.
    capture, shift, finish : ``In(1)``, ``In(2)``, ``In(1)``
        The four stages, a cycle apart; shifting takes two.
    right, leaky : ``In(6)``, ``In(1)``
        8 more than the right shift, so 0..7 shift left; valid with the first ``shift``.
    limit, relu : ``In(7)``, ``In(1)``
        Clamp to -128..limit, or to 0..limit; valid with ``finish``.
    y : ``Out(signed(8))``
        Result, from the cycle after ``finish``.
    """

    LATENCY = 4

    def __init__(self, *, leaky=True, vendor=None):
        self._leaky, self._vendor = leaky, vendor
        super().__init__({
            "total": In(signed(SUM_WIDTH)), "maximum": In(signed(8)),
            "offset": In(signed(SUM_WIDTH)),
            "capture": In(1), "shift": In(2), "finish": In(1),
            "right": In(6), "leaky": In(1), "relu": In(1), "limit": In(7),
            "y": Out(signed(8)),
        })

    def elaborate(self, platform):
        m = Module()
        value = Signal(signed(_DOUBLED_WIDTH), reset_less=True)
        with m.If(self.capture):
            doubled = Cat(Const(0, 1), self.total | self.maximum).as_signed()
            m.d.sync += value.eq(self.offset + doubled)

        if self._leaky:
            wide, slope = _DOUBLED_WIDTH + 5 + LEFT_MAX, Signal()
            m.d.comb += slope.eq(self.leaky & value[-1])
            scaled = Mux(slope, value * 26, value)
            amount = (self.right + Mux(slope, LEFT_MAX, 0))[:6]
        else:
            wide, scaled, amount = _DOUBLED_WIDTH + LEFT_MAX, value, self.right
        # Twice the result, not yet rounded.
        m.submodules.shifter = shifter = SaturatingShift(
            width=wide, amount=6, vendor=self._vendor)
        y = Signal(signed(8), reset_less=True)
        rounded = ((shifter.shifted + 1) >> 1)[:9].as_signed()
        m.d.comb += [
            shifter.value.eq(Cat(Const(0, LEFT_MAX), scaled)),
            shifter.amount.eq(amount), shifter.stage.eq(self.shift),
            self.y.eq(y),
        ]
        with m.If(self.finish):
            with m.If(shifter.negative):
                m.d.sync += y.eq(Mux(self.relu, 0,
                                     Mux(shifter.large, -128, rounded[:8].as_signed())))
            with m.Else():
                m.d.sync += y.eq(Mux(shifter.large | (rounded > self.limit), self.limit,
                                     rounded[:8].as_signed()))
        return m
