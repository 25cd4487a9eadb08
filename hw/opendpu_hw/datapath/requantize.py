# SPDX-License-Identifier: Apache-2.0
"""Bias, activation, shift, rounding and saturation of CONV and depthwise results."""

from amaranth.hdl import Const, Mux, Signal, signed

from opendpu_arch.isa import ActType

#: Width of a sum of products with its bias, doubled.
ACC_WIDTH = 32
#: Width of ``shift_cut`` and ``shift_bias``.
SHIFT_WIDTH = 6
#: Width of a scaled and rounded value before saturation.
SCALED_WIDTH = ACC_WIDTH + 5


def with_bias(acc, offset):
    """Return ``2·acc + offset`` as a 32-bit value; ``offset`` is ``bias · 2^shift_bias``."""
    return (((acc << 1) + offset)[:ACC_WIDTH]).as_signed()


def saturate(value, *, low=-128, high=127):
    """Clamp a signed value to eight bits."""
    return Mux(value > high, Const(high, signed(8)),
               Mux(value < low, Const(low, signed(8)), value[:8].as_signed()))


def scale(t, shift_cut, act):
    """Return ``t / 2^(shift_cut + 1)`` rounded half up, before saturation: the first half.

    A negative ``t`` under LEAKYRELU is multiplied by 26/256 first; there is one rounding only.
    Meant to be registered: :func:`activate` is the second half.

    Parameters
    ----------
    t : signed(32)
        2·Σ + bias·2^SB.
    shift_cut : unsigned(6)
        Shift.
    act : unsigned(4)
        :class:`opendpu_arch.isa.ActType`.
    """
    leaky = (act == ActType.LEAKYRELU) & t[-1]
    scaled = Mux(leaky, (t << 4) + (t << 3) + (t << 1), t)[:SCALED_WIDTH].as_signed()
    amount = shift_cut + Mux(leaky, 8, 0)
    shifted = scaled >> Mux(amount > SCALED_WIDTH, SCALED_WIDTH, amount[:6])
    return ((shifted + 1) >> 1)[:SCALED_WIDTH].as_signed()


def activate(rounded, act):
    """Return the INT8 result of a rounded value: ReLU, ReLU6 (clamp to 96), saturation."""
    positive = (act == ActType.RELU) | (act == ActType.RELU6)
    high = Mux(act == ActType.RELU6, Const(96, signed(8)), Const(127, signed(8)))
    low = Mux(positive, Const(0, signed(8)), Const(-128, signed(8)))
    return Mux(rounded > high, high, Mux(rounded < low, low, rounded[:8].as_signed()))


def requantize(m, t, shift_cut, act, *, name):
    """Return the INT8 result of ``t`` = 2·Σ + bias·2^SB in one combinational piece.

    See ``opendpu_arch.numerics``; ``act`` is NONE, RELU, LEAKYRELU or RELU6.
    """
    rounded = Signal(signed(SCALED_WIDTH), name=f"{name}_rounded")
    m.d.comb += rounded.eq(scale(t, shift_cut, act))
    return activate(rounded, act)
