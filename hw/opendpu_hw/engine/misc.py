# SPDX-License-Identifier: Apache-2.0
"""The MISC engine: depthwise convolution, pooling, elementwise and pointwise functions."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import latency
from opendpu_arch.extensions import Extension
from opendpu_hw.engine import misc_plan as plan
from opendpu_hw.engine.base import engine_members
from opendpu_hw.engine.misc_operands import Operands
from opendpu_hw.engine.misc_parameters import MiscParameters
from opendpu_hw.engine.misc_planner import MiscPlanner
from opendpu_hw.engine.misc_results import Results
from opendpu_hw.engine.misc_sums import Sums
from opendpu_hw.engine.misc_walk import MiscWalk
from opendpu_hw.engine.misc_writer import MiscWriter
from opendpu_hw.engine.order import DoneOrder
from opendpu_hw.memory.ports import BiasRead, ParameterRead, RowRead, RowWrite
from opendpu_hw.memory.record_ram import RecordWrite
from opendpu_hw.memory.table_ram import TableWrite

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
    vendor, double_rate : :class:`str` or None, :class:`bool`
        See :class:`opendpu_hw.datapath.dwconv.Depthwise`.

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

    def __init__(self, target, *, taps_per_cycle=3, window=True, vendor=None, double_rate=False):
        self._target, self._vendor, self._double_rate = target, vendor, double_rate
        self.taps = plan.effective_taps(target, taps_per_cycle)
        self.window = window and self.taps >= 3
        super().__init__(_members(target))

    def elaborate(self, platform):
        m = Module()
        core = _MiscCore(
            self._target, taps=self.taps, window=self.window, vendor=self._vendor,
            double_rate=self._double_rate)
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
            core.insn.valid.eq(self.insn.valid),
            self.insn.ready.eq(core.insn.ready),
            self.done.eq(core.done & ~self.abort), self.busy.eq(core.busy),
            self.active.eq(core.active), self.idle.eq(~core.busy),
        ]
        return m


class _MiscCore(wiring.Component):
    """The engine without ``abort``; reset instead."""

    def __init__(self, target, *, taps, window, vendor, double_rate):
        self._target, self._taps, self._window = target, taps, window
        self._vendor, self._double_rate = vendor, double_rate
        super().__init__(_members(target))

    def elaborate(self, platform):
        m = Module()
        target, taps = self._target, self._taps
        m.submodules.walk = walk = MiscWalk(target, taps=taps, results=_RESULTS)
        m.submodules.parameters = parameters = MiscParameters(target, taps=taps)
        m.submodules.writer = writer = MiscWriter(target, results=_RESULTS)
        self._take_instructions(m, walk, parameters, writer)
        operands = Operands(target, taps=taps, window=self._window and not self._double_rate)
        operands.capture(
            m, walk, self.read.data, parameters.words,
            self.terms if Extension.SCALED in target.extensions else None)
        sums = Sums(m, target, operands, taps=taps, window=self._window, vendor=self._vendor,
                    double_rate=self._double_rate)
        finish = self._oldest_job(m, walk, sums.ends.last_job)
        m.d.comb += parameters.bias_taken.eq(sums.ends.last_group & finish.bias)
        results = Results(
            m, self, target, sums, finish, parameters, vendor=self._vendor)
        m.d.comb += writer.result_valid.eq(results.valid)
        m.d.comb += [
            writer.result[8 * (h * target.channel_parallel + c):][:8].eq(y)
            for h, row in enumerate(results.y) for c, y in enumerate(row)]
        return m

    def _take_instructions(self, m, walk, parameters, writer):
        """Connect the planner, and what makes jobs of instructions; report their end in order."""
        m.submodules.planner = planner = MiscPlanner(
            self._target, taps=self._taps, window=self._window)
        m.submodules.order = order = DoneOrder(depth=_ORDER)
        m.d.comb += [
            planner.insn.payload.eq(self.insn.payload),
            planner.insn.valid.eq(self.insn.valid & order.ready),
            self.insn.ready.eq(planner.insn.ready & order.ready),
            order.push.eq(self.insn.valid & self.insn.ready),
            order.immediate.eq(planner.is_init), order.completed.eq(writer.done),
            self.done.eq(order.done), self.busy.eq(order.some), self.active.eq(walk.step_valid),
        ]
        wiring.connect(m, planner.job, walk.job)
        wiring.connect(m, planner.fetch, parameters.job)
        wiring.connect(m, planner.write, writer.job)
        wiring.connect(m, walk.read, wiring.flipped(self.read))
        wiring.connect(m, writer.write, wiring.flipped(self.write))
        wiring.connect(m, parameters.weights, wiring.flipped(self.weights))
        wiring.connect(m, parameters.bias, wiring.flipped(self.bias))
        m.d.comb += [
            walk.loaded.eq(parameters.loaded), walk.bias_loaded.eq(parameters.bias_loaded),
            parameters.fetch.eq(walk.fetch), parameters.entry.eq(walk.entry),
            parameters.freed.eq(walk.freed),
            walk.result_taken.eq(writer.result_taken), walk.job_written.eq(writer.job_written),
        ]

    def _oldest_job(self, m, walk, ended):
        """Queue how jobs finish; return that of the oldest, which ``ended`` lets go."""
        shape = plan.finish_shape(self._target)
        # Behind the queue a register, which an entry may reach at once: additions follow.
        m.submodules.finishes = finishes = fifo.SyncFIFO(width=shape.size, depth=_JOBS - 1)
        f6 = Signal(shape)
        f6_valid = Signal()
        refill = Signal()
        took = Signal()                     # a cycle later: that is soon enough, and known early
        m.d.sync += took.eq(walk.take)
        with m.If(refill):
            m.d.sync += [
                f6.as_value().eq(Mux(finishes.r_rdy, finishes.r_data, finishes.w_data)),
                f6_valid.eq(finishes.r_rdy | took),
            ]
        m.d.comb += [
            refill.eq(~f6_valid | ended),
            walk.room.eq(finishes.w_rdy), finishes.r_en.eq(refill),
            finishes.w_en.eq(took & (~refill | finishes.r_rdy)),
            finishes.w_data.eq(walk.job.payload.finish),
        ]
        return f6
