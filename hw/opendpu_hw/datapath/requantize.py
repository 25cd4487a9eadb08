# SPDX-License-Identifier: Apache-2.0
"""Bias, activation, shift, rounding and saturation of CONV and depthwise results."""

from amaranth.hdl import Const, Mux, Signal, signed, unsigned

from opendpu_arch.isa import ActType

#: Width of a sum of products with its bias, doubled.
ACC_WIDTH = 32
#: Width of ``shift_cut`` and ``shift_bias``.
SHIFT_WIDTH = 6
_WIDE = ACC_WIDTH + 5
_SHIFT_MAX = _WIDE


def with_bias(acc, offset):
    """Return ``2·acc + offset`` as a 32-bit value; ``offset`` is ``bias · 2^shift_bias``."""
    return (((acc << 1) + offset)[:ACC_WIDTH]).as_signed()


def saturate(value, *, low=-128, high=127):
    """Clamp a signed value to eight bits."""
    return Mux(value > high, Const(high, signed(8)),
               Mux(value < low, Const(low, signed(8)), value[:8].as_signed()))


def round_shift(m, value, shift, *, name):
    """Return ``floor(value / 2^(shift + 1) + 1/2)``: a right shift that rounds half up."""
    width = len(value)
    shifted = Signal(signed(width), name=f"{name}_shifted")
    m.d.comb += shifted.eq(value >> shift)
    half = Signal(signed(width), name=f"{name}_half")
    m.d.comb += half.eq(((shifted + 1) >> 1)[:width].as_signed())
    return half


def requantize(m, t, shift_cut, act, *, name):
    """Return the INT8 result of ``t`` = 2·Σ + bias·2^SB; see ``numerics``.

    ``act`` is NONE, RELU, LEAKYRELU (26/256, before the one rounding) or RELU6 (clamp to 96).

    Parameters
    ----------
    m : :class:`Module`
        Where the combinational parts go.
    t : signed(32)
        Sum with bias.
    shift_cut : unsigned(6)
        The result is t / 2^(shift_cut + 1), rounded half up.
    act : unsigned(4)
        :class:`opendpu_arch.isa.ActType`.
    """
    leaky = Signal(name=f"{name}_leaky")
    m.d.comb += leaky.eq((act == ActType.LEAKYRELU) & t[-1])
    scaled = Signal(signed(_WIDE), name=f"{name}_scaled")
    m.d.comb += scaled.eq(Mux(leaky, (t << 4) + (t << 3) + (t << 1), t))
    amount = Signal(unsigned(7), name=f"{name}_amount")
    m.d.comb += amount.eq(shift_cut + (leaky << 3))
    clipped = Signal(unsigned(6), name=f"{name}_clipped")
    m.d.comb += clipped.eq(Mux(amount > _SHIFT_MAX, _SHIFT_MAX, amount[:6]))
    rounded = round_shift(m, scaled, clipped, name=name)
    positive = (act == ActType.RELU) | (act == ActType.RELU6)
    result = Signal(signed(8), name=f"{name}_result")
    with m.If(positive & rounded[-1]):
        m.d.comb += result.eq(0)
    with m.Elif((act == ActType.RELU6) & (rounded > 96)):
        m.d.comb += result.eq(96)
    with m.Else():
        m.d.comb += result.eq(saturate(rounded))
    return result
