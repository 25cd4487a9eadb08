# SPDX-License-Identifier: Apache-2.0
"""Front of LOAD and SAVE: where in memory an instruction's bytes are, and whether they may be."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.datapath.multiplexer import choose
from opendpu_hw.shapes import InstructionStream, fields_of, segments_shape


class SegmentStage(wiring.Component):
    """Address, extent and bounds check of LOADs or SAVEs, one every second cycle.

    Parameters
    ----------
    instruction : type of :class:`opendpu_arch.isa.Instruction`
        ``Load`` or ``Save``.
    jump : :class:`str`
        Its field with the distance of pixels in memory.
    size : function of a namespace of fields
        Bytes of a pixel in memory, raw (less one).

    Members
    -------
    insn : ``In(InstructionStream)``
        Instructions.
    segments : ``In(segments_shape)``
        The address registers.
    valid, ready : ``Out(1)``, ``In(1)``
        Of the members below, :attr:`LATENCY` cycles after ``insn``.
    word_0, word_1, … : ``Out(32)``
        The instruction, also as :attr:`words`.
    addr, last_addr : ``Out(40)``
        Address of the first and of the last byte of all pixels.
    reach : ``Out(27)``
        Bytes between them.
    beyond : ``Out(1)``
        The instruction reads or writes memory, and the last byte is not in the segment.
    busy : ``Out(1)``
        There is an instruction.
    clear : ``In(1)``
        Forget everything.
    """

    LATENCY = 3

    def __init__(self, instruction, *, jump, size):
        self._instruction = instruction
        self._jump = jump
        self._size = size
        super().__init__({
            "insn": In(InstructionStream), "segments": In(segments_shape),
            "valid": Out(1), "ready": In(1),
            **{f"word_{i}": Out(32) for i in range(instruction.WORDS)},
            "addr": Out(40), "last_addr": Out(40), "reach": Out(27), "beyond": Out(1),
            "busy": Out(1), "clear": In(1), **self.derived(),
        })

    def derived(self):
        """Return more members, which :meth:`second` and :meth:`third` make."""
        return {}

    def touches_memory(self, f, words):
        """Return whether an instruction, with fields ``f``, reads or writes memory."""
        return 1

    def second(self, m, f):
        """Add to the registers between the first and the second cycle; ``f``: the fields."""

    def third(self, m, f, words):
        """Add to the registers between the second and the third cycle, from fields and words."""

    @property
    def words(self):
        """The words of the instruction."""
        return [getattr(self, f"word_{i}") for i in range(self._instruction.WORDS)]

    def elaborate(self, platform):
        m = Module()
        used = self._instruction.WORDS
        first_valid = Signal()
        second_valid = Signal()
        move_1 = Signal()
        move_2 = Signal()
        move_3 = Signal()
        first = [Signal(32, name=f"first_{i}") for i in range(used)]
        second = [Signal(32, name=f"second_{i}") for i in range(used)]
        m.d.comb += [
            # Registers move into empty ones, not into one that is being left: whether the last one
            # is left is known late, and they are many. So instructions leave every other cycle.
            move_3.eq(~self.valid),
            move_2.eq(~second_valid | move_3),
            move_1.eq(~first_valid | move_2),
            self.insn.ready.eq(move_1),
            self.busy.eq(first_valid | second_valid | self.valid),
        ]
        with m.If(move_1):
            m.d.sync += [
                first_valid.eq(self.insn.valid),
                *(first[i].eq(self.insn.payload[i]) for i in range(used)),
            ]

        f = fields_of(self._instruction, first)
        base = Signal(40)
        size = Signal(32)
        reach = Signal(27)
        # length * (jump + 1) + size, with no sum before the product
        extent = f.length * getattr(f, self._jump) + (f.length + self._size(f))
        with m.If(move_2):
            m.d.sync += [
                second_valid.eq(first_valid),
                *(second[i].eq(first[i]) for i in range(used)),
                base.eq(choose(f.reg_id, [self.segments[i].base for i in range(8)])),
                size.eq(choose(f.reg_id, [self.segments[i].size for i in range(8)])),
                reach.eq(extent[:27]),
            ]
            self.second(m, f)

        f = fields_of(self._instruction, second)
        offset = f.ddr_addr
        last = Signal(30)
        m.d.comb += last.eq(offset + reach)
        m.d.sync += self.valid.eq(Mux(self.valid, ~self.ready, second_valid))
        with m.If(move_3):
            m.d.sync += [
                *(new.eq(old) for new, old in zip(self.words, second, strict=True)),
                self.reach.eq(reach), self.addr.eq(base + offset),
                self.last_addr.eq(base + last),
                self.beyond.eq(
                    self.touches_memory(f, second) & (size != 0) & (last >= size)),
            ]
            self.third(m, f, second)
        with m.If(self.clear):
            m.d.sync += [first_valid.eq(0), second_valid.eq(0), self.valid.eq(0)]
        return m
