# SPDX-License-Identifier: Apache-2.0
"""Bias and LEAKYRELU's factor of four pixels in one DSP block at twice the clock."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.datapath.accumulators import SUM_WIDTH
from opendpu_hw.datapath.dsp48e2 import SUM_WIDTH as BLOCK_WIDTH
from opendpu_hw.datapath.dsp48e2 import dsp48e2
from opendpu_hw.datapath.leaky_block import FACTOR, LOW_WIDTH, above_low
from opendpu_hw.double_rate import DOMAIN

#: Width of twice a sum with its bias, and of that times the factor.
BIASED_WIDTH = SUM_WIDTH + 1
PRODUCT_WIDTH = BIASED_WIDTH + FACTOR.bit_length()


class DoubleRateLeaky(wiring.Component):
    """The first three stages of two :class:`opendpu_hw.datapath.requantize.Requantizer`.

    Their values take turns at one adder and one DSP block.

    Cycles of the doubled clock, 0 being the first half of stage 0's, for the first value; the other
    one comes a cycle later:

    ====== ===============================
    0      the sum is there
    1      twice that with the bias
    2, 3   operands and product in the block
    4      its sum
    6      stage 3 begins
    ====== ===============================

    Parameters
    ----------
    vendor : :class:`str` or None
        ``xilinx``: a DSP48E2. None: the same in plain registers.

    Members
    -------
    even, odd : ``In(signed(31))``
        Sums of pixels, the first ones in the first half of a cycle, the others in the second half.
    second_turn : ``In(1)``
        With stage 0: it is about the ``odd`` pixels of the cycle before.
    offset, leaky : ``In(signed(32))``, ``In(1)``
        bias · 2^shift_bias, and whether it is LEAKYRELU, valid with stage 0.
    stage : ``In(3)``
        A bit a stage: it works in this cycle.
    negative : ``Out(1).array(2)``
        Signs, from stage 2 on.
    product : ``Out(signed(36)).array(2)``
        Twice the sums with the bias, times :data:`opendpu_hw.datapath.leaky_block.FACTOR` where
        that is negative and ``leaky``, from stage 3 on.
    """

    def __init__(self, *, vendor=None):
        self._vendor = vendor
        super().__init__({
            "even": In(signed(SUM_WIDTH)), "odd": In(signed(SUM_WIDTH)), "second_turn": In(1),
            "offset": In(signed(BIASED_WIDTH)), "leaky": In(1), "stage": In(3),
            "negative": Out(1).array(2), "product": Out(signed(PRODUCT_WIDTH)).array(2),
        })

    def elaborate(self, platform):
        m = Module()

        def later(value, name, count=1):
            for n in range(count):
                before, value = value, Signal.like(value, name=f"{name}{n}", reset_less=True)
                m.d[DOMAIN] += value.eq(before)
            return value

        odd = later(self.odd, "odd_later", 2)
        biased = Signal(signed(BIASED_WIDTH), reset_less=True)
        leaky = Signal(reset_less=True)
        with m.If(self.stage[0]):
            doubled = Cat(Const(0, 1), Mux(self.second_turn, odd, self.even)).as_signed()
            m.d[DOMAIN] += [
                biased.eq((self.offset + doubled)[:BIASED_WIDTH].as_signed()),
                leaky.eq(self.leaky),
            ]
        slope = Signal()
        m.d.comb += slope.eq(leaky & biased[-1])
        above = above_low(biased[LOW_WIDTH:], slope)
        upper = Signal(signed(len(above)), reset_less=True)
        m.d[DOMAIN] += upper.eq(above)
        total = self._multiply(m, biased[:LOW_WIDTH], slope, upper)

        sign = later(biased[-1], "sign")
        with m.If(self.stage[1]):
            m.d.sync += [register.eq(value) for register, value in zip(
                self.negative, (later(sign, "first_sign"), sign), strict=True)]
        first = later(total, "first")
        with m.If(self.stage[2]):
            m.d.sync += [register.eq(value) for register, value in zip(
                self.product, (first, total), strict=True)]
        return m

    def _multiply(self, m, low, slope, upper):
        """Return the product, three cycles after ``low`` and two after ``upper``."""
        factor = Mux(slope, FACTOR, 1)
        if self._vendor == "xilinx":
            a, b, c, total = (
                Signal(signed(width), name=name) for name, width in (
                    ("a", 30), ("b", 18), ("c", BLOCK_WIDTH), ("total", BLOCK_WIDTH)))
            m.d.comb += [a.eq(low), b.eq(factor), c.eq(upper << LOW_WIDTH)]
            m.submodules.dsp = dsp48e2(
                total, a=a, b=b, c=c, operands=True, b_registers=1, last=True, domain=DOMAIN,
                c_enable=Const(1, 1))
            return total[:PRODUCT_WIDTH].as_signed()
        a, b = Signal(LOW_WIDTH, reset_less=True), Signal(4, reset_less=True)
        c, product = Signal.like(upper, reset_less=True), Signal(LOW_WIDTH + 4, reset_less=True)
        total = Signal(signed(PRODUCT_WIDTH), reset_less=True)
        m.d[DOMAIN] += [
            a.eq(low), b.eq(factor), product.eq(a * b), c.eq(upper),
            total.eq((c << LOW_WIDTH) + product),
        ]
        return total
