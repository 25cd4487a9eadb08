# SPDX-License-Identifier: Apache-2.0
"""Bias, shift, rounding, activation and saturation of CONV's sums."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch.isa import ActType
from opendpu_hw.datapath.accumulators import SUM_WIDTH
from opendpu_hw.datapath.leaky_block import FACTOR, LeakyBlock
from opendpu_hw.datapath.shift import SaturatingShift

#: Width of a sum with its bias, doubled.
BIASED_WIDTH = SUM_WIDTH + 1
#: Width of ``shift_cut`` and ``shift_bias``.
SHIFT_WIDTH = 6
#: LeakyReLU's factor 26/256 is :data:`FACTOR` with this much more shift.
LEAKY_SHIFT = 7
_WIDE = BIASED_WIDTH + FACTOR.bit_length()
#: How to scale: the shifts of positive and negative values, which differ under LEAKYRELU.
scale_shape = data.StructLayout({"positive": SHIFT_WIDTH, "negative": SHIFT_WIDTH, "leaky": 1})
#: What a lane with shifts of its own makes its scale of.
CUT_SHAPE = data.StructLayout({"shift_cut": SHIFT_WIDTH, "act": 4})


def scale_of(shift_cut, act):
    """Return the value of ``scale_shape`` for an instruction's ``shift_cut`` and ``act_type``."""
    leaky = act == ActType.LEAKYRELU

    def amount(bits):
        # The largest there is leaves the sign alone, as any beyond it would.
        return bits[:SHIFT_WIDTH] | bits[SHIFT_WIDTH:].any().replicate(SHIFT_WIDTH)

    negative = (shift_cut + Mux(leaky, LEAKY_SHIFT, 0))[:SHIFT_WIDTH + 1]
    return Cat(amount(shift_cut), amount(negative), leaky)


class Requantizer(wiring.Component):
    """One value a cycle: ``y = clamp(round((2·sum + offset) / 2^(shift_cut + 1)))``.

    Rounding is half up, once; under LEAKYRELU negative values are multiplied by 26/256 before it.
    Equal to :func:`opendpu_arch.numerics.requantize` while ``2·sum + offset`` fits 32 bits.

    Parameters
    ----------
    leaky : :class:`bool`
        Whether there is LEAKYRELU.
    block : :class:`bool`
        Whether its factor is in a DSP block, which takes half the LUTs.
    vendor : :class:`str` or None
        Whose block that is, see :class:`opendpu_hw.datapath.leaky_block.LeakyBlock`.
    double_rate : :class:`bool`
        With ``block``: the first three stages are in a
        :class:`opendpu_hw.datapath.double_leaky.DoubleRateLeaky`.

    Members
    -------
    sum, odd : ``In(signed(31)).array(2)``, ``In(1)``
        Sums, and which of them is meant.
    offset : ``In(signed(32))``
        bias · 2^shift_bias.
    stage : ``In(6)``
        A bit a stage: it works in this cycle. A value whose sum comes with bit 0 is in stage ``n``
        ``n`` cycles later.
    scale, act : ``In(scale_shape)``, ``In(4)``
        Valid with stages 2 and 5.
    early_leaky : ``In(1)``
        With ``block``: ``scale.leaky``, valid with stage 1.
    product, negative : ``In(signed(36))``, ``In(1)``
        With ``double_rate``, instead of ``sum``, ``odd``, ``offset`` and ``early_leaky``: what it
        makes of them.
    y : ``Out(signed(8))``
        Result, from the cycle after stage 5 until the next one's.
    """

    STAGES = 6

    def __init__(self, *, leaky=True, block=False, vendor=None, double_rate=False):
        self._leaky, self._block, self._vendor = leaky, leaky and block, vendor
        self._double_rate = double_rate
        before = {
            "sum": In(signed(SUM_WIDTH)).array(2), "odd": In(1),
            "offset": In(signed(BIASED_WIDTH)), **({"early_leaky": In(1)} if self._block else {})}
        if double_rate:
            before = {"product": In(signed(_WIDE)), "negative": In(1)}
        super().__init__({
            **before,
            "stage": In(self.STAGES), "scale": In(scale_shape), "act": In(unsigned(4)),
            "y": Out(signed(8)),
        })

    def elaborate(self, platform):
        m = Module()

        def register(width, name):
            return Signal(signed(width), name=name, reset_less=True)

        wide, negative = self._biased_product(m)
        amount = Signal(SHIFT_WIDTH, reset_less=True)
        with m.If(self.stage[2]):
            m.d.sync += amount.eq(Mux(negative, self.scale.negative, self.scale.positive))

        # -- shift: twice the result ---------------------------------------------------------------
        m.submodules.shift = shift = SaturatingShift(
            width=_WIDE, amount=SHIFT_WIDTH, vendor=self._vendor)
        m.d.comb += [
            shift.value.eq(wide), shift.amount.eq(amount), shift.stage.eq(self.stage[3:5]),
        ]

        # -- rounding and limits -------------------------------------------------------------------
        rounded = ((shift.shifted + 1) >> 1)[:9].as_signed()
        relu = (self.act == ActType.RELU) | (self.act == ActType.RELU6)
        six = Signal()
        top = Signal()
        zero = Signal()
        lowest = Signal()
        # More than 127, or ReLU6's 96.
        beyond = ~rounded[8] & (rounded[7] | (six & rounded[5:7].all() & rounded[:5].any()))
        y = register(8, "result")
        m.d.comb += [
            six.eq(self.act == ActType.RELU6),
            top.eq(~shift.negative & (shift.large | beyond)),
            zero.eq(shift.negative & relu), lowest.eq(shift.negative & ~relu & shift.large),
            self.y.eq(y),
        ]
        keep = ~(top | zero | lowest)
        limit = Cat((top & ~six).replicate(5), top.replicate(2), lowest)
        with m.If(self.stage[5]):
            m.d.sync += y.eq((rounded[:8] & keep.replicate(8)) | limit)
        return m

    def _biased_product(self, m):
        """Return twice the sum with the bias, times what LEAKYRELU has; the sign, with stage 2."""
        if self._double_rate:
            return self.product, self.negative
        biased = Signal(signed(BIASED_WIDTH), name="biased", reset_less=True)
        with m.If(self.stage[0]):
            chosen = Mux(self.odd, self.sum[1], self.sum[0])
            doubled = Cat(Const(0, 1), chosen).as_signed()
            m.d.sync += biased.eq((self.offset + doubled)[:BIASED_WIDTH].as_signed())
        return (self._block_product if self._block else self._product)(m, biased)

    def _product(self, m, biased):
        """Return, after stage 2, negative values of LEAKYRELU times 13 = 1 + 4 · 3, and the sign.

        The sign comes with stage 2.
        """
        value = Signal(signed(BIASED_WIDTH), name="value", reset_less=True)
        triple = Signal(signed(BIASED_WIDTH + 2), name="triple", reset_less=True)
        with m.If(self.stage[1]):
            m.d.sync += value.eq(biased)
            if self._leaky:
                m.d.sync += triple.eq(biased + (biased << 1))
        wide = Signal(signed(_WIDE), name="wide", reset_less=True)
        negative = value[-1]
        with m.If(self.stage[2]):
            more = Mux(self.scale.leaky & negative, triple, 0) if self._leaky else Const(0)
            m.d.sync += wide.eq((more << 2) + value)
        return wide, negative

    def _block_product(self, m, biased):
        """Return the same from a DSP block."""
        m.submodules.leaky_block = product = LeakyBlock(width=BIASED_WIDTH, vendor=self._vendor)
        negative = Signal(reset_less=True)
        m.d.comb += [
            product.value.eq(biased), product.leaky.eq(self.early_leaky),
            product.stage.eq(self.stage[1:3]),
        ]
        with m.If(self.stage[1]):
            m.d.sync += negative.eq(biased[-1])
        return product.product, negative
