# SPDX-License-Identifier: Apache-2.0
"""Stages 7 to 10 of the MISC engine: offset, shift, rounding, tables and multipliers."""

import itertools

from amaranth.hdl import Cat, Mux, Signal, signed
from amaranth.lib import wiring

from opendpu_arch.extensions import Extension
from opendpu_arch.numerics import HARD_SIGMOID_FACTOR, MAX_SHIFT_BIAS
from opendpu_hw.datapath.scale import RIGHT_MAX, SUM_WIDTH, Scale
from opendpu_hw.datapath.scaled_lane import ScaledLane
from opendpu_hw.datapath.scaled_steps import ScaledSteps
from opendpu_hw.datapath.scaled_terms import TOTAL_WIDTH
from opendpu_hw.engine import misc_plan as plan
from opendpu_hw.memory.table_ram import TableRam


class Results:
    """What becomes of a column's totals.

    Attributes
    ----------
    y : list of lists of ``Value``
        int8 results by row and channel.
    valid : ``Value``
        A column of results is there.
    """

    def __init__(self, m, engine, target, sums, finish, parameters, *, vendor):
        """Add the stages to ``m``, whose ports are those of ``engine``.

        ``finish`` is what is known of the job in stage 6.
        """
        self._target, self._engine, self._vendor = target, engine, vendor
        self._rows, self._lanes = target.alu_pixel_parallel, target.channel_parallel
        scaled, tabled = (kind in target.extensions for kind in (Extension.SCALED, Extension.TABLE))
        f7, f8, f9 = (Signal(plan.finish_shape(target), name=f"f{n}", reset_less=True)
                      for n in (7, 8, 9))
        lasts = [sums.ends.last, *(Signal(name=f"s{n}_last") for n in (7, 8, 9, 10))]
        m.d.sync += [later.eq(last) for last, later in itertools.pairwise(lasts)]
        for last, before, after in zip(lasts[:-2], (finish, f7, f8), (f7, f8, f9), strict=True):
            with m.If(last):
                m.d.sync += after.eq(before)
        self.y = self._scale(m, sums, (finish, f7, f9), lasts, parameters)
        self.valid = lasts[-1]
        fixed = None
        if scaled:
            fixed = self._fixed_point(m, sums, finish, parameters.record)
            self.valid = self._kept(m, finish, lasts)
        if tabled:
            self.valid = self._through_tables(
                m, self.y, self.valid, lasts[-2], f9.table, fixed)
        if scaled:
            done = fixed[0].steps.finish
            self.y = [[Mux(done, fixed[c].y[h], y) for c, y in enumerate(row)]
                      for h, row in enumerate(self.y)]
            self.valid = self.valid | done

    def _scale(self, m, sums, finishes, lasts, parameters):
        """Add offsets, shift and round; return the results by row and channel."""
        f6, f7, f9 = finishes
        s6_last, s7_last, s8_last, s9_last, _ = lasts
        s7_negative = Signal.like(sums.negative)
        with m.If(s6_last):
            m.d.sync += s7_negative.eq(sums.negative)
        results = [[None] * self._lanes for _ in range(self._rows)]
        sigmoid_offset = Signal(signed(SUM_WIDTH))
        m.d.comb += sigmoid_offset.eq(((6 * HARD_SIGMOID_FACTOR) << f6.shift_bias)[:SUM_WIDTH])
        for c in range(self._lanes):
            offset = Signal(signed(SUM_WIDTH), name=f"offset{c}")
            bias = parameters.bias_word[8 * c:8 * c + 8].as_signed()
            left, right_p = f6.shift_bias, f7.right_p
            if Extension.CHANNEL in self._target.extensions:
                left, right_p = self._own_shifts(
                    m, parameters.shift_word[8 * c:8 * c + 8], f6, s6_last)
            with m.If(f6.sigmoid):
                m.d.comb += offset.eq(sigmoid_offset)
            with m.Elif(f6.bias):
                m.d.comb += offset.eq((bias << left)[:SUM_WIDTH].as_signed())
            for h in range(self._rows):
                m.submodules[f"scale{h}_{c}"] = scale = Scale(
                    leaky=self._target.alu_leaky_relu, vendor=self._vendor)
                negative = f7.prelu & s7_negative[h * self._lanes + c]
                m.d.comb += [
                    scale.total.eq(sums.total[h][c]), scale.maximum.eq(sums.maxima[h][c]),
                    scale.offset.eq(offset),
                    scale.capture.eq(s6_last), scale.shift.eq(Cat(s7_last, s8_last)),
                    scale.finish.eq(s9_last),
                    scale.right.eq(Mux(negative, f7.right_n, right_p)),
                    scale.leaky.eq(f7.leaky),
                    scale.relu.eq(f9.relu), scale.limit.eq(f9.limit),
                ]
                results[h][c] = scale.y
        return results

    @staticmethod
    def _own_shifts(m, byte, finish, capture):
        """Return a lane's shift of the bias, and, a cycle after ``capture``, that of its result."""
        own = Mux(finish.channel_shift, byte, 0)
        left = Signal(len(finish.shift_bias) + 1)
        right = Signal.like(finish.right_p, reset_less=True)
        sum_ = finish.right_p + own[:4]
        m.d.comb += left.eq(finish.shift_bias + own[4:])
        with m.If(capture):
            m.d.sync += right.eq(Mux(sum_ > RIGHT_MAX, RIGHT_MAX, sum_))
        return Mux(left > MAX_SHIFT_BIAS, MAX_SHIFT_BIAS, left)[:5], right

    @staticmethod
    def _later(m, value):
        """Return a value a cycle later."""
        later = Signal.like(value, reset_less=True)
        m.d.sync += later.eq(value)
        return later

    def _fixed_point(self, m, sums, finish, record):
        """Send columns through multipliers; return these, one a channel.

        These take sums or maxima in stage 6.
        """
        rows = self._rows
        m.submodules.scaled_steps = steps = ScaledSteps(self._target, pixels=rows)
        wiring.connect(m, wiring.flipped(self._engine.records), steps.write)
        m.d.comb += [
            steps.captured.eq(sums.ends.last), steps.scaled.eq(finish.scaled),
            steps.record.eq(record),
            *([steps.table.eq(finish.table)] if Extension.TABLE in self._target.extensions else []),
        ]
        # Its turn comes when the next column's sums may be there already.
        late = (rows - 1,) if rows > 1 else ()
        fixed = []
        for c in range(self._target.channel_parallel):
            m.submodules[f"fixed_point{c}"] = lane = ScaledLane(
                self._target, lane=c, pixels=rows, width=TOTAL_WIDTH, maxima=True, late=late,
                vendor=self._vendor)
            wiring.connect(m, wiring.flipped(self._engine.records), lane.write)
            for to, of in ((lane.sum, sums.total), (lane.maximum, sums.maxima)):
                m.d.comb += [
                    to[h].eq(self._later(m, of[h][c]) if h in late else of[h][c])
                    for h in range(rows)]
            m.d.comb += [lane.steps.eq(steps.steps), lane.shift.eq(steps.shifts[c])]
            fixed.append(lane)
        return fixed

    @staticmethod
    def _kept(m, finish, lasts):
        """Return whether a result without multipliers comes; ``lasts`` are its last stages."""
        plain = ~finish.scaled
        for last in lasts[:-1]:
            later = Signal(reset_less=True)
            with m.If(last):
                m.d.sync += later.eq(plain)
            plain = later
        return lasts[-1] & plain

    def _through_tables(self, m, results, valid, before, table, fixed=None):
        """Replace results by what they become; return when they are valid.

        ``table`` is theirs a cycle earlier, with ``before``. Those with a table come a cycle later;
        none without one comes then, because the walk waits. Those of multipliers are looked up one
        by one in the tables of the first row.
        """
        here = Signal.like(table, reset_less=True)
        looked_up = Signal()
        with m.If(before):
            m.d.sync += here.eq(table)
        tabled = here != 0
        m.d.sync += looked_up.eq(valid & tabled)
        for h, row in enumerate(results):
            for c, y in enumerate(row):
                m.submodules[f"table{h}_{c}"] = ram = TableRam()
                wiring.connect(m, wiring.flipped(self._engine.tables), ram.write)
                m.d.comb += [
                    ram.en.eq(valid & tabled), ram.table.eq(here), ram.index.eq(y),
                ]
                if fixed and h == 0:
                    steps = fixed[c].steps
                    with m.If(steps.look_up):
                        m.d.comb += [ram.en.eq(1), ram.table.eq(steps.table),
                                     ram.index.eq(fixed[c].result)]
                    m.d.comb += fixed[c].entry.eq(ram.entry)
                row[c] = Mux(looked_up, ram.entry, y)
        return looked_up | (valid & ~tabled)
