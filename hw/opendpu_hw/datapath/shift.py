# SPDX-License-Identifier: Apache-2.0
"""Right shift of wide values down to what rounding and clamping to eight bits need."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

#: Bits of a step of the first stage.
BYTE = 8


class SaturatingShift(wiring.Component):
    """Shift by bytes, then by bits; what is left are some bits, nine or ``kept``, and whether they
    are all.

    A value that does not fit seven bits more after the first stage does not fit them after the
    second, whatever that shifts by, so its low bits need not be looked at.

    Parameters
    ----------
    width : :class:`int`
        Of the value.
    kept : :class:`int`
        Bits that are left.

    Members
    -------
    value, bytes : ``In(signed(width))``, ``In``
        What is shifted, and by how many bytes; enough to leave only the sign at the end of the
        range.
    bits : ``In(3)``
        By how many bits more; valid with ``value``.
    stage : ``In(2)``
        The first stage works; the second, a cycle later.
    shifted : ``Out(signed(kept))``
        Low bits, after the second stage.
    negative, large : ``Out(1)``
        Sign; the whole value does not fit ``shifted``.
    """

    def __init__(self, *, width, kept=9):
        self._width, self._kept = width, kept
        self.most = -(-width // BYTE)
        super().__init__({
            "value": In(signed(width)), "bytes": In(range(self.most + 1)), "bits": In(range(BYTE)),
            "stage": In(2),
            "shifted": Out(signed(kept)), "negative": Out(1), "large": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        sign = self.value[-1]
        kept, narrow_bits = self._kept, self._kept + BYTE - 1
        extended = Cat(self.value, sign.replicate(BYTE * self.most + narrow_bits - self._width))
        narrow = Signal(signed(narrow_bits), reset_less=True)
        bits = Signal(range(BYTE), reset_less=True)
        beyond, negative = Signal(reset_less=True), Signal(reset_less=True)
        # Bits that stay above what is left, but differ from the sign; no signal between registers:
        # what is idle then costs a simulator nothing.
        above = [_differs(extended[BYTE * k + narrow_bits - 1:][:BYTE], sign) & (self.bytes <= k)
                 for k in range(self.most)]
        with m.If(self.stage[0]):
            m.d.sync += [
                bits.eq(self.bits), negative.eq(sign),
                narrow.eq(_choose(self.bytes, [extended[BYTE * k:][:narrow_bits]
                                               for k in range(self.most + 1)])),
                beyond.eq(Cat(above).any()),
            ]

        shifted = Signal(signed(kept), reset_less=True)
        below_zero, large = Signal(reset_less=True), Signal(reset_less=True)
        m.d.comb += [self.shifted.eq(shifted), self.negative.eq(below_zero), self.large.eq(large)]
        with m.If(self.stage[1]):
            m.d.sync += [
                shifted.eq(_choose(bits, [narrow[k:k + kept] for k in range(BYTE)])),
                below_zero.eq(negative),
                large.eq(beyond | Cat((narrow[kept - 1 + k] ^ negative) & (bits <= k)
                                      for k in range(BYTE)).any()),
            ]
        return m


def _differs(bits, sign):
    """Return whether any of the bits differs from the sign."""
    return bits != sign.replicate(len(bits))


def _choose(index, values):
    """Return the value at ``index``, two at a time: multiplexers of LUTs, no decoder."""
    for bit in index:
        values = [Mux(bit, *pair[::-1]) if len(pair) == 2 else pair[0]
                  for pair in (values[n:n + 2] for n in range(0, len(values), 2))]
    return values[0]
