# SPDX-License-Identifier: Apache-2.0
"""Offset, activation, shift, rounding and saturation of the MISC engine's results."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.datapath.requantize import saturate

#: Width of a doubled sum with its offset.
DOUBLED_WIDTH = 40
#: Most left shift there is; more would saturate everything but zero.
LEFT_MAX = 8
#: Width of the offset.
OFFSET_WIDTH = 36
_SIGMOID_MAX = 1 << 33
_SHIFTED = 12
RELU6_MAX = 96


class Scale(wiring.Component):
    """One lane: ``y = saturate(round(act((2·total + offset) / 2^(right - 8 + 1))))``.

    Rounding is half up, once. ``leaky`` multiplies negative values by 26/256 before it.

    Members
    -------
    total, offset : ``In(signed(36))``
        Sum and what to add to twice it, valid with ``capture``.
    sigmoid : ``In(1)``
        Clamp to 0..2^33, with ``capture``.
    capture, shift, finish : ``In(1)``
        The three stages, a cycle apart.
    right : ``In(6)``
        8 more than the right shift, valid with ``shift``; so 0..7 shift left.
    leaky : ``In(1)``
        Valid with ``shift``.
    relu, relu6 : ``In(1)``
        Valid with ``finish``; ``relu6`` only together with ``relu``.
    y : ``Out(signed(8))``
        Result, from the cycle after ``finish``.
    """

    LATENCY = 3

    total: In(signed(OFFSET_WIDTH))
    offset: In(signed(OFFSET_WIDTH))
    sigmoid: In(1)
    capture: In(1)
    shift: In(1)
    finish: In(1)
    right: In(6)
    leaky: In(1)
    relu: In(1)
    relu6: In(1)
    y: Out(signed(8))

    def elaborate(self, platform):
        m = Module()
        value = Signal(signed(DOUBLED_WIDTH))
        doubled = Signal(signed(DOUBLED_WIDTH))
        m.d.comb += doubled.eq((self.total << 1) + self.offset)
        with m.If(self.capture):
            with m.If(self.sigmoid & doubled[-1]):
                m.d.sync += value.eq(0)
            with m.Elif(self.sigmoid & (doubled > _SIGMOID_MAX)):
                m.d.sync += value.eq(_SIGMOID_MAX)
            with m.Else():
                m.d.sync += value.eq(doubled)

        wide = DOUBLED_WIDTH + 5 + LEFT_MAX
        slope = Signal()
        amount = Signal(6)
        scaled, shifted = Signal(signed(wide)), Signal(signed(wide))
        kept = Signal(signed(_SHIFTED))
        m.d.comb += [
            slope.eq(self.leaky & value[-1]),
            amount.eq(self.right + Mux(slope, LEFT_MAX, 0)),
            scaled.eq(Mux(slope, (value << 4) + (value << 3) + (value << 1), value) << LEFT_MAX),
            shifted.eq(scaled >> amount),
        ]
        high, low = (1 << _SHIFTED - 1) - 1, -(1 << _SHIFTED - 1)
        with m.If(self.shift):
            m.d.sync += kept.eq(Mux(shifted > high, high, Mux(shifted < low, low,
                                                              shifted[:_SHIFTED].as_signed())))

        rounded = Signal(signed(_SHIFTED))
        m.d.comb += rounded.eq((kept + 1) >> 1)
        with m.If(self.finish):
            with m.If(self.relu & rounded[-1]):
                m.d.sync += self.y.eq(0)
            with m.Elif(self.relu6 & (rounded > RELU6_MAX)):
                m.d.sync += self.y.eq(RELU6_MAX)
            with m.Else():
                m.d.sync += self.y.eq(saturate(rounded))
        return m
