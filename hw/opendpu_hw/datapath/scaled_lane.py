# SPDX-License-Identifier: Apache-2.0
"""One output channel's sums through a fixed-point multiplier (extension ``scaled``)."""

import functools
import itertools
import operator

from amaranth.hdl import Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import scaled
from opendpu_arch.extensions import Extension
from opendpu_hw.datapath.fixed_point import FixedPoint
from opendpu_hw.datapath.multiplexer import choose
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
    maxima : :class:`bool`
        Whether there are maxima, too.
    late : :class:`tuple`
        Pixels whose sums come a cycle later.
    vendor : :class:`str` or None
        See :class:`opendpu_hw.datapath.fixed_product.FixedProduct`.

    Members
    -------
    sum : ``In(signed(width)).array(pixels)``
        Valid with ``read`` of ``steps``, or a cycle later.
    steps, shift : ``In(steps_shape)``, ``In(5)``
        What :class:`opendpu_hw.datapath.scaled_steps.ScaledSteps` says.
    maximum : ``In(signed(8)).array(pixels)``
        With ``maxima``, valid as ``sum`` is, to which it is added; one of both is zero.
    write : ``In(RecordWrite)``
        SCALE.
    result : ``Out(signed(8))``
        The next result.
    entry : ``In(8)``
        With the extension ``table``: what the result of the cycle before becomes.
    y : ``Out(signed(8)).array(pixels)``
        All results, valid with ``finish``.
    """

    def __init__(self, target, *, lane, pixels, width, maxima=False, late=(), vendor=None):
        self._target, self._lane = target, lane
        self._pixels, self._width, self._late = pixels, width, late
        self._maxima, self._vendor = maxima, vendor
        self._tables = Extension.TABLE in target.extensions
        super().__init__({
            "sum": In(signed(width)).array(pixels),
            "steps": In(steps_shape(target, pixels)), "shift": In(range(scaled.MAX_SHIFT + 1)),
            "write": In(RecordWrite(target)), "result": Out(signed(8)),
            **({"maximum": In(signed(8)).array(pixels)} if maxima else {}),
            **({"entry": In(8)} if self._tables else {}),
            "y": Out(signed(8)).array(pixels),
        })

    def elaborate(self, platform):
        m = Module()
        steps = self.steps
        m.submodules.channel_ram = record = ChannelRam(self._target, self._lane)
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
        kinds = [("sum", self.sum), *([("maximum", self.maximum)] if self._maxima else [])]
        values = []         # of what there is, all but one are zero
        for name, sums in kinds:
            held = {p: Signal.like(sums[p], name=f"{name}{p}", reset_less=True) for p in order}
            for those, take in ((early, steps.read), (self._late, steps.late)):
                with m.If(take):
                    m.d.sync += [held[p].eq(sums[p]) for p in those]
            values.append([held[p] for p in order])

        scale = self._scale(m, values)
        m.d.comb += [
            scale.bias.eq(bias),
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

    def _scale(self, m, values):
        """Return the multiplier, whose adder has the last choice; ``values`` are those by kind.

        Four ways of a choice are a LUT of six inputs a bit. Fewer are one with what follows.
        """
        select, ways = self.steps.select, 4
        halves = len(values) == 1 and self._pixels > ways
        if halves:
            parts = [choose(select[:2], values[0][:ways]), choose(select[:2], values[0][ways:])]
        else:
            parts = [choose(select, held) for held in values]
            if self._pixels < ways:
                parts = [functools.reduce(operator.or_, parts)]
        m.submodules.scale = scale = FixedPoint(
            width=self._width, parts=len(parts), halves=halves, vendor=self._vendor)
        m.d.comb += [scale.sum[n].eq(part) for n, part in enumerate(parts)]
        if halves:
            m.d.comb += scale.second.eq(select[2])
        return scale
