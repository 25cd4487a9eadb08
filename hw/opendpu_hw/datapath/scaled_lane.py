# SPDX-License-Identifier: Apache-2.0
"""One output channel's sums through a fixed-point multiplier (extension ``scaled``)."""

import itertools

from amaranth.hdl import Array, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import scaled
from opendpu_arch.extensions import Extension
from opendpu_hw.datapath.accumulators import SUM_WIDTH
from opendpu_hw.datapath.fixed_point import FixedPoint
from opendpu_hw.engine.conv_scaled import steps_shape
from opendpu_hw.memory.record_ram import ChannelRam, RecordWrite


class ScaledLane(wiring.Component):
    """The PP pixels of a column, one a cycle.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP.
    lane : :class:`int`
        Which output channel.

    Members
    -------
    sum : ``In(signed(SUM_WIDTH)).array(PP)``
        Even sums, and those of the odd pixels a cycle later.
    steps, shift : ``In(steps_shape)``, ``In(5)``
        What :class:`opendpu_hw.engine.conv_scaled.ConvScaled` says.
    write : ``In(RecordWrite)``
        SCALE.
    result : ``Out(signed(8))``
        The next result.
    entry : ``In(8)``
        With the extension ``table``: what the result of the cycle before becomes.
    y : ``Out(signed(8)).array(PP)``
        All results, valid with ``finish``.
    """

    def __init__(self, target, *, lane):
        self._target, self._lane = target, lane
        self._tables = Extension.TABLE in target.extensions
        pixels = target.pixel_parallel
        super().__init__({
            "sum": In(signed(SUM_WIDTH)).array(pixels),
            "steps": In(steps_shape(target)), "shift": In(range(scaled.MAX_SHIFT + 1)),
            "write": In(RecordWrite(target)), "result": Out(signed(8)),
            **({"entry": In(8)} if self._tables else {}),
            "y": Out(signed(8)).array(pixels),
        })

    def elaborate(self, platform):
        m = Module()
        pixels, steps = self._target.pixel_parallel, self.steps
        m.submodules.record = record = ChannelRam(self._target, self._lane)
        wiring.connect(m, wiring.flipped(self.write), record.write)
        m.d.comb += [record.en.eq(steps.read), record.record.eq(steps.record)]
        bias = Signal(signed(32), reset_less=True)
        waiting, multiplier = (Signal(unsigned(scaled.MULTIPLIER_BITS), name=name, reset_less=True)
                               for name in ("waiting", "multiplier"))
        with m.If(steps.hold.odd):
            m.d.sync += [
                bias.eq(record.channel.bias.as_value()),
                waiting.eq(record.channel.multiplier.as_value()[:scaled.MULTIPLIER_BITS])]
        with m.If(steps.hold.multiplier):
            m.d.sync += multiplier.eq(waiting)

        # -- sums, even ones first -----------------------------------------------------------------
        order = [*range(0, pixels, 2), *range(1, pixels, 2)]
        held = {p: Signal(signed(SUM_WIDTH), name=f"held{p}", reset_less=True) for p in order}
        for odd, take in enumerate((steps.hold.even, steps.hold.odd)):
            with m.If(take):
                m.d.sync += [held[p].eq(self.sum[p]) for p in range(odd, pixels, 2)]

        m.submodules.scale = scale = FixedPoint(width=SUM_WIDTH)
        m.d.comb += [
            scale.sum.eq(Array(held[p] for p in order)[steps.select]), scale.bias.eq(bias),
            scale.multiplier.eq(multiplier), scale.shift.eq(self.shift),
            scale.once.eq(steps.once), scale.zero.eq(steps.zero), scale.low.eq(steps.low),
            scale.high.eq(steps.high),
            self.result.eq(scale.y),
        ]

        # -- results, the first one moves on with every other --------------------------------------
        newest = scale.y
        if self._tables:
            newest = Mux(steps.table != 0, self.entry, scale.y)
        for p, after in itertools.pairwise(order):
            gathered = Signal(signed(8), name=f"gathered{p}", reset_less=True)
            m.d.comb += self.y[p].eq(gathered)
            with m.If(steps.gather):
                m.d.sync += gathered.eq(self.y[after])
        m.d.comb += self.y[order[-1]].eq(newest)
        return m
