# SPDX-License-Identifier: Apache-2.0
"""Sums times a fixed-point multiplier: results of the extension ``scaled``."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import scaled
from opendpu_hw.datapath.shift import SaturatingShift

#: The multiplier in two parts, for DSP blocks of 27 by 18 bits, as is the sum but for its low bits.
_LOW_BITS, _REST_BITS = 17, 2
_HALF_BITS = scaled.MULTIPLIER_BITS - 1             # weight of 1/2 in a product
#: One more than twice the product by 2^31 has: a tie less a little.
_VALUE_BITS = scaled.SUM_BITS + scaled.MULTIPLIER_BITS - _HALF_BITS + 1
_KEPT_BITS = 10


class FixedPoint(wiring.Component):
    """One value a cycle: :func:`opendpu_arch.numerics.requantize_scaled`.

    The product is exact: of the sum's 29 bits the upper 27 are multiplied by the parts of the
    multiplier, the others by logic. Rounding half away from zero is rounding half up, of a negative
    tie less a little.

    Parameters
    ----------
    width : :class:`int`
        Of a sum.

    Members
    -------
    sum, bias : ``In(signed(width))``, ``In(signed(32))``
        Valid with stage 0, that is in the cycle in which a value comes.
    multiplier : ``In(31)``
        Valid with stage 2, two cycles later.
    once : ``In(1)``
        Rounding, valid with stage 4.
    shift : ``In(5)``
        Valid with stage 6.
    zero, low, high : ``In(signed(8))``
        ``zero`` is valid with stage 8, limits with stage 9.
    y : ``Out(signed(8))``
        Result, :data:`opendpu_arch.latency.FIXED_POINT` cycles after its sum.
    """

    def __init__(self, *, width):
        self._width = width
        super().__init__({
            "sum": In(signed(width)), "bias": In(signed(32)),
            "multiplier": In(unsigned(scaled.MULTIPLIER_BITS)), "once": In(1),
            "shift": In(range(scaled.MAX_SHIFT + 1)),
            "zero": In(signed(8)), "low": In(signed(8)), "high": In(signed(8)),
            "y": Out(signed(8)),
        })

    def elaborate(self, platform):
        m = Module()
        value = self._product(m)
        # -- stages 6 and 7: shift, twice the result -----------------------------------------------
        m.submodules.shifter = shifter = SaturatingShift(
            width=_VALUE_BITS, amount=len(self.shift), kept=_KEPT_BITS)
        m.d.comb += [
            shifter.value.eq(value), shifter.amount.eq(self.shift), shifter.stage.eq(0b11),
        ]
        # -- stage 8: rounding, zero point ---------------------------------------------------------
        moved = Signal(signed(_KEPT_BITS + 1), reset_less=True)
        above, below = Signal(reset_less=True), Signal(reset_less=True)
        rounded = ((shifter.shifted + 1) >> 1)[:_KEPT_BITS].as_signed()
        m.d.sync += [
            moved.eq(rounded + self.zero),
            above.eq(shifter.large & ~shifter.negative), below.eq(shifter.large & shifter.negative),
        ]
        # -- stage 9: limits -----------------------------------------------------------------------
        y = Signal(signed(8), reset_less=True)
        m.d.comb += self.y.eq(y)
        with m.If(above | (~below & (moved > self.high))):
            m.d.sync += y.eq(self.high)
        with m.Elif(below | (moved < self.low)):
            m.d.sync += y.eq(self.low)
        with m.Else():
            m.d.sync += y.eq(moved[:8].as_signed())
        return m

    def _product(self, m):
        """Return twice the product by 2^31, after the first rounding, valid with stage 6."""
        def register(shape, name):
            return Signal(shape, name=name, reset_less=True)

        # -- stages 0 and 1: bias, saturation ------------------------------------------------------
        biased = register(signed(max(self._width, 32) + 1), "biased")
        m.d.sync += biased.eq(self.sum + self.bias)
        t, top = register(signed(scaled.SUM_BITS), "t"), biased[scaled.SUM_BITS - 1:]
        fits = ~top.any() | top.all()
        m.d.sync += [
            t[-1].eq(biased[-1]),
            t[:-1].eq(Mux(fits, biased[:scaled.SUM_BITS - 1], (~biased[-1]).replicate(
                scaled.SUM_BITS - 1))),
        ]
        # -- stages 2 to 4: products ---------------------------------------------------------------
        upper, rest = t[_REST_BITS:].as_signed(), t[:_REST_BITS]
        parts = self.multiplier[:_LOW_BITS], self.multiplier[_LOW_BITS:]
        narrow = register(unsigned(scaled.MULTIPLIER_BITS + _REST_BITS), "narrow")
        low = register(signed(len(upper) + _LOW_BITS + 1), "product_low")
        high = register(signed(len(upper) + len(parts[1]) + 1), "product_high")
        m.d.sync += [
            narrow.eq(Mux(rest[0], self.multiplier, 0) + Mux(rest[1], self.multiplier << 1, 0)),
            low.eq(upper * parts[0]), high.eq(upper * parts[1]),
        ]
        # A quarter of the product: what `narrow` has below that counts for ties only.
        low_sum, high_later = register(signed(len(low) + 1), "low_sum"), Signal.like(high)
        exact = [register(1, f"exact{n}") for n in range(2)]
        m.d.sync += [
            low_sum.eq(low + narrow[_REST_BITS:]), high_later.eq(high),
            exact[0].eq(~narrow[:_REST_BITS].any()),
        ]
        half_at = _HALF_BITS - _REST_BITS - _LOW_BITS        # the place of 1/2 in what comes now
        total = register(signed(len(high) + 1), "total")
        half = Mux(self.once, 0, 1 << half_at)
        m.d.sync += [
            total.eq(high_later + (low_sum >> _LOW_BITS) + half),
            exact[1].eq(exact[0] & ~low_sum[:_LOW_BITS].any()),
        ]
        # -- stage 5: negative ties are a little less ----------------------------------------------
        signs = [t[-1]]
        for n in range(3):
            later = register(1, f"negative{n}")
            m.d.sync += later.eq(signs[-1])
            signs.append(later)
        negative = signs[-1]
        once = register(1, "once_later")
        m.d.sync += once.eq(self.once)
        tie = negative & (~once | (exact[1] & ~total[:half_at].any()))
        value = register(signed(_VALUE_BITS), "value")
        doubled = Cat(total[half_at] & once, total[half_at + 1:]).as_signed()
        m.d.sync += value.eq((doubled - tie)[:_VALUE_BITS].as_signed())
        return value
