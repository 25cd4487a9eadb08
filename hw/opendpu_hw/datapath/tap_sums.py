# SPDX-License-Identifier: Apache-2.0
"""Sums of the products of a kernel column, in plain multiplications or in DSP48E2.

Products have a register, their sum has one. DSP blocks of a sum add along their cascade, which has
no registers in between: three blocks at most.
"""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.datapath.dsp48e2 import SUM_WIDTH, dsp48e2
from opendpu_hw.datapath.packed_multiply import FIELD

#: Rows of a kernel that slides.
WINDOW = 3
#: Width of a sum of the first two columns of a kernel that slides: six products of bytes.
PART_WIDTH = 18


class TapSum(wiring.Component):
    """Sum of ``taps`` products of 8 and 16 bits.

    Parameters
    ----------
    taps : :class:`int`
        Products.
    vendor : :class:`str` or None
        ``xilinx``: DSP48E2. None: plain multiplications.

    Members
    -------
    x, w : ``In(signed(8)).array(taps)``, ``In(signed(16)).array(taps)``
        Operands.
    step, add : ``In(1)``
        Products are taken; a cycle later, their sum is.
    total : ``Out(signed(24 + …))``
        The sum, from the cycle after ``add``.
    """

    def __init__(self, *, taps, vendor=None):
        self._taps, self._vendor = taps, vendor
        super().__init__({
            "x": In(signed(8)).array(taps), "w": In(signed(16)).array(taps),
            "step": In(1), "add": In(1), "total": Out(signed(total_width(taps))),
        })

    def elaborate(self, platform):
        m = Module()
        if self._vendor == "xilinx":
            before = None
            for t in range(self._taps):
                last = t == self._taps - 1
                total = Signal(signed(SUM_WIDTH), name=f"sum{t}")
                m.submodules[f"multiply{t}"] = dsp48e2(
                    total, a=_extended(m, self.x[t], 30, f"a{t}"),
                    b=_extended(m, self.w[t], 18, f"b{t}"), pcin=before, operands=False,
                    sum_register=last, last=last, enable=(self.step, self.add))
                before = total
            m.d.comb += self.total.eq(before)
            return m
        products = [Signal(signed(24), name=f"product{t}", reset_less=True)
                    for t in range(self._taps)]
        total = Signal.like(self.total, name="sum", reset_less=True)
        with m.If(self.step):
            m.d.sync += [p.eq(x * w) for p, x, w in zip(products, self.x, self.w, strict=True)]
        with m.If(self.add):
            m.d.sync += total.eq(sum(products[1:], products[0]))
        m.d.comb += self.total.eq(total)
        return m


class SlidingSums(wiring.Component):
    """What the first two columns of a sliding kernel give to two rows of a channel.

    Step ``n`` of a channel brings an input column. Its products with the kernel's first column
    wait for those of step ``n + 1`` with the second one.

    In DSP blocks both rows share the multipliers: a product has two fields of 18 bits. Six products
    of bytes fit one, so that the lower field, taken as signed, is right, and the upper one is short
    by one where the lower is negative.

    Parameters
    ----------
    vendor : :class:`str` or None
        ``xilinx``: DSP48E2. None: plain multiplications.

    Members
    -------
    x : ``In(signed(8)).array(2, 3)``
        Operands of both rows.
    w : ``In(signed(8)).array(2, 3)``
        The kernel's first and second column.
    step, add : ``In(1)``
        Products are taken; a cycle later, their sums are.
    part : ``Out(signed(18)).array(2)``
        Sums of the first column in the step before and of the second one in this step, from the
        cycle after ``add``; what ``borrow`` says has to be added to that of the second row.
    borrow : ``Out(1)``
    """

    def __init__(self, *, vendor=None):
        self._vendor = vendor
        super().__init__({
            "x": In(signed(8)).array(2, WINDOW), "w": In(signed(8)).array(2, WINDOW),
            "step": In(1), "add": In(1),
            "part": Out(signed(PART_WIDTH)).array(2), "borrow": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        if self._vendor == "xilinx":
            self._blocks(m)
            return m
        for h in range(2):
            before = None
            for k in range(2):
                products = [Signal(signed(16), name=f"product{h}_{k}_{t}", reset_less=True)
                            for t in range(WINDOW)]
                total = Signal(signed(PART_WIDTH), name=f"sum{h}_{k}", reset_less=True)
                with m.If(self.step):
                    m.d.sync += [products[t].eq(self.x[h][t] * self.w[k][t])
                                 for t in range(WINDOW)]
                terms = products if before is None else [*products, before]
                with m.If(self.add):
                    m.d.sync += total.eq(sum(terms[1:], terms[0])[:PART_WIDTH].as_signed())
                before = total
            m.d.comb += self.part[h].eq(before)
        return m

    def _blocks(self, m):
        low, high = ([_extended(m, x, 27, f"{name}{t}") for t, x in enumerate(row)]
                     for name, row in (("low", self.x[0]), ("high", self.x[1])))
        before = None           # the first column's sums, both rows in one number
        for k in range(2):
            cascade = None
            for t in range(WINDOW):
                last = t == WINDOW - 1
                total = Signal(signed(SUM_WIDTH), name=f"sum{k}_{t}")
                m.submodules[f"multiply{k}_{t}"] = dsp48e2(
                    total, a=_extended(m, high[t] << FIELD, 30, f"a{k}_{t}"), d=low[t],
                    b=_extended(m, self.w[k][t], 18, f"b{k}_{t}"), pcin=cascade,
                    c=before if cascade is None else None, operands=False, sum_register=last,
                    last=last, enable=(self.step, self.add))
                cascade = total
            before = cascade
        m.d.comb += [
            self.part[0].eq(before[:FIELD]), self.part[1].eq(before[FIELD:2 * FIELD]),
            self.borrow.eq(before[FIELD - 1]),
        ]


def total_width(taps):
    """Return the width of a sum of ``taps`` products of 8 and 16 bits."""
    return 24 + (taps - 1).bit_length()


def _extended(m, value, width, name):
    """Return a signed signal of ``width`` bits."""
    signal = Signal(signed(width), name=name)
    m.d.comb += signal.eq(value)
    return signal
