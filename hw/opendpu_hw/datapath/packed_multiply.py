# SPDX-License-Identifier: Apache-2.0
"""Two products with one multiplier, added to a cascade: what a DSP48E2 does in four cycles."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.datapath.dsp48e2 import SUM_WIDTH as CASCADE_WIDTH
from opendpu_hw.datapath.dsp48e2 import dsp48e2

#: Bits of the low product's field; the high one lies above.
FIELD = 18


class PackedMultiplyAdd(wiring.Component):
    """``total = (high · 2^18 + low) · weight + cascade``, with all registers of a DSP block.

    Operands count three cycles before ``cascade`` and four before ``total``; the weight may come a
    cycle later.

    Parameters
    ----------
    first, last : :class:`bool`
        This block begins a cascade: there is nothing in ``cascade``. It ends one: ``total`` leaves
        the dedicated wires between blocks.
    vendor : :class:`str` or None
        ``xilinx``: a DSP48E2. None: the same in plain registers, for simulation and proofs.
    domain : :class:`str`
        Of its clock.
    late_weight : :class:`bool`
        Whether the weight comes a cycle after the other operands: it has one register less.

    Members
    -------
    high, low, weight : ``In(signed(8))``
        Operands.
    cascade, total : ``In(signed(48))``, ``Out(signed(48))``
        Sums of the block before and of this one.
    """

    def __init__(self, *, first=False, last=False, vendor=None, domain="sync", late_weight=False):
        self._first, self._last, self._vendor = first, last, vendor
        self._domain, self._late_weight = domain, late_weight
        super().__init__({
            "high": In(signed(8)), "low": In(signed(8)), "weight": In(signed(8)),
            "cascade": In(signed(CASCADE_WIDTH)), "total": Out(signed(CASCADE_WIDTH)),
        })

    def elaborate(self, platform):
        m = Module()
        if self._vendor == "xilinx":
            a, b, d = (Signal(signed(width), name=name)
                       for name, width in (("a", 30), ("b", 18), ("d", 27)))
            m.d.comb += [a.eq(self.high << FIELD), b.eq(self.weight), d.eq(self.low)]
            m.submodules.dsp = dsp48e2(
                self.total, a=a, b=b, d=d, pcin=None if self._first else self.cascade,
                operands=True, last=self._last, domain=self._domain,
                b_registers=1 if self._late_weight else 2)
            return m

        def register(width, name, value):
            signal = Signal(signed(width), name=name, reset_less=True)
            m.d[self._domain] += signal.eq(value)
            return signal

        a, d = register(8, "a", self.high), register(8, "d", self.low)
        ad = register(FIELD + 9, "ad", (a << FIELD) + d)
        weight = self.weight if self._late_weight else register(8, "b1", self.weight)
        b = register(8, "b2", weight)
        product = register(FIELD + 17, "m", ad * b)
        total = product if self._first else product + self.cascade
        m.d.comb += self.total.eq(register(CASCADE_WIDTH, "p", total))
        return m
