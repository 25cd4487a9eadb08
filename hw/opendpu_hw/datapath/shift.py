# SPDX-License-Identifier: Apache-2.0
"""Right shift of wide values down to what rounding and clamping to eight bits need."""

import itertools

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_hw.datapath.multiplexer import choose

#: The first stage shifts by multiples of this, the second by less: four positions each, and twice
#: four, are multiplexers of one LUT of six inputs a bit.
STEP = 16


class SaturatingShift(wiring.Component):
    """Shift by :data:`STEP`, then by bits; what is left are some bits, nine or ``kept``, and
    whether they are all.

    A value that does not fit ``STEP - 1`` bits more after the first stage does not fit them after
    the second, whatever that shifts by, so its low bits need not be looked at.

    Parameters
    ----------
    width : :class:`int`
        Of the value.
    amount : :class:`int`
        Bits of the number of places, at least five.
    kept : :class:`int`
        Bits that are left.

    Members
    -------
    value, amount : ``In(signed(width))``, ``In(amount)``
        What is shifted, and by how many places.
    stage : ``In(2)``
        The first stage works; the second, a cycle later.
    shifted : ``Out(signed(kept))``
        Low bits, after the second stage.
    negative, large : ``Out(1)``
        Sign; the whole value does not fit ``shifted``.
    """

    def __init__(self, *, width, amount=6, kept=9):
        self._width, self._kept = width, kept
        super().__init__({
            "value": In(signed(width)), "amount": In(amount), "stage": In(2),
            "shifted": Out(signed(kept)), "negative": Out(1), "large": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        kept = self._kept
        window = kept + STEP - 1            # what the second stage needs
        amount = Signal(ceil_log2(STEP), reset_less=True)
        narrow = Signal(signed(window), reset_less=True)
        beyond, sign = Signal(reset_less=True), Signal(reset_less=True)
        # No signal between registers: what is idle then costs a simulator nothing.
        with m.If(self.stage[0]):
            value, large = _narrow(
                self.value, self.value[-1], self.amount[len(amount):], STEP, window)
            m.d.sync += [
                amount.eq(self.amount), sign.eq(self.value[-1]), narrow.eq(value),
                beyond.eq(large),
            ]

        shifted = Signal(signed(kept), reset_less=True)
        negative, too_large = Signal(reset_less=True), Signal(reset_less=True)
        m.d.comb += [
            self.shifted.eq(shifted), self.negative.eq(negative), self.large.eq(too_large)]
        with m.If(self.stage[1]):
            quarter, above = _narrow(narrow, sign, amount[2:], 4, kept + 3)
            value, large = _narrow(quarter, sign, amount[:2], 1, kept)
            m.d.sync += [
                shifted.eq(value), negative.eq(sign), too_large.eq(beyond | above | large)]
        return m


def _narrow(value, sign, index, step, window):
    """Return ``window`` bits of a value from ``step * index`` on, and whether it needs more.

    ``sign`` is that of all of the value.
    """
    positions = 1 << len(index)
    extended = Cat(value, sign.replicate(max(step * (positions - 1) + window - len(value), 0)))
    tops = [min(window - 1 + step * k, len(value)) for k in range(positions)]
    above = [(value[low:high] != sign.replicate(high - low)) & (index <= k)
             for k, (low, high) in enumerate(itertools.pairwise([*tops, len(value)]))
             if low < high]
    return (choose(index, [extended[step * k:][:window] for k in range(positions)]),
            Cat(above).any())
