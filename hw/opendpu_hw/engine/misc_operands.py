# SPDX-License-Identifier: Apache-2.0
"""Stage 3 of the MISC engine: the inputs and weights of a step, in registers."""

from amaranth.hdl import Cat, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.utils import ceil_log2

from opendpu_arch.extensions import Extension
from opendpu_hw.datapath.eltwise import TERM_WIDTH
from opendpu_hw.datapath.multiplexer import Multiplexers, choose
from opendpu_hw.datapath.pool import LOWEST
from opendpu_hw.datapath.scaled_terms import ScaledTerms
from opendpu_hw.engine.misc_plan import Op, Weights
from opendpu_hw.engine.misc_walk import step_shape

#: Ways of a multiplexer of one LUT of six inputs a bit.
_WAYS = 4


class Operands:
    """Registers of a step's operands; :meth:`capture` fills them.

    Attributes
    ----------
    x : list of lists of ``Value(signed(8))``
        Inputs by position (see :func:`opendpu_hw.engine.misc_walk.step_shape`) and channel; those
        of ELEW only as ``terms``.
    terms : list of lists of ``Signal(signed(10))``
        Inputs of the first tap by output row and channel: four times as much, shifted right by the
        multiple of four in the step's ``shift``. The rest of the shift is left to do.
    scaled_terms : list of lists of ``Value(signed(32))``
        With the extension ``scaled``: terms of ELEW's inputs by output row and channel.
    even, odd : list of lists of ``Signal(signed(8))``
        The last complete column of a 3x3 kernel with stride 2: its even and odd rows.
    w : list of lists of ``Signal``
        Weights by tap and channel; those of the first tap have 16 bits.
    before : list of lists of lists of ``Signal(signed(8))``
        Weights of the first and second column of a 3 wide kernel, with ``window``; ``w`` has the
        third.
    step, valid : ``Signal(step_shape)``, ``Signal()``
        What is known of the step, and whether there is one to compute.
    early : ``Signal()``
        It slides and has the weights of the kernel's first or second column.
    """

    def __init__(self, target, *, taps, window):
        self._target, self._taps = target, taps
        rows, lanes = target.alu_pixel_parallel, target.channel_parallel

        def bytes_of(name, count):
            return [[Signal(signed(8), name=f"{name}{q}_{c}", reset_less=True)
                     for c in range(lanes)] for q in range(count)]

        pairs = rows if taps >= 3 else 0
        self.terms = [[Signal(signed(TERM_WIDTH), name=f"x{q}_{c}", reset_less=True)
                       for c in range(lanes)] for q in range(rows)]
        self.x = [
            *([term[2:].as_signed() for term in row] for row in self.terms),
            *bytes_of("x", rows + taps - 1)[rows:],
        ]
        self.even = bytes_of("even", pairs and pairs + 1)
        self.odd = bytes_of("odd", pairs)
        # Where there are weights of more than a byte, a step has one tap.
        self.w = [[Signal(signed(8 if t else 16), name=f"w{t}_{c}", reset_less=True)
                   for c in range(lanes)] for t in range(taps)]
        self.before = [bytes_of(f"w{k}_", 3) for k in range(2 if window else 0)]
        self.step = Signal(step_shape(target, taps), name="s3", reset_less=True)
        self.valid, self.early = Signal(name="s3_valid"), Signal(name="s3_early")

    def input(self, tap, row, channel):
        """Return what a tap of an output row multiplies."""
        x = self.x[row + tap][channel]
        if not self.odd or tap >= 3:        # more than three taps never have a kept column
            return x
        kept = (self.even[row], self.odd[row], self.even[row + 1])
        return Mux(self.step.paired, kept[tap][channel], x)

    def term(self, row, channel):
        """Return the same of the first tap, with the two bits that ``terms`` have more."""
        return Cat(self.terms[row][channel][:2], self.input(0, row, channel)).as_signed()

    def capture(self, m, walk, bank_data, words, term_write=None):
        """Take the walk's step, the words of the image banks, and those of the weights.

        With the extension ``scaled``, ``term_write`` writes TERM.
        """
        s2 = walk.step
        m.d.sync += [
            self.valid.eq(walk.step_valid & s2.compute),
            self.early.eq(walk.step_valid & s2.compute & s2.sliding & ~s2.slot[1]),
        ]
        inputs = self._inputs(m, s2, bank_data)
        if term_write is not None:
            self._look_up(m, s2, walk.step_valid, inputs, term_write)
        with m.If(walk.step_valid):
            m.d.sync += self.step.eq(s2)
            self._capture_inputs(m, s2, inputs)
        with m.If(walk.step_valid & s2.compute & (s2.op == Op.MAC)):
            self._capture_weights(m, s2, words)

    def _look_up(self, m, s2, valid, inputs, write):
        """Read terms while their inputs are captured, so that both are there at once."""
        m.submodules.scaled_terms = terms = ScaledTerms(self._target)
        wiring.connect(m, wiring.flipped(write), terms.write)
        is_eltwise = (s2.op == Op.ADD) | (s2.op == Op.MULT)
        m.d.comb += [
            terms.step.eq(valid & s2.compute & s2.scaled & is_eltwise),
            terms.slot.eq(s2.term),
            *(terms.x[h][c].eq(operand) for h, row in enumerate(inputs[:len(terms.x)])
              for c, operand in enumerate(row)),
        ]
        self.scaled_terms = terms.term

    def _inputs(self, m, s2, bank_data):
        """Return the inputs of each position by channel, padding included."""
        lanes = self._target.channel_parallel
        fill = Signal(signed(8))
        m.d.comb += fill.eq(Mux(s2.op == Op.MAX, LOWEST, 0))
        lane_there = Signal(lanes)
        m.d.comb += lane_there.eq(Cat(c + s2.invalid < lanes for c in range(lanes)))
        fills = [fill] * lanes
        if Extension.SCALED in self._target.extensions:
            zero = Mux(s2.op == Op.MAC, s2.zero, fill)
            for c in range(lanes):
                fills[c] = Signal(signed(8), name=f"fill{c}")
                m.d.comb += fills[c].eq(Mux(lane_there[c], zero, fill))
        return [[Mux(s2.pad[q] | ~lane_there[c], fills[c], word[8 * c:8 * c + 8].as_signed())
                 for c in range(lanes)]
                for q, word in enumerate(self._words(m, s2, bank_data))]

    def _capture_inputs(self, m, s2, inputs):
        shift = Cat(0, 0, s2.shift[2:])
        for q, row in enumerate(self.x):
            for c, (register, operand) in enumerate(zip(row, inputs[q], strict=True)):
                with m.If(s2.paired & s2.odd):
                    if q < len(self.odd):
                        m.d.sync += self.odd[q][c].eq(operand)
                    if q < len(self.even):
                        m.d.sync += self.even[q][c].eq(register)
                with m.Else():
                    if q < len(self.terms):
                        m.d.sync += self.terms[q][c].eq((operand << 2) >> shift)
                    else:
                        m.d.sync += register.eq(operand)

    def _words(self, m, s2, bank_data):
        """Return the word of each position.

        Successive positions are in banks that are equally far apart, so those of positions that are
        four apart have numbers that end with the same two bits: they share what these choose.
        """
        banks, positions = self._target.pixel_parallel, len(self.x)
        shared = min(banks, _WAYS)
        low_bits = ceil_log2(shared)
        near = []
        for q in range(min(shared, positions)):
            m.submodules[f"near{q}"] = multiplexers = Multiplexers(
                width=8 * self._target.channel_parallel,
                ways=[range(start, start + shared) for start in range(0, banks, shared)])
            m.d.comb += [
                multiplexers.index.eq(s2.bank[q][:low_bits]),
                *(i.eq(bank_data[b]) for b, i in enumerate(multiplexers.i)),
            ]
            near.append(multiplexers.o)
        words = []
        for q in range(positions):
            word = Signal(8 * self._target.channel_parallel, name=f"position{q}")
            m.d.comb += word.eq(choose(s2.bank[q][low_bits:], list(near[q % shared])))
            words.append(word)
        return words

    def _capture_weights(self, m, s2, words):
        lanes = self._target.channel_parallel
        for t in range(self._taps):
            word = words[t]
            for c in range(lanes):
                with m.If(~s2.taps[t]):
                    m.d.sync += self.w[t][c].eq(0)
                with m.Elif(s2.weights == Weights.FACTOR):
                    m.d.sync += self.w[t][c].eq(s2.factor)
                with m.Elif(s2.weights == Weights.HALVES if t == 0 else 0):
                    m.d.sync += self.w[t][c].eq(word[:16].as_signed())
                with m.Else():
                    m.d.sync += self.w[t][c].eq(word[8 * c:8 * c + 8].as_signed())
        for k, column in enumerate(self.before):
            with m.If(s2.sliding & (s2.slot == k)):
                for t, c in ((t, c) for t in range(3) for c in range(lanes)):
                    byte = Mux(s2.weights == Weights.FACTOR, s2.factor[:8],
                               words[t][8 * c:8 * c + 8])
                    m.d.sync += column[t][c].eq(Mux(s2.taps[t], byte, 0))
