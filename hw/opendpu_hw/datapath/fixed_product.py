# SPDX-License-Identifier: Apache-2.0
"""Sums times a fixed-point multiplier, in plain multiplications or in DSP48E2."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import scaled
from opendpu_hw.datapath.dsp48e2 import CASCADE_SHIFT, SUM_WIDTH, dsp48e2
from opendpu_hw.datapath.tap_sums import extended

_HALF_BITS = scaled.MULTIPLIER_BITS - 1             # weight of 1/2 in a product
_HALF_AT = _HALF_BITS - CASCADE_SHIFT               # the same in units of 2^CASCADE_SHIFT
#: One more than twice the product by 2^31 has.
VALUE_BITS = scaled.SUM_BITS + scaled.MULTIPLIER_BITS - _HALF_BITS + 1
_A_BITS = 27                                        # of a block's multiplier
_REST_BITS = scaled.SUM_BITS - _A_BITS              # of a sum, that the blocks do not multiply
#: The lower part of a multiplier: with the places of the rest below it a factor of a block.
_LOW_BITS = CASCADE_SHIFT - _REST_BITS


class FixedProduct(wiring.Component):
    """One value a cycle: twice its product with a multiplier by 2^31, less what ties want.

    Half away from zero is half up, of a negative tie less a little. If ``once``, a negative sum
    takes one from the product of 60 bits, so that twice it by 2^31, rounded down, is one less where
    nothing was below. Otherwise the product by 2^31 is rounded half up, and a negative sum takes a
    half from that.

    In DSP blocks the upper 27 bits of a sum are multiplied by both parts of the multiplier. The
    rest, two bits, takes one adder, whose operands are registers that reset. Pre-adders saturate:
    they have A or D. What is taken from the product, and the half, are constants of the blocks.

    Parameters
    ----------
    width : :class:`int`
        Of a sum: more than :data:`opendpu_arch.scaled.SUM_BITS`.
    vendor : :class:`str` or None
        ``xilinx``: two DSP48E2. Otherwise plain multiplications.

    Members
    -------
    sum : ``In(signed(width))``
        Valid with stage 1; saturates to :data:`opendpu_arch.scaled.SUM_BITS` bits.
    multiplier, once : ``In(31)``, ``In(1)``
        Valid with stages 2 and 3.
    value : ``Out(signed(VALUE_BITS))``
        Valid with stage 6.
    """

    def __init__(self, *, width, vendor=None):
        self._vendor = vendor
        super().__init__({
            "sum": In(signed(width)), "multiplier": In(unsigned(scaled.MULTIPLIER_BITS)),
            "once": In(1), "value": Out(signed(VALUE_BITS)),
        })

    def elaborate(self, platform):
        m = Module()
        top, sign = self.sum[scaled.SUM_BITS - 1:], self.sum[-1]
        beyond = Signal()
        m.d.comb += beyond.eq(top.any() & ~top.all())
        negative = [None, sign]             # n: in stage n
        for n in range(2, 7):
            negative.append(_register(m, 1, f"negative{n}", negative[-1]))
        once = [None, None, None, self.once]
        for n in range(4, 7):
            once.append(_register(m, 1, f"once{n}", once[-1]))
        # Half of 2^31, and for negative sums less twice that, in units of 2^CASCADE_SHIFT.
        half = Cat(Const(0, _HALF_AT), ~once[4], (negative[4] & ~once[4]).replicate(
            SUM_WIDTH - _HALF_AT - 1)).as_signed()
        total = (self._blocks if self._vendor == "xilinx" else self._plain)(
            m, beyond, negative, negative[3] & once[3], half)
        m.d.comb += self.value.eq(
            Cat(Mux(once[6], total[_HALF_AT], negative[6]), total[_HALF_AT + 1:])[:VALUE_BITS])
        return m

    def _plain(self, m, beyond, negative, less, half):
        """Return product, less something, and half, in units of 2^17, in stage 6."""
        limit = Cat((~self.sum[-1]).replicate(scaled.SUM_BITS - 1), self.sum[-1])
        t = _register(m, signed(scaled.SUM_BITS), "t",
                      Mux(beyond, limit, self.sum[:scaled.SUM_BITS]))
        low, high = (
            _register(m, signed(scaled.SUM_BITS + len(part)), name, t * part)
            for name, part in (("low", self.multiplier[:CASCADE_SHIFT]),
                               ("high", self.multiplier[CASCADE_SHIFT:])))
        # The least product is 2^28 above what its bits hold, so one less fits them.
        low_sum = _register(m, low.shape(), "low_sum", low - less)
        high_later = _register(m, high.shape(), "high_later", high)
        total = _register(m, signed(len(high) + 2), "total",
                          high_later + (low_sum >> CASCADE_SHIFT) + half)
        return _register(m, total.shape(), "total_later", total)

    def _blocks(self, m, beyond, negative, less, half):
        """Return the same, from DSP blocks."""
        upper = self.sum[_REST_BITS:][:_A_BITS].as_signed()
        beyond_later = _register(m, 1, "beyond_later", beyond)
        a = extended(m, upper, 30, "a")
        limits = [extended(m, Cat((~n).replicate(_A_BITS - 1), n), _A_BITS, f"limit{number}")
                  for number, n in enumerate(negative[1:3])]
        parts = self.multiplier[:_LOW_BITS] << _REST_BITS, self.multiplier[_LOW_BITS:]
        b_low, b_high = (extended(m, Cat(part, Const(0, 1)), 18, f"b{number}")
                         for number, part in enumerate(parts))
        # -- the rest: stages 1 to 3 ---------------------------------------------------------------
        rest = _register(m, _REST_BITS, "rest", Mux(
            beyond, (~negative[1]).replicate(_REST_BITS), self.sum[:_REST_BITS]))
        products = []
        for n, bit in enumerate(rest):
            product = Signal(scaled.MULTIPLIER_BITS, name=f"rest_product{n}", reset_less=True)
            with m.If(bit):
                m.d.sync += product.eq(self.multiplier)
            with m.Else():
                m.d.sync += product.eq(0)
            products.append(product)
        added = extended(m, products[0] + (products[1] << 1), SUM_WIDTH, "added")
        # -- products: stages 1 to 5; the upper one a cycle later ----------------------------------
        lower = Signal(SUM_WIDTH, name="lower")
        m.submodules.lower = dsp48e2(
            lower, a=a, b=b_low, d=limits[0], c=added, c_enable=Const(1), operands=True,
            b_registers=1, last=False, d_for_a=beyond, less=less)
        # In two parts: what is made of the lower one is beside the upper one in the result.
        total = Cat(Signal(_HALF_AT + 1, name="sum_below"),
                    Signal(SUM_WIDTH - _HALF_AT - 1, name="sum_above"))
        m.submodules.upper = dsp48e2(
            total, a=a, b=b_high, d=limits[1], pcin=lower, shifted=True,
            c=extended(m, half, SUM_WIDTH, "half"), c_enable=Const(1), operands=True,
            a_registers=2, last=True, d_for_a=beyond_later)
        return total


def _register(m, shape, name, value):
    """Return a value a cycle later."""
    later = Signal(shape, name=name, reset_less=True)
    m.d.sync += later.eq(value)
    return later
