# SPDX-License-Identifier: Apache-2.0
"""CONV: the PP × ICP × OCP array, its address generators and its write-back."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_arch import latency
from opendpu_arch.extensions import Extension
from opendpu_hw.datapath.cascades import OperandDelay, begins_cascade
from opendpu_hw.datapath.double_cascades import DoubleRateOperands, weights_late
from opendpu_hw.datapath.lane import Lane
from opendpu_hw.double_rate import Phase
from opendpu_hw.engine.base import engine_members
from opendpu_hw.engine.conv_operands import ConvOperands
from opendpu_hw.engine.conv_plan import ConvPlanner
from opendpu_hw.engine.conv_walk import ConvWalk
from opendpu_hw.engine.conv_writer import ConvWriter
from opendpu_hw.engine.order import DoneOrder
from opendpu_hw.memory.ports import BiasRead, ConvRead, ConvWrite
from opendpu_hw.memory.record_ram import RecordWrite
from opendpu_hw.memory.table_ram import TableWrite


def lanes_with_leaky_blocks(target, *, sparing, double_rate=False):
    """Return in how many lanes LEAKYRELU's factor is in DSP blocks by default.

    In all of them where that adds a tenth or less to the blocks of the array, which has ICP of them
    a requantizer; in seven of ten if blocks are spared. With ``double_rate``, where a block has it
    for four pixels and adds the bias too, in all of them.
    """
    lanes = target.output_channel_parallel
    if double_rate:
        return lanes
    if target.input_channel_parallel < 10:
        return 0
    return lanes * 7 // 10 if sparing else lanes


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
        ``xilinx``: the array is made of DSP48E2, two products each. None: of plain multiplications;
        ``ecp5``: with a register after each. All take the same cycles.
    double_rate : :class:`bool`
        For ``xilinx``: whether the array's blocks have a doubled clock, so that half as many do.
        Weights are read :func:`opendpu_hw.datapath.double_cascades.weights_late` cycles later then.
    leaky_blocks : :class:`bool`, :class:`int` or None
        For ``xilinx``: in how many lanes LEAKYRELU's factor is in DSP blocks too, one a
        requantizer; all or none of them, where it is a truth value. By default, see
        :func:`lanes_with_leaky_blocks`.
    sparing : :class:`bool`
        Whether DSP blocks are spared by default where LUTs do it too.

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

    def __init__(self, target, *, vendor=None, double_rate=False, leaky_blocks=None,
                 sparing=False):
        self._target, self._vendor, self._double_rate = target, vendor, double_rate
        lanes = target.output_channel_parallel
        if leaky_blocks is None:
            leaky_blocks = lanes_with_leaky_blocks(
                target, sparing=sparing, double_rate=double_rate)
        elif isinstance(leaky_blocks, bool):
            leaky_blocks = lanes * leaky_blocks
        self._leaky_blocks = leaky_blocks if vendor == "xilinx" else 0
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
        m.submodules.planner = planner = ConvPlanner(self._target)
        m.submodules.writer = writer = ConvWriter(self._target)
        m.submodules.order = order = DoneOrder(depth=16)
        self._connect(m, planner, writer, order)
        walk = ConvWalk(self._target)
        walk.find_ends(m)
        take = self._take(m, planner, writer, walk)
        with m.If(walk.step):
            walk.advance(m)
        with m.If(walk.free):
            walk.begin(m, planner.plan, take)
        with m.If(self.abort):
            m.d.sync += walk.running.eq(0)
        s1 = walk.address(m)
        operands = ConvOperands(self._target, filled_late=self._filled_late())
        operands.connect(m, self.read, s1)
        ended = self._sum(m, operands, writer)
        m.d.comb += [
            self.done.eq(order.done & ~self.abort),
            self.active.eq(operands.step),
            self.busy.eq(order.busy),
            self.idle.eq(~walk.running & ~Cat(operands.reading).any() & ~operands.step
                         & ~ended.any()),
        ]
        return m

    def _connect(self, m, planner, writer, order):
        """Connect what takes instructions, writes results, and keeps their order."""
        m.d.comb += [
            planner.insn.payload.eq(self.insn.payload),
            planner.insn.valid.eq(self.insn.valid & order.ready),
            self.insn.ready.eq(planner.insn.ready & order.ready),
            planner.clear.eq(self.abort),
            writer.clear.eq(self.abort),
            order.clear.eq(self.abort),
            order.push.eq(planner.accepted), order.immediate.eq(planner.is_init),
            order.completed.eq(writer.completed),
        ]
        wiring.connect(m, wiring.flipped(self.bias), planner.bias)
        wiring.connect(m, wiring.flipped(self.write), writer.write)

    def _take(self, m, planner, writer, walk):
        """Return whether the next instruction begins."""
        take = Signal()
        hazard = self._hazard(m, planner.plan, writer, take)
        m.d.comb += [
            take.eq(planner.valid & ~hazard & writer.ready & walk.free & ~self.abort),
            planner.ready.eq(take),
            writer.push.eq(take),
            writer.payload.eq(planner.result),
        ]
        return take

    def _filled_late(self):
        """Return the channels whose padding becomes the zero point behind the operands' registers.

        With four rows and one clock none does: LUTs that choose among banks have room for it.
        """
        channels = range(self._target.input_channel_parallel)
        if self._vendor != "xilinx" or not self._scaled:
            return []
        if self._double_rate:
            return list(channels)
        if self._target.pixel_parallel == 4:
            return []
        return [i for i in channels if not begins_cascade(self._target, i)]

    def _sum(self, m, operands, writer):
        """Sums, and what becomes of them: bias, scale, saturate; return where columns are."""
        target = self._target
        inputs = target.input_channel_parallel
        waiting = latency.conv_sum(target)
        ended = Signal(waiting + latency.CONV_WRITE - 1)    # bit n: a column's last step came to
        m.d.sync += ended.eq(Cat(operands.step & operands.last, ended))  # array n + 1 cycles ago
        column = ended[waiting - 1:]
        step, first, x = operands.step, operands.first, operands.x
        weights_step, lanes = operands.reading[-1], operands.lanes
        if self._vendor == "xilinx":
            x = self._delayed(m, operands)
            late = Signal(2 * (waiting - 1), reset_less=True)
            m.d.sync += late.eq(Cat(step, first, late))
            step, first = late[-2], late[-1]
            if self._double_rate:
                cycles = weights_late(target)
                weights_step = self._later(m, weights_step, cycles, "weights_step")
                lanes = self._later(m, lanes, cycles, "lanes", reset_less=True)
        for number in range(target.output_channel_parallel):
            lane = Lane(
                target, vendor=self._vendor, double_rate=self._double_rate,
                leaky_blocks=number < self._leaky_blocks, number=number)
            m.submodules[f"lane{number}"] = lane
            if hasattr(lane, "enter"):
                m.d.comb += lane.enter.eq(operands.step)
            word = self.read.weights[number]
            for i in range(inputs):
                w = Signal(signed(8), name=f"w{number}_{i}", reset_less=True)
                with m.If(weights_step):
                    m.d.sync += w.eq(Mux(lanes[i], word[8 * i:8 * i + 8], 0))
                m.d.comb += lane.w[i].eq(w)
                m.d.comb += [lane.x[p][i].eq(row[i]) for p, row in enumerate(x)]
            m.d.comb += [
                lane.step.eq(step), lane.first.eq(first), lane.complete.eq(ended[0]),
                lane.column.eq(column),
            ]
            self._write_back(m, lane, number, writer)
        m.d.comb += writer.column.eq(column)
        if self._tables:
            ended = Cat(ended, writer.late)
        if self._scaled:
            wiring.connect(m, wiring.flipped(self.records), writer.records)
            ended = Cat(ended, writer.scaling)
        return ended

    def _delayed(self, m, operands):
        """Return inputs as DSP blocks want them."""
        fills = bool(self._filled_late())
        if self._double_rate:
            m.submodules.phase = phase = Phase()
            m.submodules.delay = delay = DoubleRateOperands(self._target, fills=fills)
            m.d.comb += delay.second.eq(phase.second)
        else:
            m.submodules.delay = delay = OperandDelay(
                self._target, rows=self._target.pixel_parallel, fills=fills)
            m.d.comb += delay.step.eq(operands.step)
        m.d.comb += [delay.i[p][i].eq(x) for p, row in enumerate(operands.x)
                     for i, x in enumerate(row)]
        if fills:
            m.d.comb += [delay.filled.eq(operands.padding), delay.fill.eq(operands.zero)]
        return delay.o

    @staticmethod
    def _later(m, value, cycles, name, **how):
        for n in range(cycles):
            later = Signal.like(value, name=f"{name}_{n}", **how)
            m.d.sync += later.eq(value)
            value = later
        return value

    def _write_back(self, m, lane, number, writer):
        """Connect a lane with what the writer knows of the instruction, and its results."""
        m.d.comb += [
            lane.bias.eq(writer.bias[number]), lane.shift_bias.eq(writer.shift_bias),
            lane.prepare.eq(writer.prepare),
            lane.leaky.eq(writer.next_leaky if self._double_rate else writer.leaky),
            lane.scale.eq(writer.scale), lane.act.eq(writer.act),
        ]
        if Extension.CHANNEL in self._target.extensions:
            m.d.comb += [lane.shifts.eq(writer.shifts[number]), lane.cut.eq(writer.cut)]
        if self._scaled:
            wiring.connect(m, wiring.flipped(self.records), lane.records)
            m.d.comb += [lane.steps.eq(writer.steps),
                         lane.fixed_shift.eq(writer.fixed_shifts[number])]
        for p in range(self._target.pixel_parallel):
            m.d.comb += writer.results[p][number].eq(lane.y[p])
        if self._tables:
            wiring.connect(m, wiring.flipped(self.tables), lane.tables)
            m.d.comb += [lane.table.eq(writer.table), lane.late.eq(writer.late)]

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
        base = Signal(abits)
        span = Signal(abits)
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
