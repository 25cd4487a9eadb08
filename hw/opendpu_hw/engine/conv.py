# SPDX-License-Identifier: Apache-2.0
"""CONV: the PP × ICP × OCP array, its address generators and its write-back."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_arch import latency
from opendpu_arch.extensions import Extension
from opendpu_hw.datapath.cascades import OperandDelay
from opendpu_hw.datapath.lane import Lane
from opendpu_hw.engine.base import engine_members
from opendpu_hw.engine.conv_plan import ConvPlanner, plan_shape
from opendpu_hw.engine.conv_writer import ConvWriter
from opendpu_hw.engine.order import DoneOrder
from opendpu_hw.memory.ports import BiasRead, ConvRead, ConvWrite
from opendpu_hw.memory.record_ram import RecordWrite
from opendpu_hw.memory.table_ram import TableWrite


class Conv(wiring.Component):
    """The convolution engine.

    A step is one kernel tap of one group of ICP input channels, for one column of PP output rows
    and OCP output channels: PP·ICP·OCP multiply-accumulates. Steps follow each other without gaps,
    over columns and over instructions. There are two exceptions: a column is not finished earlier
    than ``stride_out`` cycles after the one before (its rows share banks; one more with a table),
    nor than two (pixels share requantizers), and a CONV that may read what an unfinished CONV
    writes waits until that is written (:func:`opendpu_arch.latency.conv` cycles, and one with a
    table).

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Parallelism and memories.
    vendor : :class:`str` or None
        ``xilinx``: the array is made of DSP48E2, two products each. None: of plain multiplications.
        Both take the same cycles.

    Members
    -------
    (engine members) : see :func:`opendpu_hw.engine.base.engine_members`
    read, write : ``Out(ConvRead)``, ``Out(ConvWrite)``
        Image, weights.
    bias : ``Out(BiasRead)``
        BIAS bank.
    tables : ``In(TableWrite)``
        With the extension ``table``.
    records : ``In(RecordWrite)``
        With the extension ``scaled``.
    """

    def __init__(self, target, *, vendor=None):
        self._target, self._vendor = target, vendor
        self._tables = Extension.TABLE in target.extensions
        self._scaled = Extension.SCALED in target.extensions
        super().__init__({
            **engine_members(),
            "read": Out(ConvRead(target)),
            "write": Out(ConvWrite(target)),
            "bias": Out(BiasRead(target)),
            **({"tables": In(TableWrite())} if self._tables else {}),
            **({"records": In(RecordWrite(target))} if self._scaled else {}),
        })

    def elaborate(self, platform):
        m = Module()
        target = self._target
        banks, inputs = target.pixel_parallel, target.input_channel_parallel
        abits = ceil_log2(target.bank_depth)

        m.submodules.planner = planner = ConvPlanner(target)
        m.submodules.writer = writer = ConvWriter(target)
        m.submodules.order = order = DoneOrder(depth=16)
        m.d.comb += [
            planner.insn.payload.eq(self.insn.payload),
            planner.insn.valid.eq(self.insn.valid & ~self.abort & order.ready),
            self.insn.ready.eq(planner.insn.ready & ~self.abort & order.ready),
            planner.clear.eq(self.abort),
            writer.clear.eq(self.abort),
            order.clear.eq(self.abort),
            order.push.eq(planner.accepted), order.immediate.eq(planner.accepted_init),
            order.completed.eq(writer.completed),
        ]
        wiring.connect(m, wiring.flipped(self.bias), planner.bias)
        wiring.connect(m, wiring.flipped(self.write), writer.write)

        # -- the walk: column, kernel row, kernel column, channel group ---------------------------
        plan = Signal(plan_shape(target))
        running = Signal()
        column = Signal(10)
        tap_h = Signal(4)
        tap_w = Signal(4)
        group = Signal(8)
        low = Signal(range(banks))          # bank of output row 0 at this kernel row
        wraps = Signal(2)                   # which address group that bank is in
        beyond = Signal()                   # there is no fifth address group
        in_bank = Signal(4)                 # row within the bank
        row_offset = Signal(abits)
        column_offset = Signal(abits)
        tap_offset = Signal(abits)
        weight_offset = Signal(abits)
        pad_left_now = Signal(16)           # columns of padding still to come, clipped at zero
        right_rest = Signal(16)             # real columns right of this output column's last tap
        gap = Signal(5)

        last_group = group == plan.channel_group
        last_w = last_group & (tap_w == plan.kernel_w)
        last_tap = Signal()
        first_tap = Signal()
        m.d.comb += [
            last_tap.eq(last_w & (tap_h == plan.kernel_h)),
            first_tap.eq((tap_h == 0) & (tap_w == 0) & (group == 0)),
        ]
        last_step = Signal()
        last_column = Signal()              # columns end more than a cycle apart
        step = Signal()
        m.d.sync += last_column.eq(column == plan.length)
        m.d.comb += [
            last_step.eq(last_tap & last_column),
            step.eq(running & ~(last_tap & (gap != 0))),
        ]
        with m.If(step & last_tap):
            # What is in it is one less than the distance.
            least = latency.REQUANTIZER_PIXELS - 1
            turns = plan.stride_out + plan.tabled if self._tables else plan.stride_out
            if self._scaled:
                least = Mux(plan.scaled, self._turns(plan), least)
            m.d.sync += gap.eq(Mux(turns < least, least, turns))
        with m.Elif(gap != 0):
            m.d.sync += gap.eq(gap - 1)
        if self._scaled:
            behind = self._behind(m, plan, step & last_tap, turns)
            with m.If(running & last_tap & ~plan.scaled & behind):
                m.d.comb += step.eq(0)

        # -- start of an instruction --------------------------------------------------------------
        take = Signal()
        hazard = self._hazard(m, planner.plan, writer, take)
        m.d.comb += [
            take.eq(planner.valid & ~hazard & writer.ready & (~running | (step & last_step))
                    & ~self.abort),
            planner.ready.eq(take),
            writer.push.eq(take),
            writer.payload.eq(planner.result),
        ]
        with m.If(step):
            with m.If(~last_group):
                m.d.sync += group.eq(group + 1)
            with m.Else():
                m.d.sync += group.eq(0)
                with m.If(tap_w != plan.kernel_w):
                    m.d.sync += [
                        tap_w.eq(tap_w + 1),
                        tap_offset.eq(tap_offset + plan.jump_read),
                    ]
                with m.Else():
                    m.d.sync += [tap_w.eq(0), tap_offset.eq(0)]
                    with m.If(tap_h != plan.kernel_h):
                        m.d.sync += tap_h.eq(tap_h + 1)
                        with m.If(in_bank != plan.stride_h):
                            m.d.sync += [
                                in_bank.eq(in_bank + 1),
                                row_offset.eq(row_offset + plan.jump_read_endl),
                            ]
                        with m.Else():
                            m.d.sync += [in_bank.eq(0), row_offset.eq(0)]
                            with m.If(low == banks - 1):
                                m.d.sync += [low.eq(0), wraps.eq(wraps + 1)]
                                with m.If(wraps == 3):
                                    m.d.sync += beyond.eq(1)
                            with m.Else():
                                m.d.sync += low.eq(low + 1)
                    with m.Else():
                        m.d.sync += [
                            tap_h.eq(0), in_bank.eq(plan.stride_offset_in),
                            row_offset.eq(plan.row_offset), low.eq(plan.bank_in), wraps.eq(0),
                            beyond.eq(0), column.eq(column + 1),
                            column_offset.eq(column_offset + plan.column_jump),
                            right_rest.eq(right_rest - plan.stride_w - 1),
                        ]
                        with m.If(pad_left_now > plan.stride_w):
                            m.d.sync += pad_left_now.eq(pad_left_now - plan.stride_w - 1)
                        with m.Else():
                            m.d.sync += pad_left_now.eq(0)
            m.d.sync += weight_offset.eq(Mux(last_tap, 0, weight_offset + 1))
            with m.If(last_step):
                m.d.sync += running.eq(0)
        with m.If(take):
            new = planner.plan
            m.d.sync += [
                plan.eq(new), running.eq(1), column.eq(0), last_column.eq(new.length == 0),
                tap_h.eq(0), tap_w.eq(0), group.eq(0),
                low.eq(new.bank_in), wraps.eq(0), beyond.eq(0), in_bank.eq(new.stride_offset_in),
                row_offset.eq(new.row_offset), column_offset.eq(0), tap_offset.eq(0),
                weight_offset.eq(0), pad_left_now.eq(new.pad_left), right_rest.eq(new.right_rest),
            ]
        with m.If(self.abort):
            m.d.sync += running.eq(0)

        # -- stage 1: addresses -------------------------------------------------------------------
        offset = (row_offset + column_offset + tap_offset + group)[:abits]
        bases = Array([plan.bank_addr_in, plan.bank_addr_in_1, plan.bank_addr_in_2,
                       plan.bank_addr_in_3, 0])
        base_here = Signal(abits)
        base_next = Signal(abits)
        m.d.comb += [
            base_here.eq(Mux(beyond, 0, bases[wraps])),
            base_next.eq(Mux(beyond, 0, bases[wraps + 1])),
        ]
        s1_step = Signal()
        s1_first = Signal()
        s1_last = Signal()
        s1_low = Signal(range(banks))
        s1_here = Signal(abits)
        s1_next = Signal(abits)
        s1_weight = Signal(abits)
        s1_group = Signal(2)
        s1_pad = Signal(banks)
        s1_invalid = Signal(5)
        s1_zero = Signal(signed(8), reset_less=True)
        outside = Signal()
        m.d.comb += outside.eq((tap_w < pad_left_now) | (tap_w > right_rest))
        m.d.sync += s1_step.eq(step)
        with m.If(step):
            m.d.sync += [
                s1_first.eq(first_tap), s1_last.eq(last_tap), s1_low.eq(low),
                s1_here.eq((base_here + offset)[:abits]), s1_next.eq((base_next + offset)[:abits]),
                s1_weight.eq((plan.bank_addr_weights + weight_offset)[:abits]),
                s1_group.eq(plan.group_in),
                s1_invalid.eq(Mux(last_group, plan.channel_offset, 0)),
            ]
            if self._scaled:
                m.d.sync += s1_zero.eq(plan.zero_in)
            for p in range(banks):
                row = (plan.rows[p] + tap_h)
                m.d.sync += s1_pad[p].eq(outside | (row < plan.pad_top)
                                         | (row > plan.bottom_limit))

        # -- stage 2: memories --------------------------------------------------------------------
        m.d.comb += [
            self.read.en.eq(s1_step),
            self.read.group.eq(s1_group),
            self.read.weight_addr.eq(s1_weight),
        ]
        for b in range(banks):
            m.d.comb += self.read.addr[b].eq(Mux(b < s1_low, s1_next, s1_here))
        known = data.StructLayout({
            "first": 1, "last": 1, "low": range(banks), "pad": banks, "lanes": inputs,
            **({"zero": signed(8)} if self._scaled else {})})
        s1 = Signal(known)
        m.d.comb += [
            s1.first.eq(s1_first), s1.last.eq(s1_last), s1.low.eq(s1_low), s1.pad.eq(s1_pad),
            s1.lanes.eq(Cat(i + s1_invalid < inputs for i in range(inputs))),
        ]
        if self._scaled:
            m.d.comb += s1.zero.eq(s1_zero)
        reading = [s1_step]                 # n: the banks have been read n cycles ago
        s2 = s1
        for n in range(latency.BANK_READ):
            later_step = Signal(name=f"s2_step_{n}")
            later = Signal(known, name=f"s2_{n}", reset_less=True)
            m.d.sync += later_step.eq(reading[-1])
            with m.If(reading[-1]):
                m.d.sync += later.eq(s2)
            reading.append(later_step)
            s2 = later
        s2_step = reading[-1]

        # -- stage 3: operands, row p from bank low + p -------------------------------------------
        s3_step = Signal()
        s3_first = Signal()
        s3_last = Signal()
        x = [[Signal(signed(8), name=f"x{p}_{i}", reset_less=True) for i in range(inputs)]
             for p in range(banks)]
        m.d.sync += s3_step.eq(s2_step)
        rotated = [self.read.data[b] for b in range(banks)]
        for bit in range(len(s2.low)):
            previous, rotated = rotated, []
            for p in range(banks):
                word = Signal(8 * inputs, name=f"rotated{bit}_{p}")
                m.d.comb += word.eq(
                    Mux(s2.low[bit], previous[(p + (1 << bit)) % banks], previous[p]))
                rotated.append(word)
        with m.If(s2_step):
            m.d.sync += [s3_first.eq(s2.first), s3_last.eq(s2.last)]
            for p in range(banks):
                for i in range(inputs):
                    byte = rotated[p][8 * i:8 * i + 8].as_signed()
                    if self._scaled:
                        byte = Mux(s2.pad[p], s2.zero, byte)
                        m.d.sync += x[p][i].eq(Mux(s2.lanes[i], byte, 0))
                        continue
                    m.d.sync += x[p][i].eq(Mux(s2.pad[p] | ~s2.lanes[i], 0, byte))

        # -- sums, and what becomes of them: bias, scale, saturate ---------------------------------
        waiting = latency.conv_sum(target)
        ended = Signal(waiting + latency.CONV_WRITE - 1)    # bit n: a column's last step came to
        m.d.sync += ended.eq(Cat(s3_step & s3_last, ended))  # the array n + 1 cycles ago
        column = ended[waiting - 1:]
        step, first = s3_step, s3_first
        if self._vendor:
            m.submodules.delay = delay = OperandDelay(target, rows=banks)
            m.d.comb += [delay.i[p][i].eq(x[p][i]) for p in range(banks) for i in range(inputs)]
            x = delay.o
            late = Signal(2 * (waiting - 1), reset_less=True)
            m.d.sync += late.eq(Cat(s3_step, s3_first, late))
            step, first = late[-2], late[-1]
        for lane_number in range(target.output_channel_parallel):
            lane = Lane(target, vendor=self._vendor, number=lane_number)
            m.submodules[f"lane{lane_number}"] = lane
            word = self.read.weights[lane_number]
            for i in range(inputs):
                w = Signal(signed(8), name=f"w{lane_number}_{i}", reset_less=True)
                with m.If(s2_step):
                    m.d.sync += w.eq(word[8 * i:8 * i + 8])
                m.d.comb += lane.w[i].eq(w)
                m.d.comb += [lane.x[p][i].eq(x[p][i]) for p in range(banks)]
            m.d.comb += [
                lane.step.eq(step), lane.first.eq(first), lane.complete.eq(ended[0]),
                lane.column.eq(column),
                lane.bias.eq(writer.bias[lane_number]), lane.shift_bias.eq(writer.shift_bias),
                lane.prepare.eq(writer.prepare),
                lane.scale.eq(writer.scale), lane.act.eq(writer.act),
            ]
            if Extension.CHANNEL in target.extensions:
                m.d.comb += [lane.shifts.eq(writer.shifts[lane_number]), lane.cut.eq(writer.cut)]
            if self._scaled:
                wiring.connect(m, wiring.flipped(self.records), lane.records)
                m.d.comb += [lane.steps.eq(writer.steps),
                             lane.fixed_shift.eq(writer.fixed_shifts[lane_number])]
            for p in range(banks):
                m.d.comb += writer.results[p][lane_number].eq(lane.y[p])
            if self._tables:
                wiring.connect(m, wiring.flipped(self.tables), lane.tables)
                m.d.comb += [lane.table.eq(writer.table), lane.late.eq(writer.late)]
        m.d.comb += writer.column.eq(column)
        if self._tables:
            ended = Cat(ended, writer.late)
        if self._scaled:
            wiring.connect(m, wiring.flipped(self.records), writer.records)
            ended = Cat(ended, writer.scaling)

        m.d.comb += [
            self.done.eq(order.done & ~self.abort),
            self.active.eq(step),
            self.busy.eq(order.busy),
            self.idle.eq(~running & ~Cat(reading).any() & ~s3_step & ~ended.any()),
        ]
        return m

    def _turns(self, plan):
        """Return the least cycles between columns with multipliers, less one."""
        pixels = self._target.pixel_parallel
        return pixels - 1 + plan.tabled if self._tables else pixels - 1

    def _behind(self, m, plan, end, turns):
        """Return whether a column without multipliers would overtake one with."""
        more = latency.conv_scaled(self._target)
        left = Signal(range(more + 18))
        with m.If(end):
            m.d.sync += left.eq(Mux(plan.scaled, turns + more, 0))
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        return left != 0

    def _hazard(self, m, new, writer, take):
        """Whether a CONV may read what one in flight writes.

        Of the CONVs that write a bank group, the last one's words are known; while several are
        unfinished, the group is closed to readers.
        """
        abits = ceil_log2(self._target.bank_depth)
        shape = data.StructLayout({"base": abits, "span": abits})
        written = Array(Signal(shape, name=f"written{g}") for g in range(4))
        with m.If(take):
            m.d.sync += [written[new.group_out].base.eq(new.bank_addr_out),
                         written[new.group_out].span.eq(new.write_span)]
        # Nothing is taken while the planner works on `new`: it is compared in its last two cycles.
        base, span = Signal(abits), Signal(abits)
        m.d.comb += base.eq(written[new.group_in].base)
        m.d.sync += span.eq(written[new.group_in].span)
        bases = (new.bank_addr_in, new.bank_addr_in_1, new.bank_addr_in_2, new.bank_addr_in_3)
        touched = Signal(4)
        for i, start in enumerate(bases):
            after, before = Signal(abits, name=f"after{i}"), Signal(abits, name=f"before{i}")
            m.d.sync += [
                after.eq(start - base), before.eq(base - start),
                touched[i].eq(new.bases_used[i] & ((after <= span) | (before <= new.read_span))),
            ]
        hazard = Signal()
        m.d.comb += hazard.eq((writer.several >> new.group_in)[0]
                              | ((writer.pending >> new.group_in)[0] & touched.any()))
        return hazard
