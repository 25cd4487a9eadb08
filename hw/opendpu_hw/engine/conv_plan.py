# SPDX-License-Identifier: Apache-2.0
"""CONV set-up: from CONVINIT and CONV fields to what the walk and the write-back need."""

from types import SimpleNamespace

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_arch import isa, latency
from opendpu_arch.extensions import Extension
from opendpu_hw.datapath.narrow_product import narrow_product
from opendpu_hw.engine.conv_shapes import plan_shape, result_shape
from opendpu_hw.memory.ports import BiasRead
from opendpu_hw.memory.record_ram import record_bits
from opendpu_hw.shapes import InstructionStream, fields_of


class ConvPlanner(wiring.Component):
    """Take CONVINIT and CONV; offer one set-up CONV at a time, bias word included.

    Set-up overlaps the instruction before: it begins when that has been taken, and a CONV is
    offered :data:`opendpu_arch.latency.CONV_PLAN` cycles later.

    Members
    -------
    insn : ``In(InstructionStream)``
        CONVINIT and CONV.
    clear : ``In(1)``
        Drop everything.
    accepted, is_init : ``Out(1)``
        Pulse: an instruction was accepted; the one offered is CONVINIT.
    valid, ready : ``Out(1)``, ``In(1)``
        A CONV is set up; take it.
    plan, result : ``Out(plan_shape)``, ``Out(result_shape)``
        The CONV offered.
    bias : ``Out(BiasRead)``
        BIAS bank.
    """

    def __init__(self, target):
        self._target = target
        super().__init__({
            "insn": In(InstructionStream), "clear": In(1),
            "accepted": Out(1), "is_init": Out(1),
            "valid": Out(1), "ready": In(1),
            "plan": Out(plan_shape(target)), "result": Out(result_shape(target)),
            "bias": Out(BiasRead(target)),
        })

    def elaborate(self, platform):
        m = Module()
        init_words = Signal.like(self.insn.payload)
        conv_words = Signal.like(self.insn.payload)
        init, conv = fields_of(isa.ConvInit, init_words), fields_of(isa.Conv, conv_words)
        have_conv = Signal()
        free = Signal()                     # for the set-up of a CONV
        fire = Signal()
        self._accept(m, init_words, conv_words, have_conv, free, fire)
        self._pace(m, conv, have_conv, free, fire)
        self._spans(m, init, conv, fire)
        operands = self._keep_plan(m, init, conv, fire)
        self._multiply(m, operands)
        self._keep_result(m, init, conv, fire, operands)
        return m

    def _accept(self, m, init_words, conv_words, have_conv, free, fire):
        """Keep the last CONVINIT, and the CONV whose set-up has not begun."""
        is_init = self.insn.payload[0][28:32] == isa.Opcode.CONVINIT
        m.d.comb += [
            self.insn.ready.eq(~have_conv | free),
            self.accepted.eq(self.insn.valid & self.insn.ready),
            self.is_init.eq(is_init),
        ]
        with m.If(fire):
            m.d.sync += have_conv.eq(0)
        with m.If(self.accepted):
            with m.If(is_init):
                m.d.sync += init_words.eq(self.insn.payload)
            with m.Else():
                m.d.sync += [conv_words.eq(self.insn.payload), have_conv.eq(1)]

    def _pace(self, m, conv, have_conv, free, fire):
        """Begin a set-up with the CONV's bias word, and offer what has become of it."""
        target, abits = self._target, ceil_log2(self._target.bank_depth)
        offered = Signal()
        planning = Signal(latency.CONV_PLAN - 1)    # bit n: it began n + 1 cycles ago
        waiting = planning[0]
        busy = Signal()                     # any of them
        if Extension.CHANNEL in target.extensions:
            channel_shift = Signal()
            with m.If(fire):
                m.d.sync += channel_shift.eq(conv.channel_shift)
        m.d.comb += [
            self.bias.valid.eq(have_conv & ~busy & ~offered),
            free.eq(~busy & ~offered & self.bias.ready),
            self.bias.addr.eq(conv.bank_addr_bias[:abits]),
            fire.eq(have_conv & free),
            self.valid.eq(offered),
        ]
        with m.If(self.ready):
            m.d.sync += offered.eq(0)
        m.d.sync += [planning.eq(Cat(fire, planning)), busy.eq(fire | planning[:-1].any())]
        with m.If(waiting):
            m.d.sync += self.result.bias.as_value().eq(self.bias.data)
            if Extension.CHANNEL in target.extensions:
                m.d.sync += self.result.shifts.as_value().eq(
                    Mux(channel_shift, self.bias.shifts, 0))
        with m.If(planning[-1]):
            m.d.sync += offered.eq(1)
        with m.If(self.clear):
            m.d.sync += [offered.eq(0), planning.eq(0), busy.eq(0), have_conv.eq(0)]

    def _keep_plan(self, m, init, conv, fire):
        """Keep what the walk needs; return the operands of products."""
        plan = self.plan
        bank_bits = ceil_log2(self._target.pixel_parallel)
        abits = ceil_log2(self._target.bank_depth)
        stride_h, stride_w, stride_out = (
            Signal(5, name=name) for name in ("stride_h", "stride_w", "stride_out"))
        pad_right = Signal.like(conv.pad_right)
        pad_bottom = Signal.like(conv.pad_bottom)
        offset_out = Signal.like(init.stride_offset_out)
        # stride_offset_out / stride_out, both small
        first_bank = Array([Array([o // s for o in range(8)])[init.stride_offset_out]
                            for s in range(1, 17)])[init.stride_out]
        q0 = Signal(3)
        m.d.comb += q0.eq(first_bank)
        with m.If(fire):
            for name in ("length", "channel_group"):
                m.d.sync += getattr(plan, name).eq(getattr(conv, name))
            for name in ("kernel_h", "kernel_w", "stride_h", "stride_w", "stride_out",
                         "stride_offset_in"):
                m.d.sync += getattr(plan, name).eq(getattr(init, name))
            for name in ("bank_addr_in", "bank_addr_in_1", "bank_addr_in_2", "bank_addr_in_3",
                         "bank_addr_weights"):
                m.d.sync += getattr(plan, name).eq(getattr(conv, name)[:abits])
            m.d.sync += [
                plan.jump_read.eq((init.jump_read + 1)[:abits]),
                plan.jump_read_endl.eq((init.jump_read_endl + 1)[:abits]),
                plan.bank_in.eq(conv.bank_id_in[:bank_bits]),
                plan.group_in.eq(conv.bank_id_in[bank_bits:]),
                plan.group_out.eq(conv.bank_id_out[bank_bits:]),
                plan.bank_addr_out.eq(conv.bank_addr_out[:abits]),
                plan.pad_left.eq(conv.pad_left), plan.pad_top.eq(conv.pad_top),
                plan.channel_offset.eq(conv.channel_offset),
                pad_right.eq(conv.pad_right), pad_bottom.eq(conv.pad_bottom),
                stride_h.eq(init.stride_h + 1), stride_w.eq(init.stride_w + 1),
                stride_out.eq(init.stride_out + 1), offset_out.eq(init.stride_offset_out),
            ]
        return SimpleNamespace(
            stride_h=stride_h, stride_w=stride_w, stride_out=stride_out, pad_right=pad_right,
            pad_bottom=pad_bottom, offset_out=offset_out, first_bank=q0)

    def _multiply(self, m, operands):
        """Make products, a cycle later, of what does not change then."""
        plan, result = self.plan, self.result
        abits = ceil_log2(self._target.bank_depth)
        stride_h, stride_w = operands.stride_h, operands.stride_w
        m.d.sync += [
            plan.column_jump.eq(narrow_product(plan.jump_read, stride_w)[:abits]),
            plan.row_offset.eq(
                narrow_product(plan.jump_read_endl, plan.stride_offset_in)[:abits]),
            plan.right_rest.eq(narrow_product(plan.length, stride_w) + operands.pad_right),
            plan.bottom_limit.eq(
                narrow_product(stride_h, result.last_row) + operands.pad_bottom),
            *(plan.rows[p].eq(narrow_product(stride_h, p))
              for p in range(self._target.pixel_parallel)),
            result.wrap_jump.eq(
                narrow_product(result.jump_write_endl, operands.stride_out)[:abits]),
        ]

    def _keep_result(self, m, init, conv, fire, operands):
        """Keep what the write-back needs, and the first row of each bank."""
        target, plan, result = self._target, self.plan, self.result
        bank_bits, abits = ceil_log2(target.pixel_parallel), ceil_log2(target.bank_depth)
        with m.If(fire):
            if Extension.SCALED in target.extensions:
                m.d.sync += [
                    plan.scaled.eq(conv.scaled), result.scaled.eq(conv.scaled),
                    plan.zero_in.eq(Mux(conv.scaled, init.zero_in, 0).as_signed()),
                    result.record.eq(conv.bank_addr_bias[:record_bits(target)]),
                ]
            if Extension.TABLE in target.extensions:
                m.d.sync += [plan.tabled.eq(conv.table != 0), result.table.eq(conv.table)]
            m.d.sync += [
                result.length.eq(conv.length), result.stride_out.eq(init.stride_out),
                result.group_out.eq(conv.bank_id_out[bank_bits:]),
                result.last_row.eq(init.valid_pixel_parallel),
                result.bank_addr_out.eq(conv.bank_addr_out[:abits]),
                result.jump_write.eq((init.jump_write + 1)[:abits]),
                result.jump_write_endl.eq((init.jump_write_endl + 1)[:abits]),
                result.act.eq(init.act_type), result.shift_cut.eq(init.shift_cut),
                result.shift_bias.eq(init.shift_bias),
            ]
            kept = self._banks_on(m, conv, operands.first_bank)
        m.d.sync += [
            row.eq((narrow_product(operands.stride_out, q) - operands.offset_out)[:10])
            for row, q in zip(result.first_row, kept, strict=True)]

    def _banks_on(self, m, conv, first_bank):
        """Return how many banks each bank is from that of output row zero, once it is kept."""
        bank_bits = ceil_log2(self._target.pixel_parallel)
        out_low = conv.bank_id_out[:bank_bits]
        all_kept = []
        for b in range(self._target.pixel_parallel):
            step = Signal(bank_bits, name=f"step{b}")
            q = Signal(4, name=f"q{b}")
            m.d.comb += [
                step.eq((b - out_low - first_bank)[:bank_bits]),
                q.eq(first_bank + step),
            ]
            kept = Signal(4, name=f"kept_q{b}")
            m.d.sync += [kept.eq(q), self.result.wraps[b].eq((out_low + q) >> bank_bits)]
            all_kept.append(kept)
        return all_kept

    def _spans(self, m, init, conv, fire):
        """Bound the words that are read and written: four cycles from ``fire`` on."""
        depth, bank_bits = self._target.bank_depth, ceil_log2(self._target.pixel_parallel)

        def divided(dividend, divisor_raw):
            """Not less than dividend // (divisor_raw + 1): division by a power of two."""
            divisor = Signal(5)
            m.d.comb += divisor.eq(divisor_raw + 1)
            return Mux(divisor[3:].any(), dividend >> 3, Mux(
                divisor[2], dividend >> 2, Mux(divisor[1], dividend >> 1, dividend)))

        def limited(span):
            return Mux(span >= depth, depth - 1, span)

        stride_w, stride_out = init.stride_w + 1, init.stride_out + 1
        last_in = Signal(7)
        last_out = Signal(6)
        m.d.comb += [
            last_in.eq(conv.bank_id_in[:bank_bits] + init.valid_pixel_parallel
                       + divided(init.stride_offset_in + init.kernel_h, init.stride_h)),
            last_out.eq(conv.bank_id_out[:bank_bits] + divided(
                init.stride_offset_out + init.valid_pixel_parallel, init.stride_out)),
        ]
        wraps = Signal(3)
        kept = {name: Signal(width, name=f"span_{name}") for name, width in {
            "length": 10, "jump_read": 11, "jump_read_endl": 11, "jump_write_endl": 11,
            "stride_w": 5, "kernel_w": 4, "stride_h": 4, "stride_out": 5, "rows_out": 4,
            "group": 8, "jump_write": 11}.items()}
        made = {name: Signal(width, name=f"span_of_{name}") for name, width in {
            "column": 15, "taps": 14, "rows": 15, "wrap": 15, "rows_out": 14}.items()}
        with m.If(fire):
            m.d.sync += [
                self.plan.bases_used.eq(Cat(
                    last_in[bank_bits:] >= base for base in range(4))),
                wraps.eq(last_out >> bank_bits),
                kept["length"].eq(conv.length), kept["group"].eq(conv.channel_group),
                kept["jump_read"].eq(init.jump_read + 1),
                kept["jump_read_endl"].eq(init.jump_read_endl + 1),
                kept["jump_write_endl"].eq(init.jump_write_endl + 1),
                kept["stride_w"].eq(stride_w), kept["kernel_w"].eq(init.kernel_w),
                kept["stride_h"].eq(init.stride_h), kept["stride_out"].eq(stride_out),
                kept["rows_out"].eq(init.stride_out),
                kept["jump_write"].eq(init.jump_write + 1),
            ]
        m.d.sync += [
            made[product].eq(narrow_product(kept[value], kept[factor]))
            for product, value, factor in (
                ("column", "jump_read", "stride_w"), ("taps", "jump_read", "kernel_w"),
                ("rows", "jump_read_endl", "stride_h"), ("wrap", "jump_write_endl", "stride_out"),
                ("rows_out", "jump_write_endl", "rows_out"))]
        columns = Signal(25)
        rest = Signal(16)
        columns_out = Signal(21)
        rest_out = Signal(19)
        m.d.sync += [
            columns.eq(kept["length"] * made["column"]),
            rest.eq(made["taps"] + made["rows"] + kept["group"]),
            columns_out.eq(kept["length"] * kept["jump_write"]),
            rest_out.eq(narrow_product(made["wrap"], wraps) + made["rows_out"]),
            self.plan.read_span.eq(limited(columns + rest)),
            self.plan.write_span.eq(limited(columns_out + rest_out)),
        ]
