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


class OperandDelay(wiring.Component):
    """Delay element ``i`` of operands by as many cycles as its block comes late in its cascade.

    Registers take what is a step's and hold it: what is idle does not switch, and tools make
    registers of them, which there are enough of, and not shift registers of LUTs.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives ICP.
    rows : :class:`int`
        Rows of ICP operands.

    Members
    -------
    i, o : ``In``, ``Out`` of ``signed(8).array(rows, ICP)``
        Operands and delayed operands; elements that begin a cascade pass.
    step : ``In(1)``
        The operands at ``i`` are a step's.
    """

    def __init__(self, target, *, rows):
        self._target, self._rows = target, rows
        shape = (rows, target.input_channel_parallel)
        super().__init__({"i": In(signed(8)).array(*shape), "o": Out(signed(8)).array(*shape),
                          "step": In(1)})

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
                    with m.If(steps[n]):
                        m.d.sync += late.eq(value)
                    value = late
                m.d.comb += self.o[row][i].eq(value)
        return m


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
        for j in range(self._target.pixel_parallel // 2):
            totals = self._dot_products(m, j, [weights.o[0][i] for i in range(inputs)])
            self._accumulate(m, j, totals)
        return m

    def _dot_products(self, m, j, w):
        """Return the packed sums of the cascades of pixel pair ``j``."""
        inputs, length = len(w), latency.cascade_length(self._target)
        totals = []
        for start in range(0, inputs, length):
            blocks = range(start, min(start + length, inputs))
            total = None
            for i in blocks:
                block = PackedMultiplyAdd(
                    first=i == start, last=i == blocks[-1], vendor=self._vendor)
                m.submodules[f"multiply{j}_{i}"] = block
                m.d.comb += [
                    block.low.eq(self.x[2 * j][i]), block.high.eq(self.x[2 * j + 1][i]),
                    block.weight.eq(w[i]),
                    *([] if total is None else [block.cascade.eq(total)]),
                ]
                total = block.total
            for n in range(length - len(blocks)):       # the last cascade may be shorter
                late = Signal.like(total, name=f"total{j}_{start}_{n}", reset_less=True)
                m.d.sync += late.eq(total)
                total = late
            totals.append(total)
        return totals

    def _accumulate(self, m, j, totals):
        """Unpack, add cascades, add up steps; even sums come out first."""
        parts = [unpack(total) for total in totals]
        low = Signal(signed(_LOW_WIDTH + 1), name=f"low{j}", reset_less=True)
        high = Signal(signed(_LOW_WIDTH + 2), name=f"high{j}", reset_less=True)
        borrow = Signal(name=f"borrow{j}", reset_less=True)
        m.d.sync += [low.eq(sum(part for part, _, _ in parts)), borrow.eq(parts[0][2])]
        highs = [Cat(Const(1, 1), parts[0][1][:_LOW_WIDTH]).as_signed()]
        highs += [Cat(b, h[:_LOW_WIDTH]).as_signed() for _, h, b in parts[1:]]
        m.d.sync += high.eq(sum(highs) >> 1)
        even = Signal(signed(SUM_WIDTH), name=f"acc{2 * j}", reset_less=True)
        odd = Signal(signed(SUM_WIDTH), name=f"acc{2 * j + 1}", reset_less=True)
        held = Signal(signed(SUM_WIDTH), name=f"held{2 * j + 1}", reset_less=True)
        with m.If(self.step):
            m.d.sync += [
                even.eq((Mux(self.first, 0, even) + low)[:SUM_WIDTH]),
                # a carry into bit 0
                odd.eq((Cat(Const(1, 1), Mux(self.first, 0, odd)).as_signed()
                        + Cat(borrow, high).as_signed())[1:SUM_WIDTH + 1]),
            ]
        with m.If(self.take):
            m.d.sync += held.eq(odd)
        m.d.comb += [self.sum[2 * j].eq(even), self.sum[2 * j + 1].eq(held)]
