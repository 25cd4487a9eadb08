# SPDX-License-Identifier: Apache-2.0
"""The walk of the MISC engine over its inputs: groups, columns, kernel columns, kernel rows."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import latency
from opendpu_arch.extensions import Extension
from opendpu_hw.bus.fields import FieldSkid
from opendpu_hw.bus.level import next_level
from opendpu_hw.datapath.eltwise import UNSHIFTED
from opendpu_hw.datapath.narrow_product import narrow_product
from opendpu_hw.engine import misc_plan as plan
from opendpu_hw.engine.misc_parameters import POINTER_BITS
from opendpu_hw.engine.misc_plan import Op, Weights
from opendpu_hw.engine.misc_position import Position
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
        What to walk over. ``take`` says that one is taken.
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
        target = self._target
        a, bb = plan.address_bits(target), plan.bank_bits(target)
        banks = target.pixel_parallel
        # The banks' answer comes late in a cycle: it does not reach the walk in the same one.
        m.submodules.stage = stage = FieldSkid({
            "step": step_shape(target, self._taps).size, "here": a, "after": a, "low": bb,
            "group": 2, "mask": banks, "entry": POINTER_BITS, "base": POINTER_BITS})
        s = Position(target, self._taps, self.job.payload.walk)
        s.find_ends(m)
        self._admit(m, s, stage)
        self._follow_weights(m, s)
        with m.If(s.step):
            s.advance(m)
        with m.If(s.free):
            s.begin(m)
        self._address(m, s, stage)
        self._read_banks(m, stage)
        return m

    def _admit(self, m, s, stage):
        """Decide whether the walk goes on, and whether it takes a job."""
        room = Signal(range(self._results + 1), init=self._results)
        biases = Signal(4)
        some_room = Signal(init=1)
        some_bias = Signal()
        may = Signal()                      # but for room for a result
        m.d.comb += [
            may.eq(stage.i.ready
                   & (~s.uses_ring | s.weights_there)
                   & (~s.needs_bias | some_bias)),
            s.step.eq(s.running & may
                      & (~s.last_tap | some_room)),
            # As (step & last_step), sooner: it goes to each register of the job.
            s.free.eq(~s.running | (may & (some_room & s.last_step))),
        ]
        for level, some, more, less in (
                (room, some_room, self.result_taken, s.step & s.last_tap),
                (biases, some_bias, self.bias_loaded, s.step & s.needs_bias)):
            m.d.sync += [level.eq(next_level(level, more, less)),
                         some.eq(more | level[1:].any() | (level[0] & ~less))]
        begin = s.free
        if Extension.TABLE in self._target.extensions:
            tabled = self._of_last(m, s, "tabled")
            begin = Mux(tabled & ~s.new.tabled, ~s.running & ~stage.o.valid, begin)
        if Extension.SCALED in self._target.extensions:     # those of multipliers come later
            scaled = self._of_last(m, s, "scaled")
            begin = Mux(scaled & ~s.new.scaled, ~s.running & (room == self._results), begin)
        hazard = self._hazard(m, s)
        m.d.comb += [
            s.take.eq(self.job.valid & self.room & ~hazard & begin),
            self.job.ready.eq(s.take), self.take.eq(s.take),
        ]

    def _of_last(self, m, s, name):
        """Return a bit of the job that was taken last."""
        bit = Signal(name=f"last_{name}")
        with m.If(s.take):
            m.d.sync += bit.eq(getattr(s.new, name))
        return bit

    def _hazard(self, m, s):
        """Return whether the job that is offered reads banks with unwritten results."""
        banks = self._target.image_banks
        busy = Signal(banks)
        taken = Signal(_JOB_BITS)       # jobs, modulo
        written = Signal(_JOB_BITS)
        # What a job writes is noted a cycle after it is taken, which is known late; until then it
        # counts beside what is noted.
        took = Signal()
        writes = Signal(banks, reset_less=True)
        hazard = Signal()
        m.d.comb += hazard.eq(s.new.checked & (
            s.new.reads & (busy | (writes & took.replicate(banks)))).any())
        m.d.sync += [took.eq(s.take), writes.eq(s.new.writes),
                     taken.eq(taken + took), written.eq(written + self.job_written)]
        for b in range(banks):
            writer = Signal(_JOB_BITS, name=f"writer{b}", reset_less=True)      # the last one
            with m.If(took & writes[b]):
                m.d.sync += [busy[b].eq(1), writer.eq(taken)]
            with m.Elif(self.job_written & (writer == written)):
                m.d.sync += busy[b].eq(0)
        return hazard

    def _follow_weights(self, m, s):
        """Find the next step's entry of the ring of weights, and whether it is there."""
        onward = Signal(POINTER_BITS)
        entry_next = Signal(POINTER_BITS)
        # Whether the next step's weights were there a cycle before: if it is this one, the one
        # after it or the first that is kept. No step is made before its weights are there.
        ahead = Signal(POINTER_BITS)
        there_next = Signal()
        here_there = Signal()
        more_there = Signal()
        m.d.comb += [
            ahead.eq(self.loaded - s.entry), here_there.eq(ahead.any()),
            more_there.eq(ahead[1:].any()), onward.eq(s.entry + 1),
            s.base_next.eq(s.base), entry_next.eq(s.entry), there_next.eq(here_there),
        ]
        with m.If(s.uses_ring & s.compute):
            with m.If(~s.p.cached | (s.last_tap & s.last_column)):
                m.d.comb += [s.base_next.eq(onward), entry_next.eq(onward),
                             there_next.eq(more_there)]
            with m.Elif(s.last_tap):
                # the last of the kernel's columns is the only one that is asked for again
                with m.If(~s.p.sliding):
                    m.d.comb += [entry_next.eq(s.base), there_next.eq(self.loaded != s.base)]
            with m.Else():
                m.d.comb += [entry_next.eq(onward), there_next.eq(more_there)]
        m.d.sync += s.weights_there.eq(Mux(s.step, there_next, here_there))
        with m.If(s.step):
            m.d.sync += [s.base.eq(s.base_next), s.entry.eq(entry_next)]

    def _address(self, m, s, stage):
        """Stage 1: the step's addresses, and what is to be known of it when its data come."""
        p, taps = s.p, self._taps
        a, bb = plan.address_bits(self._target), plan.bank_bits(self._target)
        source = Array(p.inputs)[s.kernel_w[:2]]
        here = Signal(a)
        after = Signal(a)
        offset = Signal(a)
        at_bank = Signal(bb)
        bank_step = Signal(4)
        with m.If(p.eltwise):
            m.d.comb += [here.eq(source.here), after.eq(source.next), at_bank.eq(source.low),
                         bank_step.eq(source.step),
                         offset.eq(s.column_offset[s.kernel_w[:2]])]
        with m.Else():
            m.d.comb += [
                here.eq(Array(p.bases)[s.wrap]), after.eq(Array(p.bases)[(s.wrap + 1)[:2]]),
                at_bank.eq(s.low), bank_step.eq(1),
                offset.eq((s.row_offset + s.column_offset[0] + s.tap_offset)[:a]),
            ]
        made = Signal(step_shape(self._target, taps))
        exists = Signal(taps)
        m.d.comb += [
            exists.eq(Cat((narrow_product(p.stride_h, t) <= s.rest)
                          & (~(p.eltwise | p.wide) if t else 1) for t in range(taps))),
            stage.i.valid.eq(s.step), stage.i.step.eq(made),
            made.op.eq(p.op), made.weights.eq(p.weights), made.factor.eq(p.factor),
            made.prelu.eq(p.prelu), made.wide.eq(p.wide),
            made.shift.eq(Mux(p.eltwise, source.shift, UNSHIFTED)),
            made.first.eq(s.first), made.last.eq(s.last_tap),
            made.last_group.eq(s.last_tap & s.last_column), made.last_job.eq(s.last_step),
            made.sliding.eq(p.sliding), made.slot.eq(s.kernel_w[:2]),
            made.paired.eq(p.paired), made.odd.eq(s.phase[0]), made.compute.eq(s.compute),
            made.taps.eq(Mux(p.paired, 0b111, exists)),
            made.invalid.eq(Mux(s.last_group, p.invalid, 0)),
            stage.i.here.eq((here + offset)[:a]), stage.i.after.eq((after + offset)[:a]),
            stage.i.low.eq(at_bank), stage.i.group.eq(Mux(p.eltwise, source.group, p.group)),
            stage.i.entry.eq(s.entry), stage.i.base.eq(s.base_next),
        ]
        if Extension.SCALED in self._target.extensions:
            m.d.comb += [
                made.scaled.eq(p.scaled), made.zero.eq(p.zero_in), made.term.eq(source.term),
            ]
            if Extension.TABLE in self._target.extensions:
                m.d.comb += made.tabled.eq(p.tabled)
        for q in range(self._target.alu_pixel_parallel + taps - 1):
            m.d.comb += made.bank[q].eq((at_bank + q * bank_step)[:bb])
        used = self._find_rows(m, s, made.pad, exists)
        m.d.comb += stage.i.mask.eq(Cat(
            Cat(row & (made.bank[q] == b) for q, row in enumerate(used)).any()
            for b in range(self._target.pixel_parallel)))

    def _find_rows(self, m, s, pad, exists):
        """Find out for each position whether its row is padding; return whether it is read."""
        used_rows = []
        p, taps, rows = s.p, self._taps, self._target.alu_pixel_parallel
        column_now = Signal(21)
        outside = Signal()
        m.d.comb += [
            column_now.eq(s.column_at + s.kernel_w),
            outside.eq((column_now < p.pad_left) | (column_now > p.right_limit)),
        ]
        for q in range(rows + taps - 1):
            row = Signal(14, name=f"row{q}")
            used = Signal(name=f"used{q}")
            used_rows.append(used)
            m.d.comb += [
                used.eq((~p.eltwise if q >= rows else 1) & Cat(
                    exists[t] if q == t else exists[t] & (p.rows_1 >= q - t)
                    for t in range(taps) if 0 <= q - t < rows).any()),
                row.eq(s.row + narrow_product(p.stride_h, q)),
                pad[q].eq(~p.eltwise & (outside | (row < p.pad_top) | (row > p.bottom_limit))),
            ]
        return used_rows

    def _read_banks(self, m, stage):
        """Stage 2: the banks are read; what is known of a step waits for their answer."""
        banks = self._target.pixel_parallel
        s1 = Signal(step_shape(self._target, self._taps))
        fetched = Signal()
        offered, ready = stage.o.valid, self.read.ready
        if Extension.SCALED in self._target.extensions:
            wait = self._turns(m, s1, fetched)
            offered, ready = offered & ~wait, ready & ~wait
        m.d.comb += [
            s1.eq(stage.o.step), stage.o.ready.eq(ready),
            self.read.valid.eq(offered), self.read.group.eq(stage.o.group),
            self.read.mask.eq(stage.o.mask),
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
            later = Signal(s1.shape(), name=f"s2_{n}", reset_less=True)
            later_entry = Signal.like(entry, name=f"s2_entry_{n}", reset_less=True)
            m.d.sync += later_valid.eq(read_valid)
            with m.If(read_valid):
                m.d.sync += [later.eq(read), later_entry.eq(entry)]
            read_valid, read, entry = later_valid, later, later_entry
        m.d.comb += [self.step_valid.eq(read_valid), self.step.eq(read)]

    def _turns(self, m, step, fetched):
        """Return whether a step comes too early for the multipliers.

        Others wait until a product of terms, which is computed late, has had its turn.
        """
        least = max(self._target.alu_pixel_parallel, latency.SCALED_DISTANCE) - 1
        gap = Signal(range(least + 2))
        turns = least + step.tabled if Extension.TABLE in self._target.extensions else least
        next_gap = Signal.like(gap)
        near = Signal()                     # gap is not zero: banks' requests follow from it
        product, behind_product = Signal(), Signal()
        m.d.comb += product.eq(step.op == Op.MULT)
        m.d.sync += [gap.eq(next_gap), near.eq(next_gap.any())]
        with m.If(fetched & step.last):
            m.d.comb += next_gap.eq(Mux(step.scaled, turns, 0))
            m.d.sync += behind_product.eq(step.scaled & product)
        with m.Elif(near):
            m.d.comb += next_gap.eq(gap - 1)
        with m.Else():
            m.d.sync += behind_product.eq(0)
        return step.scaled & ((step.last & near) | (behind_product & ~product))
