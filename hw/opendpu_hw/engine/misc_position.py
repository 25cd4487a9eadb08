# SPDX-License-Identifier: Apache-2.0
"""Where the walk of the MISC engine is: groups, columns, kernel columns, kernel rows."""

from amaranth.hdl import Array, Mux, Signal

from opendpu_hw.engine import misc_plan as plan
from opendpu_hw.engine.misc_parameters import POINTER_BITS
from opendpu_hw.engine.misc_plan import Op, Weights


class Position:
    """The job that is walked over, where in it the walk is, and what the next step is.

    Attributes
    ----------
    p, running : ``Signal(walk_shape)``, ``Signal()``
        The job, and whether there is one.
    step, take : ``Signal()``
        The walk goes on to the next step, or begins the job ``new`` that is offered.
    first, last_tap, last_step : ``Signal()``
        This step begins or ends a sum, or ends the job.
    free : ``Signal()``
        There is no job, or this step ends it.
    compute : ``Signal()``
        This step has products; others only bring rows of a column.
    """

    def __init__(self, target, taps, new):
        self._target, self._taps = target, taps
        a, bb = plan.address_bits(target), plan.bank_bits(target)
        self.new = new                      # what is offered
        self.p = Signal(plan.walk_shape(target), reset_less=True)
        self.running = Signal()
        self.step = Signal()                # goes on to the next step
        self.take = Signal()                # begins what is offered
        self.free = Signal()

        self.group = Signal(8, reset_less=True)
        self.columns_left = Signal(11, reset_less=True)     # output columns after this one
        self.later = Signal(reset_less=True)                # not the first column
        self.column_at = Signal(20)         # input column of the kernel's left edge
        self.kernel_w = Signal(8)           # kernel column, or number of the ELEW input
        self.phase = Signal(8)              # first kernel row of those that are stride_h apart
        self.top = Signal()                 # kernel row 0
        self.rest = Signal(8)               # kernel rows below that of tap 0
        self.row = Signal(14, reset_less=True)          # row of tap 0, padding included
        self.low = Signal(bb)
        self.phase_low = Signal(bb)
        self.wrap = Signal(2)
        self.phase_wrap = Signal(2)
        self.in_bank = Signal(8)
        self.row_offset = Signal(a)
        self.tap_offset = Signal(a)
        # Words from an input's base to those of this column and channel group.
        self.column_offset = Array(Signal(a, name=f"column_offset{i}", reset_less=True)
                                   for i in range(plan.INPUTS))

        # Compared a cycle before: whether this is the last one of its kind, or the first.
        self.last_chunk, self.last_phase, self.last_kernel_w, self.last_column, self.last_group = (
            Signal(reset_less=True, name=f"last_{name}")
            for name in ("chunk", "phase", "kernel_w", "column", "group"))
        # What three of them become, and whether all three are: much logic follows.
        self.next_last_chunk, self.next_last_phase, self.next_last_kernel_w = (
            Signal(name=f"next_last_{name}") for name in ("chunk", "phase", "kernel_w"))
        self.last_tap = Signal(reset_less=True)
        self.needs_bias = Signal(reset_less=True)       # first of a channel group
        self.next_rest = Signal(8)
        self.last_step = Signal()
        self.start, self.again, self.compute, self.first = (
            Signal(name=name) for name in ("start", "again", "compute", "first"))

        # In the ring of weights: the first entry that is kept, and the next step's.
        self.base = Signal(POINTER_BITS)
        self.entry = Signal(POINTER_BITS)
        self.base_next = Signal(POINTER_BITS)
        self.uses_ring = Signal(reset_less=True)
        self.weights_there = Signal()

    def find_ends(self, m):
        """Find out what begins and ends with this step."""
        p = self.p
        m.d.comb += [
            self.last_step.eq(self.last_tap & self.last_column & self.last_group),
            self.start.eq(self.top & (self.kernel_w == 0)),
            self.again.eq(self.later & (self.kernel_w == 1) & (self.phase == 0)),
            self.compute.eq(~p.paired | (self.phase == 1) | self.again),
            self.first.eq(Mux(
                p.paired,
                self.again | (~self.later & (self.kernel_w == 0) & (self.phase == 1)),
                self.start)),
            self.next_last_chunk.eq(self.last_chunk), self.next_last_phase.eq(self.last_phase),
            self.next_last_kernel_w.eq(self.last_kernel_w),
        ]
        m.d.sync += [
            self.last_chunk.eq(self.next_last_chunk), self.last_phase.eq(self.next_last_phase),
            self.last_kernel_w.eq(self.next_last_kernel_w),
            self.last_tap.eq(
                self.next_last_chunk & self.next_last_phase & self.next_last_kernel_w),
        ]
        with m.If(~self.last_chunk):
            m.d.comb += self.next_rest.eq(self.rest - p.stride_step)
        with m.Elif(~self.last_phase):
            m.d.comb += self.next_rest.eq(p.kernel_h_1 + ~self.phase)
        with m.Else():
            m.d.comb += self.next_rest.eq(p.kernel_h_1)

    def advance(self, m):
        """Go on to the next kernel row, the next phase of rows, or past the column's rows."""
        p = self.p
        a, bb = plan.address_bits(self._target), plan.bank_bits(self._target)
        # Two sums, not one of what is chosen: the choice is known late.
        low_next = Signal(bb + 1)
        phase_low_next = Signal(bb + 1)
        m.d.comb += [low_next.eq(self.low + Mux(p.wide, 1, self._taps)),
                     phase_low_next.eq(self.phase_low + 1)]
        m.d.sync += [
            self.rest.eq(self.next_rest), self.top.eq(self.last_chunk & self.last_phase),
            self.needs_bias.eq(p.bias & self.last_tap & self.last_column),
        ]
        m.d.comb += self.next_last_chunk.eq(p.eltwise | (self.next_rest < p.stride_step))
        with m.If(~self.last_chunk):
            m.d.sync += [self.low.eq(low_next[:bb]), self.wrap.eq(self.wrap + low_next[bb]),
                         self.row.eq((self.row + p.stride_step)[:14])]
        with m.Elif(~self.last_phase):
            m.d.comb += self.next_last_phase.eq(self.phase + 1 == p.phases_1)
            m.d.sync += [self.phase.eq(self.phase + 1),
                         self.row.eq((p.row_base + self.phase + 1)[:14])]
            with m.If(self.in_bank + 1 == p.stride_h):
                m.d.sync += [
                    self.in_bank.eq(0), self.row_offset.eq(0), self.low.eq(phase_low_next[:bb]),
                    self.wrap.eq(self.phase_wrap + phase_low_next[bb]),
                    self.phase_low.eq(phase_low_next[:bb]),
                    self.phase_wrap.eq(self.phase_wrap + phase_low_next[bb]),
                ]
            with m.Else():
                m.d.sync += [self.in_bank.eq(self.in_bank + 1),
                             self.row_offset.eq((self.row_offset + p.jump_endl)[:a]),
                             self.low.eq(self.phase_low), self.wrap.eq(self.phase_wrap)]
        with m.Else():
            m.d.comb += self.next_last_phase.eq(p.eltwise | (p.phases_1 == 0))
            m.d.sync += [
                self.phase.eq(0), self.row.eq(p.row_base), self.in_bank.eq(p.in_bank),
                self.row_offset.eq(p.row_offset), self.low.eq(p.low), self.wrap.eq(p.wrap),
                self.phase_low.eq(p.low), self.phase_wrap.eq(p.wrap),
            ]
            self._advance_column(m)

    def _advance_column(self, m):
        """Go on to the next kernel column, the next column, or the next channel group."""
        p, a = self.p, plan.address_bits(self._target)
        last_w = _last_kernel_w(p)
        with m.If(~self.last_tap):
            m.d.comb += self.next_last_kernel_w.eq(self.kernel_w + 1 == last_w)
            m.d.sync += [self.kernel_w.eq(self.kernel_w + 1),
                         self.tap_offset.eq((self.tap_offset + p.jump)[:a])]
        with m.Else():
            with m.If(self.last_column | ~p.sliding):
                m.d.comb += self.next_last_kernel_w.eq(last_w == 0)
                m.d.sync += [self.kernel_w.eq(0), self.tap_offset.eq(0)]
            with m.If(~self.last_column):
                with m.If(p.paired):
                    m.d.comb += self.next_last_kernel_w.eq(last_w == 1)
                    m.d.sync += [self.kernel_w.eq(1), self.tap_offset.eq(p.jump)]
                m.d.sync += [self.columns_left.eq(self.columns_left - 1), self.later.eq(1),
                             self.last_column.eq(self.columns_left == 1),
                             self.column_at.eq(self.column_at + p.stride_w)]
                m.d.sync += [offset.eq((offset + source.jump)[:a])
                             for offset, source in zip(self.column_offset, p.inputs, strict=True)]
            with m.Else():
                m.d.sync += [self.columns_left.eq(p.length_1), self.later.eq(0),
                             self.last_column.eq(p.length_1 == 0),
                             self.column_at.eq(0), self.group.eq(self.group + 1),
                             self.last_group.eq(self.group + 1 == p.groups_1)]
                m.d.sync += [offset.eq(self.group + 1) for offset in self.column_offset]

    def begin(self, m):
        """Begin the job that is offered if it is taken; to be said while ``free``.

        That it is taken is known late, so what is offered is loaded until then.
        """
        new = self.new
        m.d.comb += [
            self.next_last_chunk.eq(new.eltwise | (new.kernel_h_1 < new.stride_step)),
            self.next_last_phase.eq(new.eltwise | (new.phases_1 == 0)),
            self.next_last_kernel_w.eq(_last_kernel_w(new) == 0),
        ]
        m.d.sync += [
            self.p.eq(new), self.running.eq(self.take), self.group.eq(0),
            self.columns_left.eq(new.length_1), self.later.eq(0),
            self.column_at.eq(0), self.kernel_w.eq(0), self.phase.eq(0), self.top.eq(1),
            self.rest.eq(new.kernel_h_1), self.row.eq(new.row_base),
            self.last_column.eq(new.length_1 == 0), self.last_group.eq(new.groups_1 == 0),
            self.needs_bias.eq(new.bias),
            self.uses_ring.eq((new.op == Op.MAC) & (new.weights != Weights.FACTOR)),
            self.in_bank.eq(new.in_bank),
            self.row_offset.eq(new.row_offset), self.tap_offset.eq(0), self.low.eq(new.low),
            self.wrap.eq(new.wrap), self.phase_low.eq(new.low), self.phase_wrap.eq(new.wrap),
        ]
        m.d.sync += [offset.eq(0) for offset in self.column_offset]


def _last_kernel_w(p):
    """The last kernel column of a job, or the number of the last ELEW input."""
    return Mux(p.eltwise, p.inputs_1, p.kernel_w_1)
