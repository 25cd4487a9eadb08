# SPDX-License-Identifier: Apache-2.0
"""Right shift of wide values down to what rounding and clamping to eight bits need."""

import itertools

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_hw.datapath.multiplexer import choose

#: The first stage usually shifts by multiples of this, the second by less: four positions each, and
#: twice four, are multiplexers of one LUT of six inputs a bit.
STEP = 16


class SaturatingShift(wiring.Component):
    """Shift by ``step``, then by bits; what is left are some bits, nine or ``kept``, and whether
    they are all.

    A value that does not fit ``step - 1`` bits more after the first stage does not fit them after
    the second, whatever that shifts by, so its low bits need not be looked at.

    Parameters
    ----------
    width : :class:`int`
        Of the value.
    amount : :class:`int`
        Bits of the number of places, at least five.
    kept : :class:`int`
        Bits that are left.
    step : :class:`int`
        The first stage shifts by multiples of this, a power of two above four.
    vendor : :class:`str` or None
        ``xilinx``: multiplexers are modules of their own, where synthesis finds LUTs of six inputs
        for them. Otherwise nothing of idle stages is evaluated in simulation.

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

    def __init__(self, *, width, amount=6, kept=9, step=STEP, vendor=None):
        self._width, self._kept, self._step, self._vendor = width, kept, step, vendor
        super().__init__({
            "value": In(signed(width)), "amount": In(amount), "stage": In(2),
            "shifted": Out(signed(kept)), "negative": Out(1), "large": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        kept, step = self._kept, self._step
        window = kept + step - 1            # what the second stage needs
        amount = Signal(ceil_log2(step), reset_less=True)
        narrow = Signal(signed(window), reset_less=True)
        beyond = Signal(reset_less=True)
        sign = Signal(reset_less=True)
        # No signal between registers: what is idle then costs a simulator nothing.
        value, large = self._narrow(
            m, self.value, self.value[-1], self.amount[len(amount):], step, window)
        with m.If(self.stage[0]):
            m.d.sync += [
                amount.eq(self.amount), sign.eq(self.value[-1]), narrow.eq(value),
                beyond.eq(large),
            ]

        shifted = Signal(signed(kept), reset_less=True)
        negative = Signal(reset_less=True)
        too_large = Signal(reset_less=True)
        m.d.comb += [
            self.shifted.eq(shifted), self.negative.eq(negative), self.large.eq(too_large)]
        # The highest bit of either is the sign, or the stage before has found it too large.
        quarter, above = self._narrow(m, narrow, sign, amount[2:], 4, kept + 3, known=1)
        value, large = self._narrow(m, quarter, sign, amount[:2], 1, kept, known=1)
        with m.If(self.stage[1]):
            m.d.sync += [
                shifted.eq(value), negative.eq(sign), too_large.eq(beyond | above | large)]
        return m

    def _narrow(self, m, value, sign, index, step, window, *, known=0):
        """Return ``window`` bits of a value from ``step * index`` on, and whether it needs more.

        ``sign`` is that of all of the value, which so many of its highest bits are known to be.
        """
        tops = [min(window - 1 + step * k, len(value)) for k in range(1 << len(index))]
        above = [(value[low:high] != sign.replicate(high - low)) & (index <= k)
                 for k, (low, high) in enumerate(itertools.pairwise(
                     [*tops, len(value) - known]))
                 if low < high]
        if self._vendor != "xilinx":
            return _window(value, index, step, window), Cat(above).any()
        m.submodules[f"by_{step}"] = part = _Window(
            width=len(value), window=window, step=step, index=len(index))
        m.d.comb += [part.value.eq(value), part.index.eq(index)]
        return part.o, Cat(above).any()


def _window(value, index, step, window):
    """Return bits from ``step * index`` on; above the value its highest bit comes again."""
    positions = 1 << len(index)
    extended = Cat(value, value[-1].replicate(
        max(step * (positions - 1) + window - len(value), 0)))
    return choose(index, [extended[step * k:][:window] for k in range(positions)])


class _Window(wiring.Component):
    """:func:`_window` alone: multiplexers, four ways of which are one LUT of six inputs a bit.

    Members
    -------
    value, index : ``In(width)``, ``In(index)``
        The value, and the multiple of ``step``.
    o : ``Out(window)``
        The bits.
    """

    def __init__(self, *, width, window, step, index):
        self._window, self._step = window, step
        super().__init__({"value": In(width), "index": In(index), "o": Out(window)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(_window(self.value, self.index, self._step, self._window))
        return m
