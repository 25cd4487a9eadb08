# SPDX-License-Identifier: Apache-2.0
"""One output channel of the convolution array: sums of PP pixels, and their requantization."""

from amaranth.hdl import Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import scaled
from opendpu_arch.extensions import Extension
from opendpu_arch.latency import CONV_WRITE
from opendpu_arch.numerics import MAX_SHIFT_BIAS
from opendpu_hw.datapath.accumulators import SUM_WIDTH, Accumulators, sum_members
from opendpu_hw.datapath.cascades import Cascades
from opendpu_hw.datapath.double_cascades import DoubleRateCascades
from opendpu_hw.datapath.double_leaky import DoubleRateLeaky
from opendpu_hw.datapath.requantize import (
    BIASED_WIDTH,
    CUT_SHAPE,
    SHIFT_WIDTH,
    Requantizer,
    scale_of,
    scale_shape,
)
from opendpu_hw.datapath.scaled_lane import ScaledLane
from opendpu_hw.datapath.scaled_steps import steps_shape
from opendpu_hw.memory.record_ram import RecordWrite
from opendpu_hw.memory.table_ram import SELECT_BITS, TableRam, TableWrite


def _scaled_members(target):
    return {"records": In(RecordWrite(target)),
            "steps": In(steps_shape(target, target.pixel_parallel)),
            "fixed_shift": In(range(scaled.MAX_SHIFT + 1))}


class Lane(wiring.Component):
    """PP pixels of one output channel.

    Two pixels share a requantizer: the even ones' sums go through it first, the odd ones' a cycle
    later. Equal to :func:`opendpu_arch.numerics.conv_requantize` while the sum fits 31 bits, which
    every kernel that fits the weight banks does.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP and ICP, and whether there is LEAKYRELU.
    vendor : :class:`str` or None
        ``xilinx``: with :class:`opendpu_hw.datapath.cascades.Cascades` of DSP48E2. Otherwise with
        :class:`opendpu_hw.datapath.accumulators.Accumulators`, for ``ecp5`` with registers.
    double_rate : :class:`bool`
        For ``xilinx``: with :class:`opendpu_hw.datapath.double_cascades.DoubleRateCascades`.
    leaky_blocks : :class:`bool`
        Whether LEAKYRELU's factor is in DSP blocks. With ``double_rate`` these add the bias, too.
    number : :class:`int`
        Which output channel; matters with the extension ``scaled`` only.

    Members
    -------
    x, w, step, first, complete
        See :func:`opendpu_hw.datapath.accumulators.sum_members`.
    enter : ``In(1)``
        For ``xilinx``, but not with ``double_rate``: ``w`` is a step's.
    column : ``In(8)``
        Bit ``n`` is high ``n`` cycles after a column's sums are complete.
    bias, shift_bias, prepare : ``In(signed(8))``, ``In(6)``, ``In(1)``
        With ``prepare``, what the columns from the next cycle on have as bias.
    scale, act : ``In(scale_shape)``, ``In(4)``
        Valid with bits 2 and 3, and with bits 5 and 6, of ``column``.
    leaky : ``In(1)``
        Whether it is LEAKYRELU, valid with bits 1 and 2 of ``column``; with ``double_rate``, valid
        with ``prepare``.
    y : ``Out(signed(8)).array(PP)``
        Results, from the cycle after bit 7 until the next column's.
    tables, table, late : ``In(TableWrite)``, ``In(4)``, ``In(1)``
        With the extension ``table``: the table, valid with bits 6 and 7 of ``column``, and a pulse
        a cycle after bit 7 if there is one; results come that cycle later then.
    shifts, cut : ``In(8)``, ``In(CUT_SHAPE)``
        With the extension ``channel``: this channel's shifts, valid with ``prepare``, and what the
        low four bits add to, valid with bit 1 of ``column``; ``scale`` is not looked at then.
    records, steps, fixed_shift : ``In(RecordWrite)``, ``In(steps_shape)``, ``In(5)``
        With the extension ``scaled``: SCALE, and what
        :class:`opendpu_hw.datapath.scaled_steps.ScaledSteps` says.
    """

    def __init__(self, target, *, vendor=None, double_rate=False, leaky_blocks=False, number=0):
        self._target, self._vendor, self._number = target, vendor, number
        self._double_rate = double_rate
        self._leaky_blocks = leaky_blocks and target.conv_leaky_relu
        self._double_leaky = double_rate and self._leaky_blocks
        self._scaled = Extension.SCALED in target.extensions
        self._tables = Extension.TABLE in target.extensions
        self._channels = Extension.CHANNEL in target.extensions
        members = sum_members(
            target, operands=target.pixel_parallel // 2 if double_rate else None)
        for name in ("take", "sum"):
            del members[name]
        super().__init__({
            **members, "column": In(CONV_WRITE),
            "bias": In(signed(8)), "shift_bias": In(SHIFT_WIDTH), "prepare": In(1),
            "scale": In(scale_shape), "act": In(unsigned(4)),
            "leaky": In(1),
            **({"enter": In(1)} if vendor == "xilinx" and not double_rate else {}),
            "y": Out(signed(8)).array(target.pixel_parallel),
            **({"tables": In(TableWrite()), "table": In(SELECT_BITS), "late": In(1)}
               if self._tables else {}),
            **({"shifts": In(8), "cut": In(CUT_SHAPE)} if self._channels else {}),
            **(_scaled_members(target) if self._scaled else {}),
        })

    def elaborate(self, platform):
        m = Module()
        sums = self._connect_sums(m)
        offset, scale = self._offset_and_scale(m)
        fixed = self._fixed_point(m, sums) if self._scaled else None
        stage = self.column[:Requantizer.STAGES] | self.column[1:Requantizer.STAGES + 1]
        products = self._products(m, sums, offset, stage) if self._double_leaky else None
        for j in range(self._target.pixel_parallel // 2):
            m.submodules[f"requantizer{j}"] = requantizer = Requantizer(
                leaky=self._target.conv_leaky_relu, block=self._leaky_blocks,
                vendor=self._vendor, double_rate=self._double_leaky)
            y = [Signal(signed(8), name=f"y{p}", reset_less=True) for p in (2 * j, 2 * j + 1)]
            if products:
                product, negative = products[j]
                m.d.comb += [requantizer.product.eq(product), requantizer.negative.eq(negative)]
            else:
                m.d.comb += [
                    requantizer.sum[0].eq(sums.sum[2 * j]),
                    requantizer.sum[1].eq(sums.sum[2 * j + 1]),
                    requantizer.odd.eq(self.column[1]), requantizer.offset.eq(offset),
                ]
            m.d.comb += [
                requantizer.stage.eq(stage),
                requantizer.scale.eq(scale), requantizer.act.eq(self.act),
                self.y[2 * j].eq(y[0]), self.y[2 * j + 1].eq(y[1]),
            ]
            if hasattr(requantizer, "early_leaky"):
                m.d.comb += requantizer.early_leaky.eq(self.leaky)
            self._keep_results(m, j, requantizer, fixed, y)
        return m

    def _connect_sums(self, m):
        """Build the sums and feed them."""
        inputs = self._target.input_channel_parallel
        m.submodules.sums = sums = self._sums()
        m.d.comb += [
            *(sums.x[p][i].eq(row[i]) for p, row in enumerate(self.x) for i in range(inputs)),
            *(sums.w[i].eq(self.w[i]) for i in range(inputs)),
            sums.step.eq(self.step), sums.first.eq(self.first), sums.complete.eq(self.complete),
        ]
        if hasattr(sums, "enter"):
            m.d.comb += sums.enter.eq(self.enter)
        if hasattr(sums, "take"):
            m.d.comb += sums.take.eq(self.column[0])
        return sums

    def _sums(self):
        """Return what makes the sums on this vendor's devices."""
        if self._vendor != "xilinx":
            return Accumulators(self._target, registered=self._vendor == "ecp5")
        if self._double_rate:
            return DoubleRateCascades(
                self._target, vendor=self._vendor, sums=self._scaled or not self._double_leaky)
        return Cascades(self._target, vendor=self._vendor)

    def _offset_and_scale(self, m):
        """Return bias · 2^shift_bias, from the cycle after ``prepare``, and the scale."""
        offset = Signal(signed(BIASED_WIDTH), reset_less=True)
        shift_bias, scale = self.shift_bias, self.scale
        if self._channels:
            shift_bias, scale = self._own_shifts(m)
        with m.If(self.prepare):
            m.d.sync += offset.eq((self.bias << shift_bias)[:BIASED_WIDTH].as_signed())
        return offset, scale

    def _keep_results(self, m, j, requantizer, fixed, y):
        """Keep the results of two pixels in ``y`` until the next column's.

        The even one waits for the odd one, and both for their entries if there is a table.
        """
        stages = Requantizer.STAGES
        even = Signal(signed(8), name=f"even{j}", reset_less=True)
        with m.If(self.column[stages]):
            m.d.sync += even.eq(requantizer.y)
        last = self.column[stages + 1]
        if self._scaled:
            last = last & ~self.steps.skip
            with m.If(self.steps.finish):
                m.d.sync += [y[0].eq(fixed.y[2 * j]), y[1].eq(fixed.y[2 * j + 1])]
        if not self._tables:
            with m.If(last):
                m.d.sync += [y[0].eq(even), y[1].eq(requantizer.y)]
            return
        tabled = self.table != 0
        ram = self._table(m, j, requantizer, fixed, tabled)
        with m.If(last):
            with m.If(tabled):
                m.d.sync += even.eq(ram.entry)
            with m.Else():
                m.d.sync += [y[0].eq(even), y[1].eq(requantizer.y)]
        with m.If(self.late):
            m.d.sync += [y[0].eq(even), y[1].eq(ram.entry)]

    def _table(self, m, j, requantizer, fixed, tabled):
        """Look up the results of two pixels; the multiplier's results share the first table."""
        stages = Requantizer.STAGES
        m.submodules[f"table{j}"] = ram = TableRam()
        wiring.connect(m, wiring.flipped(self.tables), ram.write)
        m.d.comb += [
            ram.en.eq(tabled & (self.column[stages] | self.column[stages + 1])),
            ram.table.eq(self.table), ram.index.eq(requantizer.y),
        ]
        if self._scaled and j == 0:
            with m.If(self.steps.look_up):
                m.d.comb += [ram.en.eq(1), ram.table.eq(self.steps.table),
                             ram.index.eq(fixed.result)]
            m.d.comb += fixed.entry.eq(ram.entry)
        return ram

    def _products(self, m, sums, offset, stage):
        """Return, by pixel pair, what requantizers begin with, and its sign."""
        leaky = Signal(name="leaky_then", reset_less=True)
        with m.If(self.prepare):
            m.d.sync += leaky.eq(self.leaky)
        products = []
        for k, (even, odd) in enumerate(zip(sums.even, sums.odd, strict=True)):
            m.submodules[f"leaky{k}"] = block = DoubleRateLeaky(vendor=self._vendor)
            m.d.comb += [
                block.even.eq(even), block.odd.eq(odd), block.second_turn.eq(self.column[1]),
                block.offset.eq(offset), block.leaky.eq(leaky), block.stage.eq(stage[:3]),
            ]
            products += zip(block.product, block.negative, strict=True)
        return products

    def _fixed_point(self, m, sums):
        """Return this channel's multiplier at work."""
        pixels = self._target.pixel_parallel
        m.submodules.fixed_point = fixed = ScaledLane(
            self._target, lane=self._number, pixels=pixels, width=SUM_WIDTH,
            late=tuple(range(1, pixels, 2)), vendor=self._vendor)
        wiring.connect(m, wiring.flipped(self.records), fixed.write)
        m.d.comb += [
            fixed.steps.eq(self.steps), fixed.shift.eq(self.fixed_shift),
            *(fixed.sum[p].eq(sums.sum[p]) for p in range(pixels)),
        ]
        return fixed

    def _own_shifts(self, m):
        """Return this channel's ``shift_bias``, and its scale, valid with bits 2 and 3."""
        cut = Signal(4, reset_less=True)
        with m.If(self.prepare):
            m.d.sync += cut.eq(self.shifts[:4])
        left = Signal(SHIFT_WIDTH + 1)
        m.d.comb += left.eq(self.shift_bias + self.shifts[4:])
        shift_bias = Mux(left > MAX_SHIFT_BIAS, MAX_SHIFT_BIAS, left)[:SHIFT_WIDTH]
        scale = Signal(scale_shape, name="own_scale", reset_less=True)
        with m.If(self.column[1]):
            m.d.sync += scale.eq(scale_of(self.cut.shift_cut + cut, self.cut.act))
        return shift_bias, scale
