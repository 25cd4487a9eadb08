# SPDX-License-Identifier: Apache-2.0
"""Stages 4 to 6 of the MISC engine: sums, products and maxima of a column's steps."""

from amaranth.hdl import Cat, Mux, Signal, signed
from amaranth.lib import data

from opendpu_arch import scaled
from opendpu_arch.extensions import Extension
from opendpu_hw.datapath.dwconv import Depthwise
from opendpu_hw.datapath.eltwise import Eltwise
from opendpu_hw.datapath.pool import MaxPool
from opendpu_hw.engine.misc_plan import Op

_ENDS = data.StructLayout({"last": 1, "last_group": 1, "last_job": 1})


class Sums:
    """What steps add up to; a column's last step says that its totals are complete.

    Attributes
    ----------
    total, maxima : lists of lists of ``Signal``
        By row and channel; a column's are there in stage 6, and only one of both is not zero.
    ends : ``Signal(_ENDS)``
        What ends in stage 6.
    column_ended, op : ``Signal()``, ``Signal(Op)``
        A column's last step is in stage 5; the operation of stage 5.
    negative : ``Signal``
        For PReLU: whether the input is below zero, by row and channel, in stage 6.
    """

    def __init__(self, m, target, operands, *, taps, window, vendor, double_rate=False):
        self._operands, self._window = operands, window
        self._scaled = Extension.SCALED in target.extensions
        self._rows, self._lanes = target.alu_pixel_parallel, target.channel_parallel
        m.submodules.depthwise = self._depthwise = Depthwise(
            target, taps=taps, window=window, vendor=vendor, double_rate=double_rate)
        m.submodules.pool = self._pool = MaxPool(
            target, taps=taps, window=window, vendor=vendor)
        m.submodules.eltwise = self._eltwise = Eltwise(target)
        self.op = Signal.like(operands.step.op, name="s5")
        self.ends = Signal(_ENDS, name="s6_ends")
        valid, ends = self._computed(m)
        self._feed(m, valid, taps)
        self._control(m, valid, ends)
        self._compare_signs(m)
        self.total = self._depthwise.total
        # Maxima wait a cycle for sums; one of both is zero.
        self.maxima = [[Signal(signed(8), name=f"maximum{h}_{c}", reset_less=True)
                        for c in range(self._lanes)] for h in range(self._rows)]
        with m.If(self.column_ended):
            for h, c in ((h, c) for h in range(self._rows) for c in range(self._lanes)):
                m.d.sync += self.maxima[h][c].eq(
                    Mux(self.op == Op.MAX, self._pool.total[h][c], 0))

    def _computed(self, m):
        """Return whether stage 3 computes a step, and what ends with it.

        A product of terms is computed :data:`opendpu_arch.latency.TERM_PRODUCT` later, beside the
        next one, if there is one: all else that is known of a step is the same then.
        """
        s3, valid = self._operands.step, self._operands.valid
        ends = Signal(_ENDS, name="s3_ends")
        m.d.comb += [
            ends.last.eq(valid & s3.last), ends.last_group.eq(valid & s3.last_group),
            ends.last_job.eq(valid & s3.last_job),
        ]
        if not self._scaled:
            return valid, ends
        product = Signal(name="s3_product")
        later, later_ends = Signal(name="s3_later"), Signal(_ENDS, name="s3_later_ends")
        computed, computed_ends = Signal(name="computed"), Signal(_ENDS, name="computed_ends")
        m.d.comb += [
            product.eq(s3.scaled & (s3.op == Op.MULT)),
            computed.eq(later | (valid & ~product)),
            computed_ends.eq(Mux(product, later_ends, ends)),
        ]
        m.d.sync += [later.eq(valid & product), later_ends.eq(Mux(product, ends, 0))]
        return computed, computed_ends

    def _feed(self, m, valid, taps):
        """Stage 3: bring every lane its operands."""
        operands, depthwise, pool, eltwise = (
            self._operands, self._depthwise, self._pool, self._eltwise)
        s3 = operands.step
        for c in range(self._lanes):
            for h in range(self._rows):
                for t in range(taps):
                    operand = operands.input(t, h, c)
                    m.d.comb += [depthwise.x[t][h][c].eq(operand), pool.x[t][h][c].eq(operand)]
                m.d.comb += [
                    eltwise.x[h][c].eq(operands.term(h, c)),
                    depthwise.left[h][c].eq(eltwise.term[h][c]),
                    depthwise.right[h][c].eq(eltwise.before[h][c]),
                ]
                if self._scaled:
                    term = operands.scaled_terms[h][c]
                    m.d.comb += [
                        depthwise.term[h][c].eq(term),
                        eltwise.factor[h][c].eq(term[:scaled.FACTOR_BITS]),
                    ]
            m.d.comb += [depthwise.w[t][c].eq(operands.w[t][c]) for t in range(taps)]
            m.d.comb += [depthwise.before[k][t][c].eq(column[t][c])
                         for k, column in enumerate(operands.before) for t in range(3)]
        is_eltwise = (s3.op == Op.ADD) | (s3.op == Op.MULT)
        m.d.comb += [
            depthwise.prelu.eq(s3.prelu),
            depthwise.eltwise.eq(is_eltwise), depthwise.multiply.eq(s3.op == Op.MULT),
            depthwise.step.eq(valid & (s3.op != Op.MAX)),
            depthwise.wide.eq(s3.wide),
            pool.exists.eq(s3.taps), pool.step.eq(operands.valid & (s3.op == Op.MAX)),
            eltwise.shift.eq(s3.shift[:2]),
            eltwise.step.eq(operands.valid & is_eltwise),
        ]
        if self._scaled:
            m.d.comb += eltwise.scaled.eq(s3.scaled & is_eltwise)

    def _control(self, m, s3_valid, s3_ends):
        """Stages 4 and 5: what to do with a step's products."""
        s3, window = self._operands.step, self._window
        s4_valid, s4_first = Signal(name="s4_valid"), Signal(name="s4_first")
        s4, s5 = Signal.like(s3.op, name="s4"), self.op
        s4_sliding, s4_wide = Signal(name="s4_sliding"), Signal(name="s4_wide")
        s4_ends, s5_ends = Signal(_ENDS, name="s4_ends"), Signal(_ENDS, name="s5_ends")
        s5_valid, s5_first = Signal(name="s5_valid"), Signal(name="s5_first")
        s5_sliding = Signal()
        m.d.sync += [
            s4_valid.eq(s3_valid), s4.eq(s3.op), s4_first.eq(s3.first), s4_wide.eq(s3.wide),
            s4_ends.eq(s3_ends), s5_ends.eq(s4_ends), self.ends.eq(s5_ends),
            s5_valid.eq(s4_valid), s5.eq(s4), s5_first.eq(s4_first),
        ]
        depthwise, pool = self._depthwise, self._pool
        m.d.comb += [
            depthwise.add.eq(s4_valid & (s4 != Op.MAX)),
            depthwise.apart.eq(s4_wide),
            depthwise.join.eq(s5_valid & (s5 != Op.MAX)),
            depthwise.first.eq(s5_first | (s5 == Op.MULT)),
            depthwise.clear.eq(s5_ends.last & ~depthwise.join),
            pool.add.eq(s4_valid & (s4 == Op.MAX)), pool.first.eq(s4_first),
        ]
        if self._scaled:
            termed = Signal(name="s4_termed")
            m.d.sync += termed.eq(s3.scaled & (s3.op == Op.ADD))
            m.d.comb += depthwise.termed.eq(termed)
        if window:
            m.d.sync += [s4_sliding.eq(s3.sliding), s5_sliding.eq(s4_sliding)]
            m.d.comb += [
                depthwise.sliding.eq(s3.sliding), depthwise.slide.eq(s4_sliding),
                depthwise.slid.eq(s5_sliding), pool.slide.eq(s4_sliding),
                depthwise.early.eq(self._operands.early), depthwise.slot.eq(s3.slot[0]),
            ]
        self.column_ended = s5_ends.last

    def _compare_signs(self, m):
        """Keep the signs of PReLU's inputs beside the sums."""
        s3, x = self._operands.step, self._operands.x
        s4_negative = Signal(self._rows * self._lanes, reset_less=True)
        s5_negative = Signal.like(s4_negative)
        self.negative = Signal.like(s4_negative, name="s6_negative")
        with m.If(self._operands.valid & s3.prelu):
            m.d.sync += s4_negative.eq(
                Cat(x[h][c][7] for h in range(self._rows) for c in range(self._lanes)))
        m.d.sync += [s5_negative.eq(s4_negative), self.negative.eq(s5_negative)]
