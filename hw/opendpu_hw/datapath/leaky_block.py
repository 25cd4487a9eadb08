# SPDX-License-Identifier: Apache-2.0
"""LEAKYRELU's factor in a DSP block."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.datapath.dsp48e2 import SUM_WIDTH, dsp48e2

#: 26/256 is this with seven places more of shift.
FACTOR = 13
#: Bits that the multiplier takes; those above come with the block's sum.
LOW_WIDTH = 26


class LeakyBlock(wiring.Component):
    """``value``, or :data:`FACTOR` times that where it is negative and ``leaky``; two cycles later.

    Parameters
    ----------
    width : :class:`int`
        Of the value: more than 26 bits, 32 at most.
    vendor : :class:`str` or None
        ``xilinx``: a DSP48E2. None: the same in plain registers.

    Members
    -------
    value, leaky : ``In(signed(width))``, ``In(1)``
        What is multiplied, and whether; valid with the first ``stage``.
    stage : ``In(2)``
        Products are taken; a cycle later, their sum is.
    product : ``Out(signed(width + 4))``
        From the cycle after the second ``stage``.
    """

    def __init__(self, *, width, vendor=None):
        self._width, self._vendor = width, vendor
        super().__init__({
            "value": In(signed(width)), "leaky": In(1), "stage": In(2),
            "product": Out(signed(width + FACTOR.bit_length())),
        })

    def elaborate(self, platform):
        m = Module()
        slope = Signal()
        m.d.comb += slope.eq(self.leaky & self.value[-1])
        low, above = self.value[:LOW_WIDTH], above_low(self.value[LOW_WIDTH:], slope)
        if self._vendor == "xilinx":
            a, b, upper, total = (
                Signal(signed(width), name=name) for name, width in
                (("a", 30), ("b", 18), ("upper", len(above)), ("sum", SUM_WIDTH)))
            m.d.comb += [
                a.eq(low), b.eq(Mux(slope, FACTOR, 1)), upper.eq(above), self.product.eq(total),
            ]
            # A wider signal would have copies of its sign assigned from itself.
            sign = upper[-1].replicate(SUM_WIDTH - LOW_WIDTH - len(upper))
            m.submodules.dsp = dsp48e2(
                total, a=a, b=b, c=Cat(Const(0, LOW_WIDTH), upper, sign), operands=False,
                last=True, enable=(self.stage[0], self.stage[1]), c_enable=self.stage[0])
            return m
        c = Signal(signed(len(above)), reset_less=True)
        product = Signal(LOW_WIDTH + 4, reset_less=True)
        total = Signal.like(self.product, reset_less=True)
        with m.If(self.stage[0]):
            m.d.sync += [c.eq(above), product.eq(low * Mux(slope, FACTOR, 1))]
        with m.If(self.stage[1]):
            m.d.sync += total.eq((c << LOW_WIDTH) + product)
        m.d.comb += self.product.eq(total)
        return m


def above_low(bits, slope):
    """Return the bits above those of the multiplier, times :data:`FACTOR` with ``slope``.

    ``slope`` says that the sign is set, so a product is a function of the others: five, which a LUT
    takes.
    """
    sign, others = bits[-1], bits[:-1]
    places = 1 << len(others)
    products = [FACTOR * (n - places) for n in range(places)]
    plain = Cat(bits, sign.replicate(FACTOR.bit_length()))
    multiplied = [
        (Const(sum((p >> i & 1) << n for n, p in enumerate(products)), places) >> others)[0]
        for i in range(len(plain))]
    return Cat(Mux(slope, one, other) for one, other in zip(multiplied, plain, strict=True)
               ).as_signed()
