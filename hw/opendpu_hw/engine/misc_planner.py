# SPDX-License-Identifier: Apache-2.0
"""MISC instructions into jobs: sticky INITs, one-off products, output rows."""

from types import SimpleNamespace

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import isa
from opendpu_arch.isa import Opcode
from opendpu_hw.datapath.narrow_product import narrow_product
from opendpu_hw.engine import misc_decode
from opendpu_hw.engine import misc_plan as plan
from opendpu_hw.shapes import InstructionStream, fields_of, instruction_shape

#: Kernels of up to so many taps keep the weights of a channel group.
CACHED_TAPS = 64


class MiscPlanner(wiring.Component):
    """Take instructions in order; offer a job for each pass of PP_alu rows of each but the INITs.

    The products of the address walk are made with one multiplier, a cycle each: for ALU already at
    its ALUINIT, for POOL and DPTWISE at the instruction. The walk gets an ALU or ELEW
    :attr:`LATENCY` cycles after it is taken. All this overlaps the jobs before.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Parallelism and memories.
    taps : :class:`int`
        Taps of a kernel column in a step.
    window : :class:`bool`
        Whether columns of 3 wide kernels of stride 1 are kept.

    Members
    -------
    insn : ``In(InstructionStream)``
        Instructions.
    is_init : ``Out(1)``
        The instruction offered is an INIT.
    job, fetch, write : ``Out(stream.Signature(...))``
        A job for the walk, the parameter fetch and the writer; each takes its part on its own.
    """

    #: Cycles from taking an ALU or ELEW to offering its job.
    LATENCY = 2

    def __init__(self, target, *, taps, window):
        self._target, self._taps, self._window = target, taps, window
        super().__init__({
            "insn": In(InstructionStream), "is_init": Out(1),
            "job": Out(stream.Signature(plan.job_shape(target))),
            "fetch": Out(stream.Signature(plan.fetch_shape(target))),
            "write": Out(stream.Signature(plan.write_shape(target))),
        })

    def elaborate(self, platform):
        m = Module()
        target = self._target
        banks, rows = target.pixel_parallel, target.alu_pixel_parallel
        a, bb = plan.address_bits(target), plan.bank_bits(target)

        insn = Signal(instruction_shape, reset_less=True)
        inits = {cls: Signal(instruction_shape, name=cls.__name__.lower(), reset_less=True)
                 for cls in (isa.AluInit, isa.PoolInit, isa.DwInit)}
        entries = [Signal(instruction_shape, name=f"entry{i}", reset_less=True)
                   for i in range(plan.INPUTS)]

        #: The job being made, and what only its making needs.
        s = SimpleNamespace(
            taps=self._taps, window=self._window,
            **{name: Signal(shape, name=name, reset_less=True) for name, shape in {
                "walk": plan.walk_shape(target), "finish": plan.finish_shape(target),
                "fetch": plan.fetch_shape(target), "write": plan.write_shape(target),
                "remaining": 4,             # rows not yet offered
                "stride_out": 9, "out_phase": 8, "out_jump": a, "out_wrap": a,
                "out_bank": bb, "out_base": a, "out_offset": a,
                "pad_right": 8, "pad_bottom": 8, "rows_1": 4, "unpadded": 1, "tap_jump": a,
                "kept": misc_decode.kept_shape(target),
            }.items()})
        # Banks of the rows of ELEW's inputs: there before ELEW itself is.
        s.places = [[Signal(bb, name=f"place{n}_{q}", reset_less=True) for q in range(rows)]
                    for n in range(plan.INPUTS)]
        for places, words in zip(s.places, entries, strict=True):
            entry = fields_of(isa.ElewInit, words)
            step = Mux(entry.share_pp, 0, entry.jump_bank + 1)
            m.d.sync += [place.eq((entry.bank_id_in + q * step)[:bb])
                         for q, place in enumerate(places)]
        walk, fetch, write = s.walk, s.fetch, s.write
        m.d.comb += [
            self.job.payload.walk.eq(walk), self.job.payload.finish.eq(s.finish),
            # Products of registers: they have the cycle in which the walk takes them.
            self.job.payload.walk.bottom_limit.eq(misc_decode.bottom_limit(s)),
            self.job.payload.walk.stride_step.eq(narrow_product(
                walk.stride_h, Mux(walk.wide, 1, self._taps))),
            self.fetch.payload.eq(fetch), self.write.payload.eq(write),
        ]

        index = Signal(4)
        left = Signal(13, reset_less=True)
        right = Signal(13, reset_less=True)
        product = Signal(26)
        m.d.comb += product.eq(left * right)
        kernel_w = Signal(9)
        kernel_h = Signal(9)
        m.d.comb += [kernel_w.eq(walk.kernel_w_1 + 1), kernel_h.eq(walk.kernel_h_1 + 1)]
        products = [
            (walk.stride_w, walk.jump, walk.inputs[0].jump),
            (walk.stride_w, walk.length_1, None),
            (walk.in_bank, walk.jump_endl, walk.row_offset),
            (s.stride_out, s.out_jump, s.out_wrap),
            (s.out_phase, s.out_jump, s.out_offset),
            (kernel_w, s.tap_jump, fetch.tap_h),
            (fetch.stride_h, product[:a], fetch.tap_stride),
            (kernel_h, kernel_w, None),
        ]
        turn = Signal(3)
        row = Signal(3)
        parts = self.job, self.fetch, self.write
        for part in parts:
            with m.If(part.ready):
                m.d.sync += part.valid.eq(0)

        def make_rows():
            """Go on with the rows of the writer's part; the others are offered meanwhile."""
            m.d.sync += [self.job.valid.eq(1), self.fetch.valid.eq(1)]
            m.next = "Rows"

        m.d.comb += self.is_init.eq(Cat(
            self.insn.payload[0][28:32] == cls.OPCODE for cls in (*inits, isa.ElewInit)).any())
        with m.FSM():
            with m.State("Accept"):
                m.d.comb += self.insn.ready.eq(1)
                m.d.sync += [
                    index.eq(0), row.eq(0), turn.eq(0), write.turns_1.eq(0),
                    s.pad_right.eq(0), s.unpadded.eq(0), s.out_offset.eq(0),
                ]
                m.d.sync += insn.eq(self.insn.payload)
                with m.If(self.insn.valid), m.Switch(self.insn.payload[0][28:32]):
                    for cls, kept in inits.items():
                        with m.Case(cls.OPCODE):
                            m.d.sync += kept.eq(self.insn.payload)
                            if cls is isa.AluInit:
                                m.next = "Prepare"
                    with m.Case(Opcode.ELEWINIT):
                        number = fields_of(isa.ElewInit, self.insn.payload).id
                        m.d.sync += Array(entries)[number].eq(self.insn.payload)
                    with m.Default():
                        m.next = "Select"
            with m.State("Prepare"):
                misc_decode.aluinit(m, target, s, fields_of(isa.AluInit, insn))
                m.next = "Multiply"
            with m.State("Keep"):
                misc_decode.keep(m, s)
                m.next = "Accept"
            with m.State("Select"):
                misc_decode.defaults(m, target, s)
                m.next = "Multiply"
                with m.Switch(insn[0][28:32]):
                    with m.Case(Opcode.ALU):
                        misc_decode.alu(m, target, s, fields_of(isa.Alu, insn),
                                        fields_of(isa.AluInit, inits[isa.AluInit]))
                        make_rows()
                    with m.Case(Opcode.POOL):
                        misc_decode.pool(m, target, s, fields_of(isa.Pool, insn),
                                         fields_of(isa.PoolInit, inits[isa.PoolInit]))
                    with m.Case(Opcode.DPTWISE):
                        misc_decode.dptwise(m, target, s, fields_of(isa.DptWise, insn),
                                            fields_of(isa.DwInit, inits[isa.DwInit]))
                    with m.Default():
                        misc_decode.elew(m, target, s, fields_of(isa.Elew, insn),
                                         [fields_of(isa.ElewInit, e) for e in entries])
                        make_rows()
            with m.State("Multiply"):
                # Cycle k loads the operands of product k and stores product k - 1.
                m.d.sync += index.eq(index + 1)
                with m.Switch(index):
                    for k in range(len(products) + 1):
                        with m.Case(k):
                            if k < len(products):
                                m.d.sync += [left.eq(products[k][0][:13]),
                                             right.eq(products[k][1][:13])]
                            if k > 0 and products[k - 1][2] is not None:
                                m.d.sync += products[k - 1][2].eq(product[:a])
                            if k == 2:
                                m.d.sync += walk.right_limit.eq(
                                    (product[:20] + s.pad_right) | s.unpadded.replicate(20))
                            if k == len(products):
                                m.d.sync += [walk.cached.eq(product <= CACHED_TAPS),
                                             fetch.cached.eq(product <= CACHED_TAPS)]
                                with m.If(insn[0][28:32] == Opcode.ALUINIT):
                                    m.next = "Keep"
                                with m.Else():
                                    make_rows()
            with m.State("Rows"):
                for h in range(rows):
                    with m.If(row == h):
                        m.d.sync += [
                            write.bank[h].eq(s.out_bank), write.turn[h].eq(turn),
                            write.addr[h].eq((s.out_base + s.out_offset)[:a]),
                        ]
                with m.If(turn > write.turns_1):
                    m.d.sync += write.turns_1.eq(turn)
                m.d.sync += turn.eq(Mux(turn + 1 == s.stride_out, 0, turn + 1))
                with m.If(s.out_phase + 1 == s.stride_out):
                    m.d.sync += [s.out_phase.eq(0), s.out_offset.eq(0),
                                 s.out_bank.eq(s.out_bank + 1)]
                    with m.If(s.out_bank == banks - 1):
                        m.d.sync += s.out_base.eq((s.out_base + s.out_wrap)[:a])
                with m.Else():
                    m.d.sync += [s.out_phase.eq(s.out_phase + 1),
                                 s.out_offset.eq((s.out_offset + s.out_jump)[:a])]
                m.d.sync += [
                    row.eq(row + 1), s.remaining.eq(s.remaining - 1), write.rows_1.eq(row),
                ]
                with m.If((s.remaining == 1) | (row == rows - 1)):
                    m.d.sync += [write.final.eq(s.remaining == 1), self.write.valid.eq(1)]
                    m.next = "Offer"
            with m.State("Offer"):
                with m.If(Cat(~part.valid | part.ready for part in parts).all()):
                    m.d.sync += [row.eq(0), turn.eq(0), write.turns_1.eq(0)]
                    with m.If(s.remaining == 0):
                        m.next = "Accept"
                    with m.Else():
                        # The next pass starts PP_alu banks further on.
                        if rows < banks:
                            low = Signal(bb + 1)
                            m.d.comb += low.eq(walk.low + rows)
                            m.d.sync += [walk.low.eq(low[:bb]), walk.wrap.eq(walk.wrap + low[bb])]
                        m.d.sync += [
                            walk.row_base.eq((walk.row_base + walk.stride_h * rows)[:13]),
                            walk.checked.eq(0),
                            walk.rows_1.eq(misc_decode.pass_rows_1(target, s.remaining - 1)),
                        ]
                        make_rows()
        return m
