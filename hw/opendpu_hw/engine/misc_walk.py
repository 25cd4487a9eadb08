# SPDX-License-Identifier: Apache-2.0
"""The walk of the MISC engine over its inputs: groups, columns, kernel columns, kernel rows."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import latency
from opendpu_arch.extensions import Extension
from opendpu_hw.bus.fields import FieldSkid
from opendpu_hw.datapath.narrow_product import narrow_product
from opendpu_hw.engine import misc_plan as plan
from opendpu_hw.engine.misc_parameters import POINTER_BITS
from opendpu_hw.engine.misc_plan import Op, Weights
from opendpu_hw.memory.ports import RowRead

#: Fewer jobs than this many bits count are taken, but not written: the writer holds four, one is
#: being written, one is offered.
_JOB_BITS = 3


def step_shape(target, taps):
    """Return the layout of what is known of a step when its data are there.

    ``bank``, ``pad`` are indexed by position: position p holds the input row of tap t of output
    row p - t, or of row p of an ELEW input. ``taps`` says which taps exist, ``invalid`` how many
    of the last lanes are not there. ``last`` ends a sum, ``last_group`` also the last column of a
    channel group, ``last_job`` also the job.

    ``sliding`` steps bring kernel column ``slot`` of an output column; from the third column of a
    channel group on each completes one.

    ``paired`` steps bring the even or, with ``odd``, the odd rows of a column. The odd ones
    complete it. What ``compute`` then takes is the last complete column.
    """
    positions = target.alu_pixel_parallel + taps - 1
    return data.StructLayout({
        "op": Op, "weights": Weights, "factor": signed(13), "prelu": 1, "wide": 1, "shift": 4,
        "first": 1, "last": 1, "last_group": 1, "last_job": 1,
        "paired": 1, "odd": 1, "compute": 1, "sliding": 1, "slot": 2, "taps": taps, "invalid": 5,
        "bank": data.ArrayLayout(unsigned(plan.bank_bits(target)), positions), "pad": positions,
        **({"scaled": 1, "zero": signed(8), "term": 1, **(
            {"tabled": 1} if Extension.TABLE in target.extensions else {})}
           if Extension.SCALED in target.extensions else {}),
    })


class MiscWalk(wiring.Component):
    """Read one step a cycle, without gaps between columns, groups and jobs.

    A step is one input row of each of PP_alu output rows, for up to ``taps`` taps of a kernel
    column, one tap of ``wide`` jobs, CP channels. Taps of a step are ``stride_h`` kernel rows
    apart: their rows lie in successive banks at the same place. With stride 1 these are neighbours;
    with stride 2 the even kernel rows come first, then the odd ones.

    3x3 kernels with stride 2 share every other input column between two output columns: where a
    step has three taps, each column is read once, in two steps, and kept. The first step of the
    next output column then computes with the kept one.

    3 wide kernels of up to 3 rows with stride 1, if ``sliding``, take every input column once: from
    the third one on each step completes an output column.

    A step waits for its weights, for the bias of its channel group and, if it ends a sum, for room
    for the result. A job that reads banks with unwritten results of an earlier one waits; kernels
    read and write all banks of a group, as far as this is concerned. A job without a table waits
    until all steps of one with a table have been made, because its results take a cycle less.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Parallelism and memories.
    taps : :class:`int`
        Taps of a kernel column in a step.
    results : :class:`int`
        Results there is room for between the walk and the writer.

    Members
    -------
    job : ``In(stream.Signature(job_shape))``
        What to walk over. :py:`take` says that one is taken.
    read : ``Out(RowRead)``
        Image banks.
    step_valid, step : ``Out(1)``, ``Out(step_shape)``
        The step whose data are on ``read.data`` (and whose weights come from the ring) this cycle.
    take, room : ``Out(1)``, ``In(1)``
        A job is taken; only done while there is ``room`` for its ``finish`` part.
    loaded, bias_loaded : ``In(POINTER_BITS)``, ``In(1)``
        Entries of weights in the ring so far; a channel group's bias arrived.
    entry, fetch, freed : ``Out``
        The entry to read from the ring, when, and what is free after that.
    result_taken : ``In(1)``
        A result left for the writer.
    job_written : ``In(1)``
        The oldest job is written.
    """

    def __init__(self, target, *, taps, results):
        self._target, self._taps, self._results = target, taps, results
        super().__init__({
            "job": In(stream.Signature(plan.job_shape(target))),
            "read": Out(RowRead(target)),
            "step_valid": Out(1), "step": Out(step_shape(target, taps)),
            "take": Out(1), "room": In(1),
            "loaded": In(POINTER_BITS), "bias_loaded": In(1),
            "entry": Out(POINTER_BITS), "fetch": Out(1), "freed": Out(POINTER_BITS),
            "result_taken": In(1), "job_written": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        target, taps = self._target, self._taps
        banks, rows = target.pixel_parallel, target.alu_pixel_parallel
        positions = rows + taps - 1
        a, bb = plan.address_bits(target), plan.bank_bits(target)

        p = Signal(plan.walk_shape(target), reset_less=True)
        new = self.job.payload.walk
        running = Signal()

        # -- where the walk is ---------------------------------------------------------------------
        group = Signal(8, reset_less=True)
        column = Signal(11, reset_less=True)
        column_at = Signal(20)              # input column of the kernel's left edge
        kernel_w = Signal(8)                # kernel column, or number of the ELEW input
        phase = Signal(8)                   # first kernel row of those that are stride_h apart
        kernel_h = Signal(11)               # kernel row of tap 0
        low = Signal(bb)
        phase_low = Signal(bb)
        wrap = Signal(2)
        phase_wrap = Signal(2)
        in_bank = Signal(8)
        row_offset = Signal(a)
        tap_offset = Signal(a)
        column_offset = Array(Signal(a, name=f"column_offset{i}", reset_less=True)
                              for i in range(plan.INPUTS))

        last_phase, last_tap, last_column, last_group = (Signal() for _ in range(4))
        last_chunk = Signal(reset_less=True)            # compared a cycle before
        next_kernel_h = Signal.like(kernel_h)
        start = Signal()
        again = Signal()
        compute = Signal()
        first = Signal()
        m.d.comb += [
            last_phase.eq(p.eltwise | (phase == p.phases_1)),
            last_tap.eq(last_chunk & last_phase
                        & (kernel_w == Mux(p.eltwise, p.inputs_1, p.kernel_w_1))),
            last_column.eq(column == p.length_1),
            last_group.eq(group == p.groups_1),
            start.eq((kernel_h == 0) & (kernel_w == 0)),
            again.eq((column != 0) & (kernel_w == 1) & (phase == 0)),
            compute.eq(~p.paired | (phase == 1) | again),
            first.eq(Mux(p.paired, again | ((column == 0) & (kernel_w == 0) & (phase == 1)),
                         start)),
        ]
        with m.If(~last_chunk):
            m.d.comb += next_kernel_h.eq(kernel_h + p.stride_step)
        with m.Elif(~last_phase):
            m.d.comb += next_kernel_h.eq(phase + 1)
        last_step = Signal()
        m.d.comb += last_step.eq(last_tap & last_column & last_group)

        # -- when it may go on ---------------------------------------------------------------------
        index = Signal(POINTER_BITS)
        base = Signal(POINTER_BITS)
        room = Signal(range(self._results + 1), init=self._results)
        biases = Signal(4)
        busy = Signal(target.image_banks)       # banks with unwritten results
        taken, written = Signal(_JOB_BITS), Signal(_JOB_BITS)       # jobs, modulo
        stage_free = Signal()
        step = Signal()
        take = Signal()
        hazard = Signal()
        begin = ~running | (step & last_step)
        shape = step_shape(target, taps)
        # The banks' answer comes late in a cycle: it does not reach the walk in the same one.
        m.submodules.stage = stage = FieldSkid({
            "step": shape.size, "here": a, "after": a, "low": bb, "group": 2, "used": positions,
            "entry": POINTER_BITS, "base": POINTER_BITS})
        if Extension.TABLE in target.extensions:
            begin = Mux(p.tabled & ~new.tabled, ~running & ~stage.o.valid, begin)
        scaled = Extension.SCALED in target.extensions
        if scaled:      # those of multipliers come later
            begin = Mux(p.scaled & ~new.scaled, ~running & (room == self._results), begin)
        first_of_group = Signal()
        weights_there = Signal()
        uses_ring = Signal()
        m.d.comb += [
            first_of_group.eq(start & (column == 0)),
            uses_ring.eq((p.op == Op.MAC) & (p.weights != Weights.FACTOR)),
            step.eq(running & stage_free
                    & (~uses_ring | weights_there)
                    & (~p.bias | ~first_of_group | (biases != 0))
                    & (~last_tap | (room != 0))),
            hazard.eq(new.checked & (new.reads & busy).any()),
            take.eq(self.job.valid & self.room & ~hazard & begin),
            self.job.ready.eq(take), self.take.eq(take),
        ]
        m.d.sync += [
            room.eq(room - (step & last_tap) + self.result_taken),
            biases.eq(biases + self.bias_loaded - (step & p.bias & first_of_group)),
        ]
        m.d.sync += [taken.eq(taken + take), written.eq(written + self.job_written)]
        for b in range(target.image_banks):
            writer = Signal(_JOB_BITS, name=f"writer{b}", reset_less=True)      # the last one
            with m.If(take & new.writes[b]):
                m.d.sync += [busy[b].eq(1), writer.eq(taken)]
            with m.Elif(self.job_written & (writer == written)):
                m.d.sync += busy[b].eq(0)

        # -- the walk ------------------------------------------------------------------------------
        base_next = Signal(POINTER_BITS)
        index_next = Signal(POINTER_BITS)
        # Whether the next step's weights were there a cycle before: if it is this one, the one
        # after it or the first of the ring.
        ahead = Signal(POINTER_BITS)
        there_next, here_there, more_there = Signal(), Signal(), Signal()
        m.d.comb += [
            ahead.eq(self.loaded - base), here_there.eq(ahead > index),
            more_there.eq(ahead > (index + 1)[:POINTER_BITS]),
            base_next.eq(base), index_next.eq(index), there_next.eq(here_there),
        ]
        with m.If(uses_ring & compute):
            with m.If(~p.cached | (last_tap & last_column)):
                m.d.comb += [base_next.eq(base + index + 1), index_next.eq(0),
                             there_next.eq(more_there)]
            with m.Elif(last_tap):
                # the last of the kernel's columns is the only one that is asked for again
                with m.If(~p.sliding):
                    m.d.comb += [index_next.eq(0), there_next.eq(ahead.any())]
            with m.Else():
                m.d.comb += [index_next.eq(index + 1), there_next.eq(more_there)]
        m.d.sync += weights_there.eq(Mux(step, there_next, here_there))
        with m.If(step):
            m.d.sync += [base.eq(base_next), index.eq(index_next)]
            low_next = Signal(bb + 1)
            m.d.sync += [
                kernel_h.eq(next_kernel_h),
                last_chunk.eq(p.eltwise | (next_kernel_h + p.stride_step > p.kernel_h_1)),
            ]
            with m.If(~last_chunk):
                m.d.comb += low_next.eq(low + Mux(p.wide, 1, taps))
                m.d.sync += [low.eq(low_next[:bb]), wrap.eq(wrap + low_next[bb])]
            with m.Elif(~last_phase):
                m.d.sync += phase.eq(phase + 1)
                with m.If(in_bank + 1 == p.stride_h):
                    m.d.comb += low_next.eq(phase_low + 1)
                    m.d.sync += [
                        in_bank.eq(0), row_offset.eq(0), low.eq(low_next[:bb]),
                        wrap.eq(phase_wrap + low_next[bb]),
                        phase_low.eq(low_next[:bb]), phase_wrap.eq(phase_wrap + low_next[bb]),
                    ]
                with m.Else():
                    m.d.sync += [in_bank.eq(in_bank + 1),
                                 row_offset.eq((row_offset + p.jump_endl)[:a]),
                                 low.eq(phase_low), wrap.eq(phase_wrap)]
            with m.Else():
                m.d.sync += [
                    phase.eq(0), in_bank.eq(p.in_bank),
                    row_offset.eq(p.row_offset), low.eq(p.low), wrap.eq(p.wrap),
                    phase_low.eq(p.low), phase_wrap.eq(p.wrap),
                ]
                with m.If(~last_tap):
                    m.d.sync += [kernel_w.eq(kernel_w + 1),
                                 tap_offset.eq((tap_offset + p.jump)[:a])]
                with m.Else():
                    with m.If(last_column | ~p.sliding):
                        m.d.sync += [kernel_w.eq(0), tap_offset.eq(0)]
                    with m.If(~last_column):
                        with m.If(p.paired):
                            m.d.sync += [kernel_w.eq(1), tap_offset.eq(p.jump)]
                        m.d.sync += [column.eq(column + 1),
                                     column_at.eq(column_at + p.stride_w)]
                        m.d.sync += [offset.eq((offset + source.jump)[:a])
                                     for offset, source in zip(column_offset, p.inputs,
                                                               strict=True)]
                    with m.Else():
                        m.d.sync += [column.eq(0), column_at.eq(0), group.eq(group + 1)]
                        m.d.sync += [offset.eq(0) for offset in column_offset]
                        with m.If(last_group):
                            m.d.sync += running.eq(0)
        with m.If(take):
            m.d.sync += [
                p.eq(new), running.eq(1), group.eq(0), column.eq(0), column_at.eq(0),
                kernel_w.eq(0), phase.eq(0), kernel_h.eq(0),
                last_chunk.eq(new.eltwise | (new.stride_step > new.kernel_h_1)),
                in_bank.eq(new.in_bank),
                row_offset.eq(new.row_offset), tap_offset.eq(0), low.eq(new.low),
                wrap.eq(new.wrap), phase_low.eq(new.low), phase_wrap.eq(new.wrap),
            ]
            m.d.sync += [offset.eq(0) for offset in column_offset]

        # -- stage 1: addresses --------------------------------------------------------------------
        source = Array(p.inputs)[kernel_w[:2]]
        here = Signal(a)
        after = Signal(a)
        offset = Signal(a)
        at_bank = Signal(bb)
        bank_step = Signal(4)
        with m.If(p.eltwise):
            m.d.comb += [here.eq(source.here), after.eq(source.next), at_bank.eq(source.low),
                         bank_step.eq(source.step),
                         offset.eq((column_offset[kernel_w[:2]] + group)[:a])]
        with m.Else():
            m.d.comb += [
                here.eq(Array(p.bases)[wrap]), after.eq(Array(p.bases)[(wrap + 1)[:2]]),
                at_bank.eq(low), bank_step.eq(1),
                offset.eq((row_offset + column_offset[0] + tap_offset + group)[:a]),
            ]
        made, s1 = Signal(shape), Signal(shape)
        column_now = Signal(21)
        outside = Signal()
        exists = Signal(taps)
        m.d.comb += [
            column_now.eq(column_at + kernel_w),
            outside.eq((column_now < p.pad_left) | (column_now > p.right_limit)),
            exists.eq(Cat((kernel_h + narrow_product(p.stride_h, t) <= p.kernel_h_1)
                          & (~(p.eltwise | p.wide) if t else 1) for t in range(taps))),
            stage_free.eq(stage.i.ready), stage.i.valid.eq(step), stage.i.step.eq(made),
            made.op.eq(p.op), made.weights.eq(p.weights), made.factor.eq(p.factor),
            made.prelu.eq(p.prelu), made.wide.eq(p.wide), made.shift.eq(source.shift),
            made.first.eq(first), made.last.eq(last_tap),
            made.last_group.eq(last_tap & last_column), made.last_job.eq(last_step),
            made.sliding.eq(p.sliding), made.slot.eq(kernel_w[:2]),
            made.paired.eq(p.paired), made.odd.eq(phase[0]), made.compute.eq(compute),
            made.taps.eq(Mux(p.paired, 0b111, exists)),
            made.invalid.eq(Mux(last_group, p.invalid, 0)),
            stage.i.here.eq((here + offset)[:a]), stage.i.after.eq((after + offset)[:a]),
            stage.i.low.eq(at_bank), stage.i.group.eq(Mux(p.eltwise, source.group, p.group)),
            stage.i.entry.eq((base + index)[:POINTER_BITS]), stage.i.base.eq(base_next),
        ]
        for q in range(positions):
            row = Signal(14, name=f"row{q}")
            used = Signal(name=f"used{q}")
            m.d.comb += [
                used.eq(Cat(
                    exists[t] if q == t else exists[t] & (p.rows_1 >= q - t)
                    for t in range(taps) if 0 <= q - t < rows).any()),
                row.eq(p.row_base + kernel_h + narrow_product(p.stride_h, q)),
                made.bank[q].eq((at_bank + q * bank_step)[:bb]),
                made.pad[q].eq(~p.eltwise & (outside | (row < p.pad_top)
                                             | (row > p.bottom_limit))),
                stage.i.used[q].eq(used & (~p.eltwise | (q < rows))),
            ]

        if scaled:
            m.d.comb += [
                made.scaled.eq(p.scaled), made.zero.eq(p.zero_in), made.term.eq(source.term),
                *([made.tabled.eq(p.tabled)] if Extension.TABLE in target.extensions else []),
            ]

        # -- stage 2: the banks answer -------------------------------------------------------------
        fetched = Signal()
        offered, ready = stage.o.valid, self.read.ready
        if scaled:
            wait = self._turns(m, s1, fetched)
            offered, ready = offered & ~wait, ready & ~wait
        m.d.comb += [
            s1.eq(stage.o.step), stage.o.ready.eq(ready),
            self.read.valid.eq(offered), self.read.group.eq(stage.o.group),
            self.read.mask.eq(Cat(
                Cat(stage.o.used[q] & (s1.bank[q] == b) for q in range(positions)).any()
                for b in range(banks))),
            fetched.eq(offered & self.read.ready),
        ]
        for b in range(banks):
            wrapped = b < stage.o.low if b < banks - 1 else False
            m.d.comb += self.read.addr[b].eq(Mux(wrapped, stage.o.after, stage.o.here))
        with m.If(fetched):
            m.d.sync += self.freed.eq(stage.o.base)
        # The ring answers a cycle after it is asked.
        read_valid, read, entry = fetched, s1, stage.o.entry
        for n in range(latency.BANK_READ):
            if n == latency.BANK_READ - 1:
                m.d.comb += [
                    self.fetch.eq(read_valid & (read.op == Op.MAC)
                                  & (read.weights != Weights.FACTOR) & read.compute),
                    self.entry.eq(entry),
                ]
            later_valid = Signal(name=f"s2_valid_{n}")
            later = Signal(step_shape(target, taps), name=f"s2_{n}", reset_less=True)
            later_entry = Signal.like(entry, name=f"s2_entry_{n}", reset_less=True)
            m.d.sync += later_valid.eq(read_valid)
            with m.If(read_valid):
                m.d.sync += [later.eq(read), later_entry.eq(entry)]
            read_valid, read, entry = later_valid, later, later_entry
        m.d.comb += [self.step_valid.eq(read_valid), self.step.eq(read)]
        return m

    def _turns(self, m, step, fetched):
        """Return whether a step would complete a column too early for the multipliers."""
        least = max(self._target.alu_pixel_parallel, latency.SCALED_DISTANCE) - 1
        gap = Signal(range(least + 2))
        turns = least + step.tabled if Extension.TABLE in self._target.extensions else least
        with m.If(fetched & step.last):
            m.d.sync += gap.eq(Mux(step.scaled, turns, 0))
        with m.Elif(gap != 0):
            m.d.sync += gap.eq(gap - 1)
        return step.scaled & step.last & (gap != 0)
