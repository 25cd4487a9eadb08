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

    Operands count three cycles before ``cascade`` and four before ``total``.

    Parameters
    ----------
    first, last : :class:`bool`
        This block begins a cascade: there is nothing in ``cascade``. It ends one: ``total`` leaves
        the dedicated wires between blocks.
    vendor : :class:`str` or None
        ``xilinx``: a DSP48E2. None: the same in plain registers, for simulation and proofs.

    Members
    -------
    high, low, weight : ``In(signed(8))``
        Operands.
    cascade, total : ``In(signed(48))``, ``Out(signed(48))``
        Sums of the block before and of this one.
    """

    def __init__(self, *, first=False, last=False, vendor=None):
        self._first, self._last, self._vendor = first, last, vendor
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
                operands=True, last=self._last)
            return m

        def register(width, name, value):
            signal = Signal(signed(width), name=name, reset_less=True)
            m.d.sync += signal.eq(value)
            return signal

        a, d = register(8, "a", self.high), register(8, "d", self.low)
        ad = register(FIELD + 9, "ad", (a << FIELD) + d)
        b = register(8, "b2", register(8, "b1", self.weight))
        product = register(FIELD + 17, "m", ad * b)
        total = product if self._first else product + self.cascade
        m.d.comb += self.total.eq(register(CASCADE_WIDTH, "p", total))
        return m
