# SPDX-License-Identifier: Apache-2.0
"""Sums of one output channel in DSP blocks at twice the clock: two products a half of a cycle.

Pixels ``4 k`` and ``4 k + 1`` have the first half of a cycle, ``4 k + 2`` and ``4 k + 3`` the
second one. Their weight is the same, so inputs alone take turns, once for all output channels.

Cycles of the doubled clock, 0 being the first half of the cycle with a step's operands in their
registers, ``n`` the length of a cascade, for the first pixels; the others come one later:

======================= =================================================
1                       inputs have taken turns
``1 + wait``            at the DSP block of element 0; one later at each next one
``4 + n + wait``        the cascade's sum
``5 + n + wait``        unpacked
``6 + n + wait``        sums of all cascades
``7 + n + wait``        added to those of earlier steps
======================= =================================================

The last one has to be a cycle's first half, :func:`opendpu_arch.latency.conv_sum` cycles after 0;
:func:`wait` follows from that.
"""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import latency
from opendpu_hw.datapath.accumulators import SUM_WIDTH, sum_members
from opendpu_hw.datapath.cascades import (
    accumulated,
    dot_products,
    fill_members,
    joined,
    joined_registers,
    unpack,
)
from opendpu_hw.datapath.packed_multiply import FIELD
from opendpu_hw.double_rate import DOMAIN


def wait(target):
    """Return how many cycles of the doubled clock inputs wait, so that all forms keep time."""
    return 2 * latency.conv_sum(target) - 7 - latency.cascade_length(target)


def _weight_delay(target, place):
    """Return the cycles that the weight of an element waits, and whether it is late even so.

    It stays for a cycle of the DPU's clock. Where an element's products begin in the second half of
    one, the weight comes half a cycle late, which a register less in the DSP block makes up for.
    """
    halves = 1 + wait(target) + place
    return (halves + 1) // 2, bool(halves % 2)


def weights_late(target):
    """Return how many cycles later than inputs weights are wanted."""
    return _weight_delay(target, 0)[0]


class DoubleRateOperands(wiring.Component):
    """Inputs of all lanes: pixels take turns, elements come later by their place in a cascade.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP and ICP.
    fills : :class:`bool`
        Whether there are ``filled`` and ``fill``.

    Members
    -------
    i : ``In(signed(8)).array(PP, ICP)``
        Inputs, in registers of the DPU's clock.
    second : ``In(1)``
        See :class:`opendpu_hw.double_rate.Phase`.
    o : ``Out(signed(8)).array(PP / 2, ICP)``
        Two pixels each for :class:`DoubleRateCascades`: those of ``low`` fields, then of ``high``
        ones.
    filled, fill : ``In(PP)``, ``In(signed(8))``
        The rows whose inputs, all zero, become ``fill``.
    """

    def __init__(self, target, *, fills=False):
        self._target, self._fills = target, fills
        inputs = target.input_channel_parallel
        super().__init__({
            "i": In(signed(8)).array(target.pixel_parallel, inputs), "second": In(1),
            "o": Out(signed(8)).array(target.pixel_parallel // 2, inputs),
            **(fill_members(target.pixel_parallel) if fills else {}),
        })

    def elaborate(self, platform):
        m = Module()
        length, first = latency.cascade_length(self._target), wait(self._target)
        for row in range(self._target.pixel_parallel // 2):
            pixel = 4 * (row // 2) + row % 2
            for i in range(self._target.input_channel_parallel):
                value = Mux(self.second, self.i[pixel + 2][i], self.i[pixel][i])
                if self._fills:         # all of it six inputs: a LUT a bit, as without
                    filled = Mux(self.second, self.filled[pixel + 2], self.filled[pixel])
                    value = value | Mux(filled, self.fill, 0)
                for n in range(1 + first + i % length):
                    late = Signal(signed(8), name=f"late{row}_{i}_{n}", reset_less=True)
                    m.d[DOMAIN] += late.eq(value)
                    value = late
                m.d.comb += self.o[row][i].eq(value)
        return m


class DoubleRateCascades(wiring.Component):
    """The same as :class:`opendpu_hw.datapath.cascades.Cascades` with half as many DSP blocks.

    Its members differ:

    * ``x`` has PP / 2 rows and comes out of :class:`DoubleRateOperands`;
    * ``w`` comes :func:`weights_late` cycles after a step's inputs are in their registers;
    * ``even`` and ``odd`` have the sums as they come, in registers of the doubled clock: with
      ``take`` those of pixels ``4 k`` and ``4 k + 1``, in that cycle's second half those of the
      next two.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP and ICP.
    vendor : :class:`str` or None
        See :class:`opendpu_hw.datapath.packed_multiply.PackedMultiplyAdd`.
    sums : :class:`bool`
        Whether there are ``take`` and ``sum``.
    """

    def __init__(self, target, *, vendor=None, sums=True):
        self._target, self._vendor, self._sums = target, vendor, sums
        fours = target.pixel_parallel // 4
        members = sum_members(target, operands=2 * fours)
        if not sums:
            del members["take"], members["sum"]
        super().__init__({
            **members, "even": Out(signed(SUM_WIDTH)).array(fours),
            "odd": Out(signed(SUM_WIDTH)).array(fours),
        })

    def elaborate(self, platform):
        m = Module()
        first = Signal(reset_less=True)
        m.d[DOMAIN] += first.eq(self.step & self.first)
        weights = self._weights(m)
        for k in range(self._target.pixel_parallel // 4):
            totals = dot_products(
                m, k, self.x[2 * k], self.x[2 * k + 1], weights, vendor=self._vendor,
                length=latency.cascade_length(self._target), domain=DOMAIN)
            self._accumulate(m, k, first, totals)
        return m

    def _weights(self, m):
        """Return the weights, each when its block wants it, and whether it is late even so."""
        length = latency.cascade_length(self._target)
        weights = []
        for i in range(self._target.input_channel_parallel):
            delay, late = _weight_delay(self._target, i % length)
            value = self.w[i]
            for n in range(delay - weights_late(self._target)):
                later = Signal(signed(8), name=f"w{i}_{n}", reset_less=True)
                m.d.sync += later.eq(value)
                value = later
            weights.append((value, late))
        return weights

    def _accumulate(self, m, k, first, totals):
        """Unpack, add cascades, add up steps in rings of two registers; even sums come out first.

        A step's pixels have the same cycle of the DPU's clock when they are unpacked and added.
        """
        parts = []
        for n, total in enumerate(totals):
            part = [Signal(signed(FIELD + 1), name=f"{name}_field{k}_{n}", reset_less=True)
                    for name in ("low", "high")]
            part.append(Signal(name=f"borrowed{k}_{n}", reset_less=True))
            m.d[DOMAIN] += [to.eq(value) for to, value in zip(part, unpack(total), strict=True)]
            parts.append(part)
        low, high, borrow = joined_registers(f"{k}")
        values = joined(parts)
        for register, value in zip((low, high, borrow), values, strict=True):
            m.d[DOMAIN] += register.eq(Mux(self.step, value, 0))
        rings = []
        for name in ("even", "odd"):
            ring = [Signal(signed(SUM_WIDTH), name=f"{name}{k}_{n}", reset_less=True)
                    for n in range(2)]
            m.d[DOMAIN] += ring[1].eq(ring[0])
            rings.append(ring)
        even, odd = rings
        m.d[DOMAIN] += [
            even[0].eq((Mux(first, 0, even[1]) + low)[:SUM_WIDTH]),
            odd[0].eq(accumulated(odd[1], first, high, borrow)),
        ]
        m.d.comb += [self.even[k].eq(even[0]), self.odd[k].eq(odd[0])]
        if not self._sums:
            return
        for n, pixel in enumerate((4 * k + 2, 4 * k)):
            held = Signal(signed(SUM_WIDTH), name=f"held{pixel + 1}", reset_less=True)
            with m.If(self.take):
                m.d.sync += held.eq(odd[n])
            m.d.comb += [self.sum[pixel].eq(even[n]), self.sum[pixel + 1].eq(held)]
