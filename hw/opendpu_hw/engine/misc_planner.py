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
        ``job.payload`` stays as it is for a cycle after that.
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
        s = self._signals()
        self._place_inputs(m, s)
        products = self._products(m, s)
        self._offer(m, s)
        m.d.comb += self.is_init.eq(Cat(
            self.insn.payload[0][28:32] == cls.OPCODE for cls in (*s.inits, isa.ElewInit)).any())
        with m.FSM():
            with m.State("Accept"):
                self._accept(m, s)
            with m.State("Prepare"):
                misc_decode.aluinit(m, self._target, s, fields_of(isa.AluInit, s.insn))
                m.next = "Multiply"
            with m.State("Keep"):
                misc_decode.keep(m, s)
                m.next = "Accept"
            with m.State("Select"):
                self._select(m, s)
            with m.State("Multiply"):
                self._multiply(m, s, products)
            with m.State("Rows"):
                self._place_row(m, s)
            with m.State("Offer"):
                self._end_pass(m, s)
        return m

    def _signals(self):
        """Return the job being made, what only its making needs, and the instructions it is of."""
        target = self._target
        rows, a, bb = target.alu_pixel_parallel, plan.address_bits(target), plan.bank_bits(target)

        def instruction(name):
            return Signal(instruction_shape, name=name, reset_less=True)

        return SimpleNamespace(
            taps=self._taps, window=self._window,
            **{name: Signal(shape, name=name, reset_less=True) for name, shape in {
                "walk": plan.walk_shape(target), "finish": plan.finish_shape(target),
                "fetch": plan.fetch_shape(target), "write": plan.write_shape(target),
                "remaining": 4,             # rows not yet offered
                "stride_out": 9, "out_phase": 8, "out_jump": a, "out_wrap": a,
                "out_bank": bb, "out_base": a, "out_offset": a,
                "pad_right": 8, "pad_bottom": 8, "rows_1": 4, "unpadded": 1, "tap_jump": a,
                "kept": misc_decode.kept_shape(target),
            }.items()},
            insn=instruction("insn"),
            inits={cls: instruction(cls.__name__.lower())
                   for cls in (isa.AluInit, isa.PoolInit, isa.DwInit)},
            entries=[instruction(f"entry{i}") for i in range(plan.INPUTS)],
            # Banks of the rows of ELEW's inputs: there before ELEW itself is.
            places=[[Signal(bb, name=f"place{n}_{q}", reset_less=True) for q in range(rows)]
                    for n in range(plan.INPUTS)],
            index=Signal(4, name="index"),
            turn=Signal(3, name="turn"), row=Signal(3, name="row"),
            job_offered=Signal(name="job_offered"), job_taken=Signal(name="job_taken"))

    def _place_inputs(self, m, s):
        """Keep the banks of the rows of ELEW's inputs."""
        for places, words in zip(s.places, s.entries, strict=True):
            entry = fields_of(isa.ElewInit, words)
            step = Mux(entry.share_pp, 0, entry.jump_bank + 1)
            m.d.sync += [place.eq((entry.bank_id_in + q * step)[:len(place)])
                         for q, place in enumerate(places)]

    def _products(self, m, s):
        """Return factors and result of each product, the one multiplier, and its operands."""
        walk, fetch = s.walk, s.fetch
        left = Signal(13, reset_less=True)
        right = Signal(13, reset_less=True)
        product = Signal(26)
        late = Signal(20, reset_less=True)  # the product before: what is computed with it
        m.d.comb += product.eq(left * right)
        m.d.sync += late.eq(product)
        kernel_w = Signal(9)
        kernel_h = Signal(9)
        m.d.comb += [kernel_w.eq(walk.kernel_w_1 + 1), kernel_h.eq(walk.kernel_h_1 + 1)]
        return SimpleNamespace(left=left, right=right, product=product, late=late, all=[
            (walk.stride_w, walk.jump, walk.inputs[0].jump),
            (walk.stride_w, walk.length_1, None),
            (walk.in_bank, walk.jump_endl, walk.row_offset),
            (s.stride_out, s.out_jump, s.out_wrap),
            (s.out_phase, s.out_jump, s.out_offset),
            (kernel_w, s.tap_jump, fetch.tap_h),
            (kernel_h, kernel_w, None),
            (fetch.stride_h, fetch.tap_h, fetch.tap_stride),
        ])

    def _offer(self, m, s):
        """Offer the three parts of a job until each is taken."""
        walk = s.walk
        m.d.comb += [
            self.job.payload.walk.eq(walk), self.job.payload.finish.eq(s.finish),
            # Products of registers: they have the cycle in which the walk takes them.
            self.job.payload.walk.bottom_limit.eq(misc_decode.bottom_limit(s)),
            self.job.payload.walk.stride_step.eq(narrow_product(
                walk.stride_h, Mux(walk.wide, 1, self._taps))),
            self.fetch.payload.eq(s.fetch), self.write.payload.eq(s.write),
            self.job.valid.eq(s.job_offered & ~s.job_taken),
        ]
        # That the walk takes its part is known late: here a cycle after that.
        m.d.sync += s.job_taken.eq(self.job.ready)
        with m.If(s.job_taken):
            m.d.sync += s.job_offered.eq(0)
        for part in (self.fetch, self.write):
            with m.If(part.ready):
                m.d.sync += part.valid.eq(0)

    def _all_taken(self, s):
        """Return whether nothing of the job is offered any more."""
        return (~s.job_offered | s.job_taken) & Cat(
            ~part.valid | part.ready for part in (self.fetch, self.write)).all()

    def _make_rows(self, m, s):
        """Go on with the rows of the writer's part; the others are offered meanwhile."""
        m.d.sync += [s.job_offered.eq(1), self.fetch.valid.eq(1)]
        m.next = "Rows"

    def _accept(self, m, s):
        """Take an instruction; an INIT is kept, anything else becomes jobs."""
        m.d.comb += self.insn.ready.eq(1)
        m.d.sync += [
            s.index.eq(0), s.row.eq(0), s.turn.eq(0), s.write.turns_1.eq(0),
            s.pad_right.eq(0), s.unpadded.eq(0), s.out_offset.eq(0),
        ]
        m.d.sync += s.insn.eq(self.insn.payload)
        with m.If(self.insn.valid), m.Switch(self.insn.payload[0][28:32]):
            for cls, kept in s.inits.items():
                with m.Case(cls.OPCODE):
                    m.d.sync += kept.eq(self.insn.payload)
                    if cls is isa.AluInit:
                        m.next = "Prepare"
            with m.Case(Opcode.ELEWINIT):
                number = fields_of(isa.ElewInit, self.insn.payload).id
                m.d.sync += Array(s.entries)[number].eq(self.insn.payload)
            with m.Default():
                m.next = "Select"

    def _select(self, m, s):
        """Make what needs no product; ALU and ELEW need none that is not there."""
        target, insn, inits = self._target, s.insn, s.inits
        misc_decode.defaults(m, target, s)
        m.next = "Multiply"
        with m.Switch(insn[0][28:32]):
            with m.Case(Opcode.ALU):
                misc_decode.alu(m, target, s, fields_of(isa.Alu, insn),
                                fields_of(isa.AluInit, inits[isa.AluInit]))
                self._make_rows(m, s)
            with m.Case(Opcode.POOL):
                misc_decode.pool(m, target, s, fields_of(isa.Pool, insn),
                                 fields_of(isa.PoolInit, inits[isa.PoolInit]))
            with m.Case(Opcode.DPTWISE):
                misc_decode.dptwise(m, target, s, fields_of(isa.DptWise, insn),
                                    fields_of(isa.DwInit, inits[isa.DwInit]))
            with m.Default():
                misc_decode.elew(m, target, s, fields_of(isa.Elew, insn),
                                 [fields_of(isa.ElewInit, e) for e in s.entries])
                self._make_rows(m, s)

    def _multiply(self, m, s, products):
        """Cycle k loads the operands of product k and stores product k - 1."""
        product, late, last = products.product, products.late, len(products.all)
        m.d.sync += s.index.eq(s.index + 1)
        with m.Switch(s.index):
            for k in range(last + 1):
                with m.Case(k):
                    if k < last:
                        m.d.sync += [products.left.eq(products.all[k][0][:13]),
                                     products.right.eq(products.all[k][1][:13])]
                    if k > 0 and products.all[k - 1][2] is not None:
                        m.d.sync += products.all[k - 1][2].eq(
                            product[:plan.address_bits(self._target)])
                    if k == 3:
                        m.d.sync += s.walk.right_limit.eq(
                            (late + s.pad_right) | s.unpadded.replicate(20))
                    if k == last:
                        m.d.sync += [s.walk.cached.eq(late <= CACHED_TAPS),
                                     s.fetch.cached.eq(late <= CACHED_TAPS)]
                        with m.If(s.insn[0][28:32] == Opcode.ALUINIT):
                            m.next = "Keep"
                        with m.Else():
                            self._make_rows(m, s)

    def _place_row(self, m, s):
        """Say where a row of the pass is written, a row a cycle."""
        banks, rows = self._target.pixel_parallel, self._target.alu_pixel_parallel
        write, turn, row = s.write, s.turn, s.row
        for h in range(rows):
            with m.If(row == h):
                m.d.sync += [
                    write.bank[h].eq(s.out_bank), write.turn[h].eq(turn),
                    write.addr[h].eq((s.out_base + s.out_offset)[:len(s.out_base)]),
                ]
        with m.If(turn > write.turns_1):
            m.d.sync += write.turns_1.eq(turn)
        m.d.sync += turn.eq(Mux(turn + 1 == s.stride_out, 0, turn + 1))
        with m.If(s.out_phase + 1 == s.stride_out):
            m.d.sync += [s.out_phase.eq(0), s.out_offset.eq(0), s.out_bank.eq(s.out_bank + 1)]
            with m.If(s.out_bank == banks - 1):
                m.d.sync += s.out_base.eq((s.out_base + s.out_wrap)[:len(s.out_base)])
        with m.Else():
            m.d.sync += [s.out_phase.eq(s.out_phase + 1),
                         s.out_offset.eq((s.out_offset + s.out_jump)[:len(s.out_offset)])]
        m.d.sync += [row.eq(row + 1), s.remaining.eq(s.remaining - 1), write.rows_1.eq(row)]
        with m.If((s.remaining == 1) | (row == rows - 1)):
            m.d.sync += [write.final.eq(s.remaining == 1), self.write.valid.eq(1)]
            m.next = "Offer"

    def _end_pass(self, m, s):
        """When all parts are taken, go on with the next pass or the next instruction."""
        target, walk = self._target, s.walk
        rows, bb = target.alu_pixel_parallel, plan.bank_bits(target)
        # The writer keeps what it was offered: rows begin anew before it is known that they do.
        m.d.sync += [s.row.eq(0), s.turn.eq(0)]
        with m.If(self._all_taken(s)):
            m.d.sync += s.write.turns_1.eq(0)
            with m.If(s.remaining == 0):
                m.next = "Accept"
            with m.Else():
                # The next pass starts PP_alu banks further on.
                if rows < target.pixel_parallel:
                    low = Signal(bb + 1)
                    m.d.comb += low.eq(walk.low + rows)
                    m.d.sync += [walk.low.eq(low[:bb]), walk.wrap.eq(walk.wrap + low[bb])]
                m.d.sync += [
                    walk.row_base.eq((walk.row_base + walk.stride_h * rows)[:13]),
                    walk.checked.eq(0),
                    walk.rows_1.eq(misc_decode.pass_rows_1(target, s.remaining - 1)),
                ]
                self._make_rows(m, s)
