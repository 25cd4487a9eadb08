# SPDX-License-Identifier: Apache-2.0
"""Sums of the products of kernel columns, in plain multiplications or in DSP48E2.

Products have a register, their sum has one. DSP blocks of a sum add along their cascade, which has
no registers in between: three blocks at most.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import scaled
from opendpu_hw.datapath.dsp48e2 import SUM_WIDTH, dsp48e2
from opendpu_hw.datapath.packed_multiply import FIELD

#: Rows of a kernel that slides.
WINDOW = 3
#: Width of a sum of the first two columns of a kernel that slides: six products of bytes.
PART_WIDTH = 18


#: Width of a first tap's operand: those of ELEW have two bits more.
LEFT_WIDTH = 10
#: Width of a first tap's factor.
RIGHT_WIDTH = 16
#: Width of its product: of 8 and 16 bits, or of 10 and 10.
PRODUCT_WIDTH = 24
#: Width of a term (extension ``scaled``) that counts in place of products.
TERM_BITS = 8 * scaled.TERM_BYTES
#: Most products of bytes in a field of 18 bits: eight of -128 · -128 do not fit.
_PACKED_TAPS = 7


class TapSum(wiring.Component):
    """Sum of ``taps`` products for one row: the first of 10 and 16 bits, the others of bytes.

    Parameters
    ----------
    taps : :class:`int`
        Products.
    terms : :class:`bool`
        Whether a term may count instead.
    vendor : :class:`str` or None
        ``xilinx``: DSP48E2. None: plain multiplications.

    Members
    -------
    left, right : ``In(signed(10))``, ``In(signed(16))``
        Operands of the first product.
    x, w : ``In(signed(8)).array(taps)``
        Operands of the others; the first ones are not looked at.
    step, wide : ``In(1)``
        Products are taken; only the first one counts.
    add, apart : ``In(1)``
        A cycle later, their sum is; only the first one counts.
    term, termed : ``In(signed(32))``, ``In(1)``
        With ``terms``: valid with ``step``, and whether it counts instead; valid with ``add``, and
        only with ``apart``.
    total : ``Out(signed(24))``, ``Out(signed(32))`` with ``terms``
        The sum, from the cycle after ``add``.
    """

    def __init__(self, *, taps, terms=False, vendor=None):
        self._taps, self._terms, self._vendor = taps, terms, vendor
        super().__init__({
            "left": In(signed(LEFT_WIDTH)), "right": In(signed(RIGHT_WIDTH)),
            "x": In(signed(8)).array(taps), "w": In(signed(8)).array(taps),
            "step": In(1), "wide": In(1), "add": In(1), "apart": In(1),
            **({"term": In(signed(TERM_BITS)), "termed": In(1)} if terms else {}),
            "total": Out(signed(total_width(terms))),
        })

    def elaborate(self, platform):
        m = Module()
        if self._vendor == "xilinx":
            # The first product last: there the others can be left out.
            before = None
            for t in reversed(range(self._taps)):
                total = Signal(signed(SUM_WIDTH), name=f"sum{t}")
                term = {} if t or not self._terms else _instead(
                    self, extended(m, self.term, SUM_WIDTH, "c"))
                m.submodules[f"multiply{t}"] = dsp48e2(
                    total, a=extended(m, self.x[t] if t else self.left, 30, f"a{t}"),
                    b=extended(m, self.w[t] if t else self.right, 18, f"b{t}"), pcin=before,
                    alone=self.apart if before is not None and not t else None, operands=False,
                    sum_register=not t, last=not t, enable=(self.step, self.add), **term)
                before = total
            m.d.comb += self.total.eq(before)
            return m
        m.d.comb += self.total.eq(_plain_sum(
            m, self, self.left, self.right, self.x, self.w, self.term if self._terms else None))
        return m


class PairedTapSums(wiring.Component):
    """Sums of ``taps`` products for two rows, which share the factors; wide steps have one a row.

    In DSP blocks both rows share the multipliers: see :class:`SlidingSums`. In wide steps the first
    block multiplies for the first row, the last one for the second; so they have their terms, but
    for two bits, for which there is no room above the first row's field.

    Parameters
    ----------
    taps : :class:`int`
        Products, at least two and at most :func:`may_be_paired` allows.
    terms : :class:`bool`
        Whether terms may count instead.
    vendor : :class:`str` or None
        ``xilinx``: DSP48E2. None: plain multiplications.

    Members
    -------
    left, right : ``In(signed(10)).array(2)``, ``In(signed(16)).array(2)``
        Operands of the first products; in steps that are not wide these are bytes, and ``right`` is
        the same for both rows.
    x, w : ``In(signed(8)).array(2, taps)``, ``In(signed(8)).array(taps)``
        Operands; in wide steps they are not looked at.
    step, wide, add, apart : ``In(1)``
        As :class:`TapSum` has them.
    together : ``In(1)``
        ``add`` without ``apart``.
    carry : ``In(1)``
        With ``add``: what to add to the second row's sum (for ``xilinx`` alone, with three taps).
    term, termed : ``In(signed(32)).array(2)``, ``In(1)``
        As :class:`TapSum` has them.
    total : ``Out(signed(24)).array(2)``, ``Out(signed(32)).array(2)`` with ``terms``
        The sums, from the cycle after ``add``; ``borrow`` has to be added to the second row's.
    borrow : ``Out(1)``
    """

    def __init__(self, *, taps, terms=False, vendor=None):
        self._taps, self._terms, self._vendor = taps, terms, vendor
        super().__init__({
            "left": In(signed(LEFT_WIDTH)).array(2), "right": In(signed(RIGHT_WIDTH)).array(2),
            "x": In(signed(8)).array(2, taps), "w": In(signed(8)).array(taps),
            "step": In(1), "wide": In(1), "add": In(1), "apart": In(1), "together": In(1),
            "carry": In(1),
            **({"term": In(signed(TERM_BITS)).array(2), "termed": In(1)} if terms else {}),
            "total": Out(signed(total_width(terms))).array(2), "borrow": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        if self._vendor == "xilinx":
            self._blocks(m)
            return m
        for h in range(2):
            m.d.comb += self.total[h].eq(_plain_sum(
                m, self, self.left[h], self.right[h], self.x[h], self.w,
                self.term[h] if self._terms else None, f"{h}_"))
        return m

    def _blocks(self, m):
        taps = self._taps
        first = Signal(signed(SUM_WIDTH), name="first")         # the first block's product
        cascade = None
        for t in range(taps):
            last = t == taps - 1
            low = self.x[0][t] if t else self.left[0]
            high, factor = self.x[1][t] << FIELD, self.w[t] if t else self.right[0]
            if last:
                # ten bits shifted by 18 would not fit the pre-adder: the factor has the rest
                high = Mux(self.wide, self.left[1] << FIELD - 1, high)
                factor = Mux(self.wide, self.right[1] << 1, factor)
            total = Signal(signed(SUM_WIDTH), name=f"sum{t}")
            added = {}
            if self._terms and (last or not t):
                added = _instead(self, extended(
                    m, self.term[1] << FIELD if last else self.term[0], SUM_WIDTH, f"c{t}"))
            elif t == 1:
                added = {"c": extended(m, self.carry << FIELD, SUM_WIDTH, "carried")}
            m.submodules[f"multiply{t}"] = dsp48e2(
                total, a=extended(m, high, 30, f"a{t}"), d=extended(m, low, 27, f"low{t}"),
                b=extended(m, factor, 18, f"b{t}"), pcin=cascade,
                alone=self.apart if last else None, product=None if t else first,
                without_a=None if t else self.wide, without_d=self.wide if last else None,
                operands=False, sum_register=last, last=last, enable=(self.step, self.add), **added)
            cascade = total
        # Zero where the cascade has the first row's sum, which is zero in wide steps.
        wide = Signal(signed(total_width(self._terms)), reset_less=True)
        with m.If(self.together):
            m.d.sync += wide.eq(0)
        with m.Elif(self.add):
            m.d.sync += wide.eq(first)
        m.d.comb += [
            self.total[0].eq(wide | cascade[:FIELD].as_signed()),
            self.total[1].eq(self._with_top(m, cascade[FIELD:].as_signed())),
            self.borrow.eq(cascade[FIELD - 1]),
        ]

    def _with_top(self, m, upper):
        """Return the second row's sum, whose bits above the block's sum are those of its term."""
        if not self._terms:
            return upper
        beyond = TERM_BITS - len(upper)
        top, later = (Signal(beyond, name=name, reset_less=True) for name in ("top", "top_later"))
        termed = Signal(reset_less=True)
        with m.If(self.step):
            m.d.sync += top.eq(self.term[1][len(upper):])
        with m.If(self.add):
            m.d.sync += [later.eq(top), termed.eq(self.termed)]
        return Cat(upper, Mux(termed, later, upper[-1].replicate(beyond))).as_signed()


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
        low, high = ([extended(m, x, 27, f"{name}{t}") for t, x in enumerate(row)]
                     for name, row in (("low", self.x[0]), ("high", self.x[1])))
        before = None           # the first column's sums, both rows in one number
        for k in range(2):
            cascade = None
            for t in range(WINDOW):
                last = t == WINDOW - 1
                total = Signal(signed(SUM_WIDTH), name=f"sum{k}_{t}")
                m.submodules[f"multiply{k}_{t}"] = dsp48e2(
                    total, a=extended(m, high[t] << FIELD, 30, f"a{k}_{t}"), d=low[t],
                    b=extended(m, self.w[k][t], 18, f"b{k}_{t}"), pcin=cascade,
                    c=before if cascade is None else None, operands=False, sum_register=last,
                    last=last, enable=(self.step, self.add))
                cascade = total
            before = cascade
        m.d.comb += [
            self.part[0].eq(before[:FIELD]), self.part[1].eq(before[FIELD:2 * FIELD]),
            self.borrow.eq(before[FIELD - 1]),
        ]


def may_be_paired(taps):
    """Return whether two rows can share the multipliers of a column of ``taps`` taps."""
    return 2 <= taps <= _PACKED_TAPS


def total_width(terms):
    """Return the width of a step's sum, which may be a term with ``terms``."""
    return TERM_BITS if terms else PRODUCT_WIDTH


def _instead(sums, term):
    """Return the options of a block that may have a term (48 bits) in place of its products."""
    return {"c": term, "c_enable": sums.step, "c_alone": sums.termed}


def _plain_sum(m, sums, left, right, x, w, term, name=""):
    """Return the sum of a row's products in plain multiplications, or its term if there are any."""
    products = [Signal(signed(16 if t else PRODUCT_WIDTH), name=f"product{name}{t}",
                       reset_less=True) for t in range(len(w))]
    total = Signal(signed(total_width(term is not None)), name=f"sum{name}", reset_less=True)
    with m.If(sums.step):
        m.d.sync += products[0].eq((left * right)[:PRODUCT_WIDTH].as_signed())
        m.d.sync += [products[t].eq(x[t] * w[t]) for t in range(1, len(w))]
    with m.If(sums.add):
        others = sum(products[1:], Const(0))
        m.d.sync += total.eq(products[0] + Mux(sums.apart, 0, others))
    if term is not None:
        held = Signal(signed(TERM_BITS), name=f"term{name}", reset_less=True)
        with m.If(sums.step):
            m.d.sync += held.eq(term)
        with m.If(sums.add & sums.termed):
            m.d.sync += total.eq(held)
    return total


def extended(m, value, width, name):
    """Return a signed signal of ``width`` bits."""
    signal = Signal(signed(width), name=name)
    m.d.comb += signal.eq(value)
    return signal
