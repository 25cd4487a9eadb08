# SPDX-License-Identifier: Apache-2.0
"""Two products with one multiplier, added to a cascade: what a DSP48E2 does in four cycles."""

from amaranth.hdl import ClockSignal, Const, Instance, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

#: Bits of the low product's field; the high one lies above.
FIELD = 18
#: Width of a DSP block's sum.
CASCADE_WIDTH = 48


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
            m.submodules.dsp = self._dsp48e2(a, b, d)
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

    def _dsp48e2(self, a, b, d):
        """Return the primitive: pre-adder (A + D), two registers of B, product, sum."""
        one, zero = Const(1, 1), Const(0, 1)
        enables = ("CEA1", "CEA2", "CEAD", "CEALUMODE", "CEB1", "CEB2", "CEC", "CECARRYIN",
                   "CECTRL", "CED", "CEINMODE", "CEM", "CEP")
        resets = ("RSTA", "RSTALLCARRYIN", "RSTALUMODE", "RSTB", "RSTC", "RSTCTRL", "RSTD",
                  "RSTINMODE", "RSTM", "RSTP")
        multiplier, before = 0b0101, 0b001 << 4         # X and Y the product, Z the cascade
        ports = {
            "A": a, "B": b, "D": d,
            "OPMODE": Const(multiplier | (0 if self._first else before), 9),
            "ALUMODE": Const(0, 4), "INMODE": Const(0b00100, 5), "CARRYINSEL": Const(0, 3),
            "CARRYIN": zero, "C": Const(0, CASCADE_WIDTH),
            "PCIN": Const(0, CASCADE_WIDTH) if self._first else self.cascade,
            "CLK": ClockSignal(), **dict.fromkeys(enables, one), **dict.fromkeys(resets, zero),
        }
        output = "P" if self._last else "PCOUT"
        return Instance(
            "DSP48E2",
            p_AMULTSEL="AD", p_BMULTSEL="B", p_PREADDINSEL="A", p_USE_MULT="MULTIPLY",
            p_A_INPUT="DIRECT", p_B_INPUT="DIRECT",
            p_AREG=1, p_ACASCREG=1, p_BREG=2, p_BCASCREG=2, p_DREG=1, p_ADREG=1, p_MREG=1, p_PREG=1,
            p_CREG=1, p_INMODEREG=1, p_OPMODEREG=1, p_ALUMODEREG=1, p_CARRYINREG=1,
            p_CARRYINSELREG=1, p_USE_SIMD="ONE48",
            **{f"i_{name}": value for name, value in ports.items()}, **{f"o_{output}": self.total})
