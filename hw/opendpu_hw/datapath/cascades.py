# SPDX-License-Identifier: Apache-2.0
"""Sums of one output channel in cascades of DSP blocks, two pixels a block."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import latency
from opendpu_hw.datapath.accumulators import SUM_WIDTH, sum_members
from opendpu_hw.datapath.packed_multiply import FIELD, PackedMultiplyAdd

#: A field's sum of eight products, and one more bit for the largest.
_LOW_WIDTH = FIELD + 1


def unpack(total):
    """Split the sum of at most eight packed products.

    The low field is a signed number of 18 bits but for its largest value, 8 · 128 · 128 = 2^17,
    which looks like -2^17; sums never get as low as the 1024 values from there on.

    Returns
    -------
    low, high, borrow
        Low sum, signed; the high sum is ``high + borrow``.
    """
    borrow = total[FIELD - 1] & total[FIELD - 8:FIELD - 1].any()
    return Cat(total[:FIELD], borrow).as_signed(), total[FIELD:].as_signed(), borrow


def joined(parts):
    """Add up what :func:`unpack` made of the cascades of a pair of pixels.

    Returns
    -------
    low, high, borrow
        The high sum is ``high + borrow``: the first cascade's is left to the next adder's carry.
    """
    highs = [Cat(Const(1, 1), parts[0][1][:_LOW_WIDTH]).as_signed()]
    highs += [Cat(borrow, high[:_LOW_WIDTH]).as_signed() for _, high, borrow in parts[1:]]
    lows = [low for low, _, _ in parts]
    # From the first on: with zero before it a sum would have a bit too many.
    return sum(lows[1:], lows[0]), sum(highs[1:], highs[0]) >> 1, parts[0][2]


def joined_registers(name):
    """Return registers for what :func:`joined` returns."""
    return (Signal(signed(_LOW_WIDTH + 1), name=f"low{name}", reset_less=True),
            Signal(signed(_LOW_WIDTH + 2), name=f"high{name}", reset_less=True),
            Signal(name=f"borrow{name}", reset_less=True))


def accumulated(total, first, high, borrow):
    """Return ``total + high + borrow``, or without ``total`` if ``first``: one adder."""
    # a carry into bit 0
    return (Cat(Const(1, 1), Mux(first, 0, total)).as_signed()
            + Cat(borrow, high).as_signed())[1:SUM_WIDTH + 1]


def dot_products(m, number, low, high, weights, *, length, vendor, domain="sync"):
    """Return the sums of cascades of ``length`` blocks for one pair of pixels.

    Parameters
    ----------
    number : :class:`int`
        Of the pair, in names of submodules.
    low, high, weights : lists
        Operands by channel, those of an element a cycle after those of the one before; a weight has
        beside it whether it comes a cycle later than its operands.
    vendor, domain
        See :class:`opendpu_hw.datapath.packed_multiply.PackedMultiplyAdd`.
    """
    inputs, totals = len(weights), []
    for start in range(0, inputs, length):
        blocks = range(start, min(start + length, inputs))
        total = None
        for i in blocks:
            weight, late = weights[i]
            block = PackedMultiplyAdd(
                first=i == start, last=i == blocks[-1], vendor=vendor, domain=domain,
                late_weight=late)
            m.submodules[f"multiply{number}_{i}"] = block
            m.d.comb += [
                block.low.eq(low[i]), block.high.eq(high[i]), block.weight.eq(weight),
                *([] if total is None else [block.cascade.eq(total)]),
            ]
            total = block.total
        for n in range(length - len(blocks)):       # the last cascade may be shorter
            late = Signal.like(total, name=f"total{number}_{start}_{n}", reset_less=True)
            m.d[domain] += late.eq(total)
            total = late
        totals.append(total)
    return totals


def fill_members(rows):
    """Return the members that make another value of rows of operands that are zero."""
    return {"filled": In(rows), "fill": In(signed(8))}


def begins_cascade(target, element):
    """Return whether the block of an element of operands is the first one of a cascade."""
    return element % latency.cascade_length(target) == 0


class OperandDelay(wiring.Component):
    """Delay element ``i`` of operands by as many cycles as its block comes late in its cascade.

    Registers take what is a step's and hold it: what is idle does not switch, and tools make
    registers of them, which there are enough of, and not shift registers of LUTs.

    Operands that are zero may become another value in the first register: its set pins make the
    ones of it, where a choice is a LUT a bit.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives ICP.
    rows : :class:`int`
        Rows of ICP operands.
    fills : :class:`bool`
        Whether there are ``filled`` and ``fill``.

    Members
    -------
    i, o : ``In``, ``Out`` of ``signed(8).array(rows, ICP)``
        Operands and delayed operands; elements that begin a cascade pass.
    step : ``In(1)``
        The operands at ``i`` are a step's.
    filled, fill : ``In(rows)``, ``In(signed(8))``
        The rows whose operands at ``i``, all zero, become ``fill``; those that pass do not.
    """

    def __init__(self, target, *, rows, fills=False):
        self._target, self._rows, self._fills = target, rows, fills
        shape = (rows, target.input_channel_parallel)
        super().__init__({"i": In(signed(8)).array(*shape), "o": Out(signed(8)).array(*shape),
                          "step": In(1), **(fill_members(rows) if fills else {})})

    def elaborate(self, platform):
        m = Module()
        length = latency.cascade_length(self._target)
        steps = [self.step]                 # n: those of n cycles ago are a step's
        for n in range(length - 2):
            later = Signal(name=f"step{n + 1}", reset_less=True)
            m.d.sync += later.eq(steps[-1])
            steps.append(later)
        for row in range(self._rows):
            for i in range(self._target.input_channel_parallel):
                value = self.i[row][i]
                for n in range(i % length):
                    late = Signal(signed(8), name=f"late{row}_{i}_{n}", reset_less=True)
                    if n == 0 and self._fills:
                        self._load_or_fill(m, late, row, value)
                    else:
                        with m.If(steps[n]):
                            m.d.sync += late.eq(value)
                    value = late
                m.d.comb += self.o[row][i].eq(value)
        return m

    def _load_or_fill(self, m, late, row, value):
        """Load a first register in every cycle, as what comes holds: its set pin needs no enable.

        With one, some tools make the pin's signal again for each of these registers.
        """
        m.d.sync += late.eq(value)
        for bit in range(8):
            with m.If(self.filled[row] & self.fill[bit]):
                m.d.sync += late[bit].eq(1)


class Cascades(wiring.Component):
    """The same as :class:`opendpu_hw.datapath.accumulators.Accumulators` in DSP blocks.

    Pixels ``2 j`` and ``2 j + 1`` share the blocks of cascade ``j``, or of two cascades where ICP
    is above eight. Its members differ in time:

    * ``x`` comes out of :class:`OperandDelay`; ``w`` is delayed here, and ``enter`` says that it is
      a step's;
    * ``step`` and ``first`` come ``conv_sum - 1`` cycles later; ``complete`` is not used.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP and ICP.
    vendor : :class:`str` or None
        See :class:`opendpu_hw.datapath.packed_multiply.PackedMultiplyAdd`.
    """

    def __init__(self, target, *, vendor=None):
        self._target, self._vendor = target, vendor
        super().__init__({**sum_members(target), "enter": In(1)})

    def elaborate(self, platform):
        m = Module()
        inputs = self._target.input_channel_parallel
        m.submodules.weights = weights = OperandDelay(self._target, rows=1)
        m.d.comb += [weights.step.eq(self.enter),
                     *(weights.i[0][i].eq(self.w[i]) for i in range(inputs))]
        length = latency.cascade_length(self._target)
        for j in range(self._target.pixel_parallel // 2):
            totals = dot_products(
                m, j, self.x[2 * j], self.x[2 * j + 1], [(w, False) for w in weights.o[0]],
                length=length, vendor=self._vendor)
            self._accumulate(m, j, totals)
        return m

    def _accumulate(self, m, j, totals):
        """Unpack, add cascades, add up steps; even sums come out first."""
        low, high, borrow = joined_registers(f"{j}")
        values = joined([unpack(total) for total in totals])
        m.d.sync += [low.eq(values[0]), high.eq(values[1]), borrow.eq(values[2])]
        even = Signal(signed(SUM_WIDTH), name=f"acc{2 * j}", reset_less=True)
        odd = Signal(signed(SUM_WIDTH), name=f"acc{2 * j + 1}", reset_less=True)
        held = Signal(signed(SUM_WIDTH), name=f"held{2 * j + 1}", reset_less=True)
        with m.If(self.step):
            m.d.sync += [
                even.eq((Mux(self.first, 0, even) + low)[:SUM_WIDTH]),
                odd.eq(accumulated(odd, self.first, high, borrow)),
            ]
        with m.If(self.take):
            m.d.sync += held.eq(odd)
        m.d.comb += [self.sum[2 * j].eq(even), self.sum[2 * j + 1].eq(held)]
