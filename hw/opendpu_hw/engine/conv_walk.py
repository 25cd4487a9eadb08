# SPDX-License-Identifier: Apache-2.0
"""The walk of the CONV engine: channel group, kernel column, kernel row, output column."""

from amaranth.hdl import Array, Mux, Signal, signed
from amaranth.utils import ceil_log2

from opendpu_arch import latency
from opendpu_arch.extensions import Extension
from opendpu_hw.engine.conv_shapes import plan_shape


class ConvWalk:
    """Where in an instruction the array is; a step is one tap of one group of channels.

    Attributes
    ----------
    plan, running : ``Signal(plan_shape)``, ``Signal()``
        The instruction, and whether there is one.
    step : ``Signal()``
        The walk goes on to the next step.
    first_tap, last_tap, last_step : ``Signal()``
        This step begins or ends a column, or ends the instruction.
    free : ``Signal()``
        There is no instruction, or this step ends it.
    """

    def __init__(self, target):
        self._target = target
        self._tables = Extension.TABLE in target.extensions
        self._scaled = Extension.SCALED in target.extensions
        banks, abits = target.pixel_parallel, ceil_log2(target.bank_depth)
        self.plan = Signal(plan_shape(target))
        self.running = Signal()
        self.step = Signal()
        self.last_tap = Signal()
        self.first_tap = Signal()
        self.last_step = Signal()
        self.free = Signal()
        self.column = Signal(10)
        self.tap_h = Signal(4)
        self.tap_w = Signal(4)
        self.group = Signal(8)
        self.low = Signal(range(banks))     # bank of output row 0 at this kernel row
        self.wraps = Signal(2)              # which address group that bank is in
        self.beyond = Signal()              # there is no fifth address group
        self.in_bank = Signal(4)            # row within the bank
        self.row_offset = Signal(abits)
        self.column_offset = Signal(abits)
        self.tap_offset = Signal(abits)
        self.weight_offset = Signal(abits)
        self.pad_left_now = Signal(16)      # columns of padding still to come, clipped at zero
        self.right_rest = Signal(16)        # real columns right of this output column's last tap
        self.last_group = self.group == self.plan.channel_group
        self.last_column = Signal()         # columns end more than a cycle apart

    def find_ends(self, m):
        """Find out what begins and ends with this step, and whether it may be made."""
        plan = self.plan
        gap = Signal(5)
        last_w = self.last_group & (self.tap_w == plan.kernel_w)
        m.d.sync += self.last_column.eq(self.column == plan.length)
        m.d.comb += [
            self.last_tap.eq(last_w & (self.tap_h == plan.kernel_h)),
            self.first_tap.eq((self.tap_h == 0) & (self.tap_w == 0) & (self.group == 0)),
            self.last_step.eq(self.last_tap & self.last_column),
            self.step.eq(self.running & ~(self.last_tap & (gap != 0))),
            self.free.eq(~self.running | (self.step & self.last_step)),
        ]
        turns = plan.stride_out + plan.tabled if self._tables else plan.stride_out
        with m.If(self.step & self.last_tap):
            # What is in it is one less than the distance.
            least = latency.REQUANTIZER_PIXELS - 1
            if self._scaled:
                least = Mux(plan.scaled, self._turns(), least)
            m.d.sync += gap.eq(Mux(turns < least, least, turns))
        with m.Elif(gap != 0):
            m.d.sync += gap.eq(gap - 1)
        if self._scaled:
            behind = self._behind(m, turns)
            with m.If(self.running & self.last_tap & ~plan.scaled & behind):
                m.d.comb += self.step.eq(0)

    def _turns(self):
        """Return the least cycles between columns with multipliers, less one."""
        pixels = self._target.pixel_parallel
        return pixels - 1 + self.plan.tabled if self._tables else pixels - 1

    def _behind(self, m, turns):
        """Return whether a column without multipliers would overtake one with."""
        more = latency.conv_scaled(self._target)
        left = Signal(range(more + 18))
        with m.If(self.step & self.last_tap):
            m.d.sync += left.eq(Mux(self.plan.scaled, turns + more, 0))
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        return left != 0

    def advance(self, m):
        """Go on to the next channel group, or past the last one."""
        with m.If(~self.last_group):
            m.d.sync += self.group.eq(self.group + 1)
        with m.Else():
            m.d.sync += self.group.eq(0)
            with m.If(self.tap_w != self.plan.kernel_w):
                m.d.sync += [
                    self.tap_w.eq(self.tap_w + 1),
                    self.tap_offset.eq(self.tap_offset + self.plan.jump_read),
                ]
            with m.Else():
                m.d.sync += [self.tap_w.eq(0), self.tap_offset.eq(0)]
                with m.If(self.tap_h != self.plan.kernel_h):
                    self._advance_row(m)
                with m.Else():
                    self._advance_column(m)
        m.d.sync += self.weight_offset.eq(Mux(self.last_tap, 0, self.weight_offset + 1))

    def _advance_row(self, m):
        """Go on to the next kernel row."""
        m.d.sync += self.tap_h.eq(self.tap_h + 1)
        with m.If(self.in_bank != self.plan.stride_h):
            m.d.sync += [
                self.in_bank.eq(self.in_bank + 1),
                self.row_offset.eq(self.row_offset + self.plan.jump_read_endl),
            ]
        with m.Else():
            m.d.sync += [self.in_bank.eq(0), self.row_offset.eq(0)]
            with m.If(self.low == self._target.pixel_parallel - 1):
                m.d.sync += [self.low.eq(0), self.wraps.eq(self.wraps + 1)]
                with m.If(self.wraps == 3):
                    m.d.sync += self.beyond.eq(1)
            with m.Else():
                m.d.sync += self.low.eq(self.low + 1)

    def _advance_column(self, m):
        """Go on to the next output column."""
        plan = self.plan
        m.d.sync += [
            self.tap_h.eq(0), self.in_bank.eq(plan.stride_offset_in),
            self.row_offset.eq(plan.row_offset), self.low.eq(plan.bank_in), self.wraps.eq(0),
            self.beyond.eq(0), self.column.eq(self.column + 1),
            self.column_offset.eq(self.column_offset + plan.column_jump),
            self.right_rest.eq(self.right_rest - plan.stride_w - 1),
        ]
        with m.If(self.pad_left_now > plan.stride_w):
            m.d.sync += self.pad_left_now.eq(self.pad_left_now - plan.stride_w - 1)
        with m.Else():
            m.d.sync += self.pad_left_now.eq(0)

    def begin(self, m, new, take):
        """Begin an instruction if there is one to take; to be said while ``free``.

        That one is taken is known late, so what is offered is loaded until then.
        """
        m.d.sync += [
            self.plan.eq(new), self.running.eq(take), self.column.eq(0),
            self.last_column.eq(new.length == 0),
            self.tap_h.eq(0), self.tap_w.eq(0), self.group.eq(0),
            self.low.eq(new.bank_in), self.wraps.eq(0), self.beyond.eq(0),
            self.in_bank.eq(new.stride_offset_in), self.row_offset.eq(new.row_offset),
            self.column_offset.eq(0), self.tap_offset.eq(0), self.weight_offset.eq(0),
            self.pad_left_now.eq(new.pad_left), self.right_rest.eq(new.right_rest),
        ]

    def address(self, m):
        """Stage 1: the step's addresses and padding, in registers; return these."""
        plan, abits = self.plan, ceil_log2(self._target.bank_depth)
        bases = Array([plan.bank_addr_in, plan.bank_addr_in_1, plan.bank_addr_in_2,
                       plan.bank_addr_in_3, 0])
        offset = (self.row_offset + self.column_offset + self.tap_offset + self.group)[:abits]
        base_here = Signal(abits)
        base_next = Signal(abits)
        outside = Signal()
        m.d.comb += [
            base_here.eq(Mux(self.beyond, 0, bases[self.wraps])),
            base_next.eq(Mux(self.beyond, 0, bases[self.wraps + 1])),
            outside.eq((self.tap_w < self.pad_left_now) | (self.tap_w > self.right_rest)),
        ]
        s1 = Addresses(self._target)
        m.d.sync += s1.step.eq(self.step)
        with m.If(self.step):
            m.d.sync += [
                s1.first.eq(self.first_tap), s1.last.eq(self.last_tap), s1.low.eq(self.low),
                s1.here.eq((base_here + offset)[:abits]), s1.next.eq((base_next + offset)[:abits]),
                s1.weight.eq((plan.bank_addr_weights + self.weight_offset)[:abits]),
                s1.group.eq(plan.group_in),
                s1.invalid.eq(Mux(self.last_group, plan.channel_offset, 0)),
            ]
            if self._scaled:
                m.d.sync += s1.zero.eq(plan.zero_in)
            for p in range(self._target.pixel_parallel):
                row = (plan.rows[p] + self.tap_h)
                m.d.sync += s1.pad[p].eq(outside | (row < plan.pad_top)
                                         | (row > plan.bottom_limit))
        return s1


class Addresses:
    """What is asked of the banks, and what is to be known when they answer: registers."""

    def __init__(self, target):
        banks, abits = target.pixel_parallel, ceil_log2(target.bank_depth)
        self.step = Signal(name="s1_step")
        self.first, self.last = Signal(name="s1_first"), Signal(name="s1_last")
        self.low = Signal(range(banks), name="s1_low")
        self.here, self.next = Signal(abits, name="s1_here"), Signal(abits, name="s1_next")
        self.weight = Signal(abits, name="s1_weight")
        self.group = Signal(2, name="s1_group")
        self.pad = Signal(banks, name="s1_pad")
        self.invalid = Signal(5, name="s1_invalid")
        self.zero = Signal(signed(8), name="s1_zero", reset_less=True)
