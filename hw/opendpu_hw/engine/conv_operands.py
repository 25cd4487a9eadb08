# SPDX-License-Identifier: Apache-2.0
"""Operands of the CONV engine: what the banks are asked, and what becomes of their words."""

from amaranth.hdl import Cat, Mux, Signal, signed
from amaranth.lib import data

from opendpu_arch import latency
from opendpu_arch.extensions import Extension
from opendpu_hw.datapath.multiplexer import Multiplexers, choose


class ConvOperands:
    """Inputs of a step in registers, a row a pixel, and which of its weights count.

    Padding is zero, or the zero point. Channels that do not count have inputs as any other; their
    weights are to be zero, which is one choice a channel and not one for each pixel of it.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        PP, ICP, and whether there are zero points.
    filled_late : list of int
        Channels whose padding is zero here, because registers behind these make the zero point of
        it.

    Attributes
    ----------
    reading : list of ``Signal()``
        Element ``n``: the banks were asked for a step's words ``n`` cycles ago; the last one: here
        they are.
    lanes : ``Signal(ICP)``
        Which channels count, valid with the weights that belong to the words.
    step, first, last : ``Signal()``
        Inputs are a step's; it begins or ends a column. These are a cycle after the words, and so
        is all below.
    x : lists of ``Signal(signed(8))``
        Inputs, by row and channel.
    padding, zero : ``Signal(PP)``, ``Signal(signed(8))``
        With ``filled_late``: the rows that are padding, the zero point.
    """

    def __init__(self, target, *, filled_late):
        self._target, self._filled_late = target, filled_late
        self._scaled = Extension.SCALED in target.extensions
        rows, inputs = target.pixel_parallel, target.input_channel_parallel
        self.reading, self.lanes = [], None
        self.step = Signal(name="s3_step")
        self.first, self.last = Signal(name="s3_first"), Signal(name="s3_last")
        self.x = [[Signal(signed(8), name=f"x{p}_{i}", reset_less=True) for i in range(inputs)]
                  for p in range(rows)]
        self.padding = Signal(rows, name="s3_pad", reset_less=True)
        self.zero = Signal(signed(8), name="s3_zero", reset_less=True)

    def connect(self, m, read, s1):
        """Ask the banks for a step's words, and make operands of these."""
        known = self._read_banks(m, read, s1)
        self.lanes = known.lanes
        self._load(m, self._rotated(m, read, known), known)

    def _read_banks(self, m, read, s1):
        """Stage 2: ask the banks; return what is known of the step whose words are there."""
        banks, inputs = self._target.pixel_parallel, self._target.input_channel_parallel
        m.d.comb += [
            read.en.eq(s1.step), read.group.eq(s1.group), read.turn.eq(s1.low[0]),
            read.weight_addr.eq(s1.weight),
        ]
        for b in range(banks):
            m.d.comb += read.addr[b].eq(Mux(b < s1.low, s1.next, s1.here))
        known = data.StructLayout({
            "first": 1, "last": 1, "low": range(banks), "pad": banks, "lanes": inputs,
            **({"zero": signed(8)} if self._scaled else {})})
        s2 = Signal(known, name="s1")
        m.d.comb += [
            s2.first.eq(s1.first), s2.last.eq(s1.last), s2.low.eq(s1.low), s2.pad.eq(s1.pad),
            s2.lanes.eq(Cat(i + s1.invalid < inputs for i in range(inputs))),
        ]
        if self._scaled:
            m.d.comb += s2.zero.eq(s1.zero)
        self.reading.append(s1.step)
        for n in range(latency.BANK_READ):
            later_step = Signal(name=f"s2_step_{n}")
            later = Signal(known, name=f"s2_{n}", reset_less=True)
            m.d.sync += later_step.eq(self.reading[-1])
            with m.If(self.reading[-1]):
                m.d.sync += later.eq(s2)
            self.reading.append(later_step)
            s2 = later
        return s2

    def _rotated(self, m, read, known):
        """Return the word of each row, row p from bank low + p; the lowest bit of that is done."""
        banks = self._target.pixel_parallel
        if banks == 2:
            return read.data
        if banks == 4 and self._scaled:         # a LUT has both, these two ways and padding
            return [choose(known.low[1:], [read.data[(p + low) % banks] for low in (0, 2)])
                    for p in range(banks)]
        m.submodules.rotated = multiplexers = Multiplexers(
            width=8 * self._target.input_channel_parallel,
            ways=[[(p + low) % banks for low in range(0, banks, 2)] for p in range(banks)])
        m.d.comb += [
            multiplexers.index.eq(known.low[1:]),
            *(i.eq(word) for i, word in zip(multiplexers.i, read.data, strict=True)),
        ]
        return multiplexers.o

    def _load(self, m, words, known):
        """Stage 3: registers of operands."""
        m.d.sync += self.step.eq(self.reading[-1])
        with m.If(self.reading[-1]):
            m.d.sync += [self.first.eq(known.first), self.last.eq(known.last)]
            if self._filled_late:
                m.d.sync += [self.padding.eq(known.pad), self.zero.eq(known.zero)]
            for p, row in enumerate(self.x):
                for i, x in enumerate(row):
                    zero = known.zero if self._scaled and i not in self._filled_late else 0
                    byte = words[p][8 * i:8 * i + 8].as_signed()
                    m.d.sync += x.eq(Mux(known.pad[p], zero, byte))
