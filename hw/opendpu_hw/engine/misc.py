# SPDX-License-Identifier: Apache-2.0
"""The MISC engine: depthwise convolution, pooling, elementwise and pointwise functions."""

from amaranth.hdl import Array, Cat, Module, Mux, ResetInserter, Signal, signed
from amaranth.lib import data, fifo, wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import latency
from opendpu_arch.extensions import Extension
from opendpu_arch.numerics import HARD_SIGMOID_FACTOR, MAX_SHIFT_BIAS
from opendpu_hw.datapath.dwconv import Depthwise
from opendpu_hw.datapath.eltwise import Eltwise
from opendpu_hw.datapath.pool import LOWEST, MaxPool
from opendpu_hw.datapath.scale import RIGHT_MAX, SUM_WIDTH, Scale
from opendpu_hw.datapath.scaled_lane import ScaledLane
from opendpu_hw.datapath.scaled_steps import ScaledSteps
from opendpu_hw.datapath.scaled_terms import ScaledTerms
from opendpu_hw.engine import misc_plan as plan
from opendpu_hw.engine.base import engine_members
from opendpu_hw.engine.misc_parameters import MiscParameters
from opendpu_hw.engine.misc_plan import Op, Weights
from opendpu_hw.engine.misc_planner import MiscPlanner
from opendpu_hw.engine.misc_walk import MiscWalk, step_shape
from opendpu_hw.engine.misc_writer import MiscWriter
from opendpu_hw.memory.ports import BiasRead, ParameterRead, RowRead, RowWrite
from opendpu_hw.memory.record_ram import RecordWrite
from opendpu_hw.memory.table_ram import TableRam, TableWrite

_RESULTS = 16
_JOBS = 8
_ORDER = 8


def _members(target):
    return {
        **engine_members(),
        "read": Out(RowRead(target)), "write": Out(RowWrite(target)),
        "weights": Out(ParameterRead(target)), "bias": Out(BiasRead(target)),
        **({"tables": In(TableWrite())} if Extension.TABLE in target.extensions else {}),
        **({"records": In(RecordWrite(target)), "terms": In(TableWrite())}
           if Extension.SCALED in target.extensions else {}),
    }


class MiscEngine(wiring.Component):
    """ALU, POOL, DPTWISE and ELEW with their INITs.

    One step a cycle, without gaps between columns, channel groups and instructions. A step takes
    PP_alu output rows, CP channels and up to ``taps_per_cycle`` taps of a kernel column (ELEW: one
    input). It is limited to taps whose rows lie in different banks: PP - PP_alu + 1 of them, and
    with ``stride_h`` above 1 those that are ``stride_h`` rows apart. With three taps a 3x3 kernel
    takes 3 cycles an output column, or 1 with ``window``, and 4 with stride 2; weights of 16 bits
    (DWCVW16B0) are taken one by one. An instruction that
    reads a bank group with unwritten results of an earlier one waits for these.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Parallelism and memories.
    taps_per_cycle : :class:`int`
        Taps of a kernel column in a step: multipliers of a lane.
    window : :class:`bool`
        Three times as many products: 3 wide kernels of up to 3 rows with stride 1 take all their
        taps in a step. Without effect where less than three taps of a kernel column fit a step.

    Members
    -------
    (engine members) : see :func:`opendpu_hw.engine.base.engine_members`
    read, write : ``Out(RowRead)``, ``Out(RowWrite)``
        Image banks.
    weights, bias : ``Out(ParameterRead)``, ``Out(BiasRead)``
        DWCONVW and BIAS.
    tables : ``In(TableWrite)``
        With the extension ``table``.
    records, terms : ``In(RecordWrite)``, ``In(TableWrite)``
        With the extension ``scaled``.
    """

    #: Cycles from a step's address to the write of a column it finishes, without a table.
    LATENCY = latency.BANK_READ + latency.MISC_RESULT + 2

    def __init__(self, target, *, taps_per_cycle=3, window=True, vendor=None):
        self._target, self._vendor = target, vendor
        self.taps = plan.effective_taps(target, taps_per_cycle)
        self.window = window and self.taps >= 3
        super().__init__(_members(target))

    def elaborate(self, platform):
        m = Module()
        core = _MiscCore(
            self._target, taps=self.taps, window=self.window, vendor=self._vendor)
        m.submodules.core = ResetInserter(self.abort)(core)
        for name in ("read", "write", "weights", "bias"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(core, name))
        if Extension.TABLE in self._target.extensions:
            wiring.connect(m, wiring.flipped(self.tables), core.tables)
        if Extension.SCALED in self._target.extensions:
            wiring.connect(m, wiring.flipped(self.records), core.records)
            wiring.connect(m, wiring.flipped(self.terms), core.terms)
        m.d.comb += [
            core.insn.payload.eq(self.insn.payload),
            core.insn.valid.eq(self.insn.valid & ~self.abort),
            self.insn.ready.eq(core.insn.ready & ~self.abort),
            self.done.eq(core.done & ~self.abort), self.busy.eq(core.busy),
            self.active.eq(core.active), self.idle.eq(~core.busy),
        ]
        return m


class _MiscCore(wiring.Component):
    """The engine without ``abort``; reset instead."""

    def __init__(self, target, *, taps, window, vendor):
        self._target, self._taps, self._window = target, taps, window
        self._vendor = vendor
        super().__init__(_members(target))

    def elaborate(self, platform):
        m = Module()
        target, taps, window = self._target, self._taps, self._window
        rows, lanes = target.alu_pixel_parallel, target.channel_parallel
        positions = rows + taps - 1
        finish_shape = plan.finish_shape(target)

        m.submodules.planner = planner = MiscPlanner(target, taps=taps, window=window)
        m.submodules.walk = walk = MiscWalk(target, taps=taps, results=_RESULTS)
        m.submodules.parameters = parameters = MiscParameters(target, taps=taps)
        m.submodules.writer = writer = MiscWriter(target, results=_RESULTS)
        m.submodules.order = order = fifo.SyncFIFO(width=1, depth=_ORDER)
        # Behind the queue a register, which an entry may reach at once: additions follow.
        m.submodules.finishes = finishes = fifo.SyncFIFO(
            width=finish_shape.size, depth=_JOBS - 1)
        f6 = Signal(finish_shape)
        f6_valid = Signal()
        refill = Signal()
        with m.If(refill):
            m.d.sync += [
                f6.as_value().eq(Mux(finishes.r_rdy, finishes.r_data, finishes.w_data)),
                f6_valid.eq(finishes.r_rdy | walk.take),
            ]

        # -- instructions and their end, in order --------------------------------------------------
        written = Signal(range(_ORDER + 1))
        m.d.comb += [
            planner.insn.payload.eq(self.insn.payload),
            planner.insn.valid.eq(self.insn.valid & order.w_rdy),
            self.insn.ready.eq(planner.insn.ready & order.w_rdy),
            order.w_en.eq(self.insn.valid & self.insn.ready), order.w_data.eq(planner.is_init),
            self.done.eq(order.r_rdy & (order.r_data | (written != 0) | writer.done)),
            order.r_en.eq(self.done),
            self.busy.eq(order.r_rdy),
            self.active.eq(walk.step_valid),
        ]
        m.d.sync += written.eq(written + writer.done - (self.done & ~order.r_data))

        # -- jobs, parameters, banks ---------------------------------------------------------------
        wiring.connect(m, planner.job, walk.job)
        wiring.connect(m, planner.fetch, parameters.job)
        wiring.connect(m, planner.write, writer.job)
        wiring.connect(m, walk.read, wiring.flipped(self.read))
        wiring.connect(m, writer.write, wiring.flipped(self.write))
        wiring.connect(m, parameters.weights, wiring.flipped(self.weights))
        wiring.connect(m, parameters.bias, wiring.flipped(self.bias))
        m.d.comb += [
            walk.room.eq(finishes.w_rdy), finishes.r_en.eq(refill),
            finishes.w_en.eq(walk.take & (~refill | finishes.r_rdy)),
            finishes.w_data.eq(planner.job.payload.finish),
            walk.loaded.eq(parameters.loaded), walk.bias_loaded.eq(parameters.bias_loaded),
            parameters.fetch.eq(walk.fetch), parameters.entry.eq(walk.entry),
            parameters.freed.eq(walk.freed),
            walk.result_taken.eq(writer.result_taken), walk.job_written.eq(writer.job_written),
        ]

        # -- stage 3: operands ---------------------------------------------------------------------
        x = [[Signal(signed(8), name=f"x{q}_{c}", reset_less=True) for c in range(lanes)]
             for q in range(positions)]
        # The last complete column of a 3x3 kernel with stride 2: its even and odd rows.
        pairs = rows if taps >= 3 else 0
        even = [[Signal(signed(8), name=f"even{q}_{c}", reset_less=True) for c in range(lanes)]
                for q in range(pairs and pairs + 1)]
        odd = [[Signal(signed(8), name=f"odd{q}_{c}", reset_less=True) for c in range(lanes)]
               for q in range(pairs)]
        # Where there are weights of more than a byte, a step has one tap.
        w = [[Signal(signed(8 if t else 16), name=f"w{t}_{c}", reset_less=True)
              for c in range(lanes)] for t in range(taps)]
        # Weights of the first and second column of a 3 wide kernel; ``w`` has the third.
        before = [[[Signal(signed(8), name=f"w{k}_{t}_{c}", reset_less=True) for c in range(lanes)]
                   for t in range(3)] for k in range(2 if window else 0)]
        s2 = walk.step
        s3 = Signal(step_shape(target, taps), reset_less=True)
        s3_valid = Signal()
        m.d.sync += s3_valid.eq(walk.step_valid & s2.compute)
        scaled = Extension.SCALED in target.extensions
        fill = Signal(signed(8))
        m.d.comb += fill.eq(Mux(s2.op == Op.MAX, LOWEST, 0))
        lane_there = Signal(lanes)
        m.d.comb += lane_there.eq(Cat(c + s2.invalid < lanes for c in range(lanes)))
        is_mac = s2.op == Op.MAC
        bank_words = Array(self.read.data[b] for b in range(target.pixel_parallel))
        with m.If(walk.step_valid):
            m.d.sync += s3.eq(s2)
            for q in range(positions):
                word = Signal(8 * lanes, name=f"position{q}")
                m.d.comb += word.eq(bank_words[s2.bank[q]])
                for c in range(lanes):
                    operand = Mux(s2.pad[q] | ~lane_there[c], fill,
                                  word[8 * c:8 * c + 8].as_signed())
                    if scaled:
                        operand = Mux(s2.pad[q] & lane_there[c] & (s2.op == Op.MAC), s2.zero,
                                      operand)
                    with m.If(s2.paired & s2.odd):
                        if q < len(odd):
                            m.d.sync += odd[q][c].eq(operand)
                        if q < len(even):
                            m.d.sync += even[q][c].eq(x[q][c])
                    with m.Else():
                        m.d.sync += x[q][c].eq(operand)
        with m.If(walk.step_valid & s2.compute & is_mac):
            for t in range(taps):
                word = parameters.words[t]
                for c in range(lanes):
                    with m.If(~s2.taps[t]):
                        m.d.sync += w[t][c].eq(0)
                    with m.Elif(s2.weights == Weights.FACTOR):
                        m.d.sync += w[t][c].eq(s2.factor)
                    with m.Elif(s2.weights == Weights.HALVES if t == 0 else 0):
                        m.d.sync += w[t][c].eq(word[:16].as_signed())
                    with m.Else():
                        m.d.sync += w[t][c].eq(word[8 * c:8 * c + 8].as_signed())

            for k, column in enumerate(before):
                with m.If(s2.sliding & (s2.slot == k)):
                    for t, c in ((t, c) for t in range(3) for c in range(lanes)):
                        byte = Mux(s2.weights == Weights.FACTOR, s2.factor[:8],
                                   parameters.words[t][8 * c:8 * c + 8])
                        m.d.sync += column[t][c].eq(Mux(s2.taps[t], byte, 0))

        # -- stages 4 to 6: sums, maxima, products -------------------------------------------------
        m.submodules.depthwise = depthwise = Depthwise(
            target, taps=taps, window=window, vendor=self._vendor)
        m.submodules.pool = pool = MaxPool(target, taps=taps, window=window)
        m.submodules.eltwise = eltwise = Eltwise(target)
        s3_eltwise = (s3.op == Op.ADD) | (s3.op == Op.MULT)
        m.d.comb += [
            depthwise.prelu.eq(s3.prelu),
            depthwise.eltwise.eq(s3_eltwise), depthwise.multiply.eq(s3.op == Op.MULT),
            depthwise.step.eq(s3_valid & (s3.op != Op.MAX)),
            depthwise.wide.eq(s3.wide),
            pool.exists.eq(s3.taps), pool.step.eq(s3_valid & (s3.op == Op.MAX)),
            eltwise.shift.eq(s3.shift),
            eltwise.step.eq(s3_valid & s3_eltwise),
        ]
        for c in range(lanes):
            for h in range(rows):
                kept = [even[h][c], odd[h][c], even[h + 1][c]] if pairs else []
                for t in range(taps):
                    # More than three taps never have a kept column.
                    operand = (Mux(s3.paired, kept[t], x[h + t][c]) if t < len(kept)
                               else x[h + t][c])
                    m.d.comb += [depthwise.x[t][h][c].eq(operand), pool.x[t][h][c].eq(operand)]
                m.d.comb += [
                    eltwise.x[h][c].eq(x[h][c]),
                    depthwise.terms[0][h][c].eq(eltwise.term[h][c]),
                    depthwise.terms[1][h][c].eq(eltwise.before[h][c]),
                ]
            m.d.comb += [depthwise.w[t][c].eq(w[t][c]) for t in range(taps)]
            m.d.comb += [depthwise.before[k][t][c].eq(column[t][c])
                         for k, column in enumerate(before) for t in range(3)]
        s4_valid = Signal()
        s4_first = Signal()
        s4_sliding, s4_wide = Signal(), Signal()
        s4 = Signal.like(s3.op)
        ends = data.StructLayout({"last": 1, "last_group": 1, "last_job": 1})
        s4_ends = Signal(ends)
        s5_ends = Signal(ends)
        s6_ends = Signal(ends)
        s5_valid = Signal()
        s5_first = Signal()
        s5_sliding = Signal()
        s5 = Signal.like(s3.op)
        s4_negative = Signal(rows * lanes, reset_less=True)
        s5_negative, s6_negative, s7_negative = (Signal.like(s4_negative) for _ in range(3))
        m.d.sync += [
            s4_valid.eq(s3_valid), s4.eq(s3.op), s4_first.eq(s3.first), s4_wide.eq(s3.wide),
            *([s4_sliding.eq(s3.sliding)] if window else []),
            s4_ends.last.eq(s3_valid & s3.last),
            s4_ends.last_group.eq(s3_valid & s3.last_group),
            s4_ends.last_job.eq(s3_valid & s3.last_job),
            s5_ends.eq(s4_ends), s6_ends.eq(s5_ends),
            s5_valid.eq(s4_valid), s5.eq(s4), s5_first.eq(s4_first),
            *([s5_sliding.eq(s4_sliding)] if window else []),
        ]
        with m.If(s3_valid & s3.prelu):
            m.d.sync += s4_negative.eq(Cat(x[h][c][7] for h in range(rows) for c in range(lanes)))
        m.d.sync += [s5_negative.eq(s4_negative), s6_negative.eq(s5_negative)]
        m.d.comb += [
            depthwise.add.eq(s4_valid & (s4 != Op.MAX)),
            depthwise.apart.eq(s4_wide),
            depthwise.join.eq(s5_valid & (s5 != Op.MAX)),
            depthwise.first.eq(s5_first | (s5 == Op.MULT)),
            depthwise.clear.eq(s5_ends.last & ~depthwise.join),
            *([depthwise.sliding.eq(s3.sliding), depthwise.slide.eq(s4_sliding),
               depthwise.slid.eq(s5_sliding), pool.slide.eq(s4_sliding)] if window else []),
            pool.add.eq(s4_valid & (s4 == Op.MAX)), pool.first.eq(s4_first),
        ]

        # Maxima wait a cycle for sums; one of both is zero.
        maxima = [[Signal(signed(8), name=f"maximum{h}_{c}", reset_less=True)
                   for c in range(lanes)] for h in range(rows)]
        with m.If(s5_ends.last):
            for h, c in ((h, c) for h in range(rows) for c in range(lanes)):
                m.d.sync += maxima[h][c].eq(Mux(s5 == Op.MAX, pool.total[h][c], 0))

        # -- stages 7 to 10: offset, shift, rounding -----------------------------------------------
        f7 = Signal(finish_shape, reset_less=True)
        f8 = Signal(finish_shape, reset_less=True)
        f9 = Signal(finish_shape, reset_less=True)
        s7_last = Signal()
        s8_last = Signal()
        s9_last = Signal()
        s10_last = Signal()
        m.d.comb += [
            refill.eq(~f6_valid | s6_ends.last_job),
            parameters.bias_taken.eq(s6_ends.last_group & f6.bias),
        ]
        m.d.sync += [s7_last.eq(s6_ends.last), s8_last.eq(s7_last), s9_last.eq(s8_last),
                     s10_last.eq(s9_last)]
        with m.If(s6_ends.last):
            m.d.sync += [f7.eq(f6), s7_negative.eq(s6_negative)]
        with m.If(s7_last):
            m.d.sync += f8.eq(f7)
        with m.If(s8_last):
            m.d.sync += f9.eq(f8)
        results = [[None] * lanes for _ in range(rows)]
        sigmoid_offset = Signal(signed(SUM_WIDTH))
        m.d.comb += sigmoid_offset.eq(((6 * HARD_SIGMOID_FACTOR) << f6.shift_bias)[:SUM_WIDTH])
        for c in range(lanes):
            offset = Signal(signed(SUM_WIDTH), name=f"offset{c}")
            bias = parameters.bias_word[8 * c:8 * c + 8].as_signed()
            left, right_p = f6.shift_bias, f7.right_p
            if Extension.CHANNEL in target.extensions:
                left, right_p = self._own_shifts(
                    m, parameters.shift_word[8 * c:8 * c + 8], f6, s6_ends.last)
            with m.If(f6.sigmoid):
                m.d.comb += offset.eq(sigmoid_offset)
            with m.Elif(f6.bias):
                m.d.comb += offset.eq((bias << left)[:SUM_WIDTH].as_signed())
            for h in range(rows):
                m.submodules[f"scale{h}_{c}"] = scale = Scale(
                    leaky=target.alu_leaky_relu)
                negative = f7.prelu & s7_negative[h * lanes + c]
                m.d.comb += [
                    scale.total.eq(depthwise.total[h][c]), scale.maximum.eq(maxima[h][c]),
                    scale.offset.eq(offset),
                    scale.capture.eq(s6_ends.last), scale.shift.eq(Cat(s7_last, s8_last)),
                    scale.finish.eq(s9_last),
                    scale.right.eq(Mux(negative, f7.right_n, right_p)),
                    scale.leaky.eq(f7.leaky),
                    scale.relu.eq(f9.relu), scale.limit.eq(f9.limit),
                ]
                results[h][c] = scale.y
        result_valid = s10_last
        if scaled:
            terms = self._terms(m, x, (s3, s3_valid & s3_eltwise), (s4_valid, s4, s4_first))
            termed = Signal()
            with m.If(s5_ends.last):
                m.d.sync += termed.eq((s5 == Op.ADD) | (s5 == Op.MULT))
            totals = [[Mux(termed, self._later(m, terms.total[h][c]),
                           depthwise.total[h][c] | maxima[h][c])
                       for c in range(lanes)] for h in range(rows)]
            fixed = self._fixed_point(m, totals, s6_ends.last, f6, parameters.record)
            result_valid = self._kept(m, f6, (s6_ends.last, s7_last, s8_last, s9_last, s10_last))
        if Extension.TABLE in target.extensions:
            look_ups = fixed if scaled else None
            result_valid = self._through_tables(
                m, results, result_valid, s9_last, f9.table, look_ups)
        if scaled:
            finish = fixed[0].steps.finish
            for h, c in ((h, c) for h in range(rows) for c in range(lanes)):
                results[h][c] = Mux(finish, fixed[c].y[h], results[h][c])
            result_valid = result_valid | finish
        for h, c in ((h, c) for h in range(rows) for c in range(lanes)):
            m.d.comb += writer.result[8 * (h * lanes + c):][:8].eq(results[h][c])
        m.d.comb += writer.result_valid.eq(result_valid)
        return m

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

    def _terms(self, m, x, step, later):
        """Return ELEW's sums of terms; ``step`` and ``later`` are stages 3 and 4."""
        s3, stepped = step
        s4_valid, s4, s4_first = later
        m.submodules.terms = terms = ScaledTerms(self._target)
        wiring.connect(m, wiring.flipped(self.terms), terms.write)
        m.d.comb += [
            terms.step.eq(stepped & s3.scaled), terms.slot.eq(s3.term),
            terms.add.eq(s4_valid & ((s4 == Op.ADD) | (s4 == Op.MULT))),
            terms.first.eq(s4_first), terms.multiply.eq(s4 == Op.MULT),
            *(terms.x[h][c].eq(x[h][c]) for h in range(self._target.alu_pixel_parallel)
              for c in range(self._target.channel_parallel)),
        ]
        return terms

    @staticmethod
    def _later(m, value):
        """Return a value a cycle later."""
        later = Signal.like(value, reset_less=True)
        m.d.sync += later.eq(value)
        return later

    def _fixed_point(self, m, totals, capture, finish, record):
        """Send columns through multipliers; return these, one a channel."""
        rows = len(totals)
        m.submodules.scaled = steps = ScaledSteps(self._target, pixels=rows)
        wiring.connect(m, wiring.flipped(self.records), steps.write)
        m.d.comb += [
            steps.captured.eq(capture), steps.scaled.eq(finish.scaled), steps.record.eq(record),
            *([steps.table.eq(finish.table)] if Extension.TABLE in self._target.extensions else []),
        ]
        # Its turn comes when the next column's sums may be there already.
        late = (rows - 1,) if rows > 1 else ()
        fixed = []
        for c in range(self._target.channel_parallel):
            m.submodules[f"fixed_point{c}"] = lane = ScaledLane(
                self._target, lane=c, pixels=rows, width=SUM_WIDTH, late=late)
            wiring.connect(m, wiring.flipped(self.records), lane.write)
            m.d.comb += [
                *(lane.sum[h].eq(self._later(m, totals[h][c]) if h in late else totals[h][c])
                  for h in range(rows)),
                lane.steps.eq(steps.steps), lane.shift.eq(steps.shifts[c]),
            ]
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
        here, looked_up = Signal.like(table, reset_less=True), Signal()
        with m.If(before):
            m.d.sync += here.eq(table)
        tabled = here != 0
        m.d.sync += looked_up.eq(valid & tabled)
        for h, row in enumerate(results):
            for c, y in enumerate(row):
                m.submodules[f"table{h}_{c}"] = ram = TableRam()
                wiring.connect(m, wiring.flipped(self.tables), ram.write)
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
