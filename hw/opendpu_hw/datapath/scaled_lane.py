# SPDX-License-Identifier: Apache-2.0
"""One output channel's sums through a fixed-point multiplier (extension ``scaled``)."""

import itertools

from amaranth.hdl import Array, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import scaled
from opendpu_arch.extensions import Extension
from opendpu_hw.datapath.fixed_point import FixedPoint
from opendpu_hw.datapath.scaled_steps import steps_shape
from opendpu_hw.memory.record_ram import ChannelRam, RecordWrite


class ScaledLane(wiring.Component):
    """The pixels of a column, one a cycle.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives the extensions.
    lane : :class:`int`
        Which output channel.
    pixels, width : :class:`int`
        Pixels of a column, bits of a sum.
    late : :class:`tuple`
        Pixels whose sums come a cycle later.

    Members
    -------
    sum : ``In(signed(width)).array(pixels)``
        Valid with ``read`` of ``steps``, or a cycle later.
    steps, shift : ``In(steps_shape)``, ``In(5)``
        What :class:`opendpu_hw.datapath.scaled_steps.ScaledSteps` says.
    write : ``In(RecordWrite)``
        SCALE.
    result : ``Out(signed(8))``
        The next result.
    entry : ``In(8)``
        With the extension ``table``: what the result of the cycle before becomes.
    y : ``Out(signed(8)).array(pixels)``
        All results, valid with ``finish``.
    """

    def __init__(self, target, *, lane, pixels, width, late=()):
        self._target, self._lane = target, lane
        self._pixels, self._width, self._late = pixels, width, late
        self._tables = Extension.TABLE in target.extensions
        super().__init__({
            "sum": In(signed(width)).array(pixels),
            "steps": In(steps_shape(target, pixels)), "shift": In(range(scaled.MAX_SHIFT + 1)),
            "write": In(RecordWrite(target)), "result": Out(signed(8)),
            **({"entry": In(8)} if self._tables else {}),
            "y": Out(signed(8)).array(pixels),
        })

    def elaborate(self, platform):
        m = Module()
        steps = self.steps
        m.submodules.record = record = ChannelRam(self._target, self._lane)
        wiring.connect(m, wiring.flipped(self.write), record.write)
        m.d.comb += [record.en.eq(steps.read), record.record.eq(steps.record)]
        bias = Signal(signed(32), reset_less=True)
        waiting, multiplier = (Signal(unsigned(scaled.MULTIPLIER_BITS), name=name, reset_less=True)
                               for name in ("waiting", "multiplier"))
        with m.If(steps.late):
            m.d.sync += [
                bias.eq(record.channel.bias.as_value()),
                waiting.eq(record.channel.multiplier.as_value()[:scaled.MULTIPLIER_BITS])]
        with m.If(steps.multiply):
            m.d.sync += multiplier.eq(waiting)

        # -- sums, late ones last ------------------------------------------------------------------
        early = [p for p in range(self._pixels) if p not in self._late]
        order = [*early, *self._late]
        held = {p: Signal(signed(self._width), name=f"held{p}", reset_less=True) for p in order}
        for those, take in ((early, steps.read), (self._late, steps.late)):
            with m.If(take):
                m.d.sync += [held[p].eq(self.sum[p]) for p in those]

        m.submodules.scale = scale = FixedPoint(width=self._width)
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
