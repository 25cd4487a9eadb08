# SPDX-License-Identifier: Apache-2.0
"""Front of LOAD and SAVE: where in memory an instruction's bytes are, and whether they may be."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.shapes import InstructionStream, fields_of, instruction_shape

#: The address registers: base address, and size in bytes or 0 for unlimited.
segments_shape = data.ArrayLayout(data.StructLayout({"base": 40, "size": 32}), 8)


class SegmentStage(wiring.Component):
    """Address, extent and bounds check of LOADs or SAVEs, one a cycle.

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
    words : ``Out(instruction_shape)``
        The instruction.
    addr, last_addr : ``Out(40)``
        Address of the first and of the last byte of all pixels.
    reach : ``Out(27)``
        Bytes between them.
    beyond : ``Out(1)``
        The last byte is not in the segment.
    busy : ``Out(1)``
        There is an instruction.
    clear : ``In(1)``
        Forget everything.
    """

    LATENCY = 2

    def __init__(self, instruction, *, jump, size):
        self._instruction = instruction
        self._jump = jump
        self._size = size
        super().__init__({
            "insn": In(InstructionStream), "segments": In(segments_shape),
            "valid": Out(1), "ready": In(1), "words": Out(instruction_shape),
            "addr": Out(40), "last_addr": Out(40), "reach": Out(27), "beyond": Out(1),
            "busy": Out(1), "clear": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        first_valid = Signal()
        take = Signal()
        move = Signal()
        first = Signal(instruction_shape)
        m.d.comb += [
            move.eq(~self.valid | self.ready),
            self.insn.ready.eq(~first_valid | move),
            take.eq(self.insn.valid & self.insn.ready),
            self.busy.eq(first_valid | self.valid),
        ]
        with m.If(take):
            m.d.sync += [first_valid.eq(1), first.eq(self.insn.payload)]
        with m.Elif(move):
            m.d.sync += first_valid.eq(0)

        f = fields_of(self._instruction, first)
        segment = Signal(segments_shape.elem_shape)
        with m.If(move & first_valid):
            m.d.sync += [
                self.valid.eq(1), self.words.eq(first), segment.eq(self.segments[f.reg_id]),
                self.reach.eq((f.length * (getattr(f, self._jump) + 1) + self._size(f))[:27]),
            ]
        with m.Elif(self.ready):
            m.d.sync += self.valid.eq(0)

        offset = fields_of(self._instruction, self.words).ddr_addr
        last = Signal(30)
        m.d.comb += [
            last.eq(offset + self.reach),
            self.addr.eq(segment.base + offset),
            self.last_addr.eq(segment.base + last),
            self.beyond.eq((segment.size != 0) & (last >= segment.size)),
        ]
        with m.If(self.clear):
            m.d.sync += [first_valid.eq(0), self.valid.eq(0)]
        return m
