# SPDX-License-Identifier: Apache-2.0
"""Sums times a fixed-point multiplier: results of the extension ``scaled``."""

import functools
import operator

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import scaled
from opendpu_hw.datapath.compare import exceeds
from opendpu_hw.datapath.fixed_product import VALUE_BITS, FixedProduct
from opendpu_hw.datapath.shift import SaturatingShift

_KEPT_BITS = 10
_BIAS_BITS = 32
#: Positions of the first of two shifts are this far apart.
_STEP = 8


class FixedPoint(wiring.Component):
    """One value a cycle: :func:`opendpu_arch.numerics.requantize_scaled`.

    Parameters
    ----------
    width : :class:`int`
        Of a sum, whose members are wider than a bias at least.
    parts : :class:`int`
        A sum comes as so many values, all but one of which are zero.
    halves : :class:`bool`
        Or as two, of which ``second`` says which one it is.
    vendor : :class:`str` or None
        See :class:`opendpu_hw.datapath.fixed_product.FixedProduct`.

    Members
    -------
    sum, bias : ``In(signed).array(parts)``, ``In(signed(32))``
        Valid with stage 0, that is in the cycle in which a value comes.
    second : ``In(1)``
        With ``halves``, valid with stage 0.
    multiplier : ``In(31)``
        Valid with stage 2, two cycles later.
    once : ``In(1)``
        Rounding, valid with stage 3.
    shift : ``In(5)``
        Valid with stage 6.
    zero, low, high : ``In(signed(8))``
        ``zero`` is valid with stage 8, limits with stage 9.
    y : ``Out(signed(8))``
        Result, :data:`opendpu_arch.latency.FIXED_POINT` cycles after its sum.
    """

    def __init__(self, *, width, parts=1, halves=False, vendor=None):
        self._width, self._halves, self._vendor = width, halves, vendor
        super().__init__({
            "sum": In(signed(max(width, _BIAS_BITS + 1))).array(2 if halves else parts),
            "bias": In(signed(_BIAS_BITS)),
            **({"second": In(1)} if halves else {}),
            "multiplier": In(unsigned(scaled.MULTIPLIER_BITS)), "once": In(1),
            "shift": In(range(scaled.MAX_SHIFT + 1)),
            "zero": In(signed(8)), "low": In(signed(8)), "high": In(signed(8)),
            "y": Out(signed(8)),
        })

    def elaborate(self, platform):
        m = Module()
        # -- stage 0: bias; stages 1 to 5: product -------------------------------------------------
        biased = Signal(signed(max(self._width, _BIAS_BITS) + 1), reset_less=True)
        # Synthesis gives carries the first operand, or the narrower one: if that is the bias, the
        # adder's LUTs choose the sum, too.
        chosen = (Mux(self.second, self.sum[1], self.sum[0]) if self._halves
                  else functools.reduce(operator.or_, self.sum))
        m.d.sync += biased.eq((self.bias + chosen)[:len(biased)].as_signed())
        m.submodules.product = product = FixedProduct(width=len(biased), vendor=self._vendor)
        # -- stages 6 and 7: shift, twice the result -----------------------------------------------
        m.submodules.shifter = shifter = SaturatingShift(
            width=VALUE_BITS, amount=len(self.shift), kept=_KEPT_BITS, step=_STEP,
            vendor=self._vendor)
        m.d.comb += [
            product.sum.eq(biased), product.multiplier.eq(self.multiplier),
            product.once.eq(self.once),
            shifter.value.eq(product.value), shifter.amount.eq(self.shift), shifter.stage.eq(0b11),
        ]
        # -- stage 8: rounding, zero point ---------------------------------------------------------
        moved = Signal(signed(_KEPT_BITS), reset_less=True)
        above = Signal(reset_less=True)
        below = Signal(reset_less=True)
        # Twice the zero point, and a carry into bit 0: one adder.
        twice = (Cat(Const(1, 1), shifter.shifted).as_signed()
                 + Cat(Const(1, 2), self.zero).as_signed())[2:]
        m.d.sync += [
            moved.eq(twice),
            above.eq(shifter.large & ~shifter.negative), below.eq(shifter.large & shifter.negative),
        ]
        # -- stage 9: limits -----------------------------------------------------------------------
        byte, sign = moved[:8], moved[-1]
        too_high = ~sign & moved[7:-1].any()            # for a byte
        too_low = sign & ~moved[7:-1].all()
        y = Signal(signed(8), reset_less=True)
        highest = Signal()
        lowest = Signal()
        m.d.comb += [
            self.y.eq(y),
            highest.eq(above | (~below & ~too_low & (too_high | exceeds(byte, self.high)))),
            lowest.eq(~highest & (below | too_low | exceeds(self.low, byte))),
        ]
        with m.If(highest):
            m.d.sync += y.eq(self.high)
        with m.Elif(lowest):
            m.d.sync += y.eq(self.low)
        with m.Else():
            m.d.sync += y.eq(byte)
        return m
