# SPDX-License-Identifier: Apache-2.0
"""The rules of ``opendpu_arch.legal`` in gates."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_arch import isa, legal, table
from opendpu_arch.extensions import Extension
from opendpu_arch.isa import ActType, AluMode, ElewType, PoolType
from opendpu_hw.datapath.narrow_product import narrow_product
from opendpu_hw.shapes import fields_of, instruction_shape

#: Input rows that an instruction reaches, at most ``banks`` of ``stride`` rows; zeros: any.
_ROWS = data.StructLayout({"last": 10, "stride": 9, "banks": 6})



class Legality(wiring.Component):
    """Judge an instruction against its target, and remember what INITs are in force.

    ``words`` must be held; ``legal`` is right :data:`opendpu_arch.latency.JUDGEMENT` cycles later.
    ``accept`` says that the instruction is issued, which updates the INITs.

    Members
    -------
    words : ``In(instruction_shape)``
        The instruction.
    legal : ``Out(1)``
        No rule of :data:`opendpu_arch.legal.RULES` is broken.
    accept, clear : ``In(1)``
        The instruction is issued; a program starts.
    """

    def __init__(self, target):
        self._target = target
        super().__init__({
            "words": In(instruction_shape), "legal": Out(1), "accept": In(1), "clear": In(1)})

    def elaborate(self, platform):
        m = Module()
        target = self._target
        pp = target.pixel_parallel
        words = self.words
        broken = Signal()
        rows = Signal(_ROWS)
        spread = [Signal(8, name=f"elew_spread{i}") for i in range(4)]      # banks of an input
        self._judge(m, broken, rows, spread)

        def refuse(*conditions):
            for condition in conditions:
                with m.If(condition):
                    m.d.comb += broken.eq(1)

        def act_refused(act, leaky):
            allowed = (act == ActType.NONE) | (act == ActType.RELU) | (act == ActType.RELU6)
            return ~(allowed | (act == ActType.LEAKYRELU)) if leaky else ~allowed

        def image(bank):
            return bank >= target.image_banks

        def in_bank(bank):
            return bank[:ceil_log2(pp)]

        def limit_rows(rows_raw, bank, stride_offset_in, kernel_h_raw, stride_h_raw):
            # stride_offset_in + kernel_h <= (4·PP + 1 - vpp - bank_id_in mod PP) · stride_h
            m.d.comb += [
                rows.last.eq(stride_offset_in + kernel_h_raw + 1), rows.stride.eq(stride_h_raw + 1),
                rows.banks.eq(legal.ADDRESS_GROUPS * pp - rows_raw - in_bank(bank)),
            ]

        def remember(instruction, names):
            f = fields_of(instruction, words)
            kept = {}
            for name in names:
                value = getattr(f, name)
                kept[name] = Signal(len(value), name=f"{instruction.__name__}_{name}")
            seen = Signal(name=f"{instruction.__name__}_seen")
            with m.If(self.accept & (opcode == instruction.OPCODE)):
                m.d.sync += seen.eq(1)
                m.d.sync += [signal.eq(getattr(f, name)) for name, signal in kept.items()]
            with m.If(self.clear):
                m.d.sync += seen.eq(0)
            return seen, kept

        opcode = words[0][28:32]
        walk = ("stride_offset_in", "kernel_h", "stride_h")
        conv_seen, conv_init = remember(isa.ConvInit, (*walk, "valid_pixel_parallel"))
        dw_seen, dw_init = remember(isa.DwInit, (*walk, "valid_pixel_parallel"))
        pool_seen, pool_init = remember(isa.PoolInit, (*walk, "valid_pixel_parallel", "pool_type"))
        scaled = Extension.SCALED in target.extensions
        alu_seen, alu_init = remember(isa.AluInit, (*walk, "exec_mode") if scaled else walk)
        pending = Signal(range(5))
        jumps = [Signal(3, name=f"elew_jump{i}") for i in range(4)]

        with m.Switch(opcode):
            with m.Case(isa.Opcode.LOAD):
                f = fields_of(isa.Load, words)
                refuse(f.bank_id >= target.bank_count)
                if target.load_mean:
                    refuse((f.mode_avg != 0) & (f.channel >= legal.MAX_MEAN_CHANNEL))
                else:
                    refuse(f.mode_avg != 0)
            with m.Case(isa.Opcode.SAVE):
                f = fields_of(isa.Save, words)
                refuse(image(f.bank_id))
                if not target.save_argmax:
                    refuse(f.argmax[1])
            with m.Case(isa.Opcode.CONVINIT):
                f = fields_of(isa.ConvInit, words)
                refuse(f.valid_pixel_parallel >= pp,
                       act_refused(f.act_type, target.conv_leaky_relu),
                       f.shift_bias > legal.MAX_SHIFT_BIAS, f.stride_offset_in > f.stride_h,
                       f.stride_offset_out > f.stride_out)
            with m.Case(isa.Opcode.CONV):
                f = fields_of(isa.Conv, words)
                refuse(~conv_seen, image(f.bank_id_in), image(f.bank_id_out))
                limit_rows(conv_init["valid_pixel_parallel"], f.bank_id_in,
                           *(conv_init[n] for n in walk))
            with m.Case(isa.Opcode.DWINIT):
                f = fields_of(isa.DwInit, words)
                refuse(f.valid_pixel_parallel >= pp, f.shift_bias > legal.MAX_SHIFT_BIAS,
                       f.stride_offset_in > f.stride_h, f.stride_offset_out > f.stride_out)
            with m.Case(isa.Opcode.DPTWISE):
                f = fields_of(isa.DptWise, words)
                refuse(~dw_seen, image(f.bank_id_in), image(f.bank_id_out),
                       act_refused(f.act_type, target.alu_leaky_relu))
                limit_rows(dw_init["valid_pixel_parallel"], f.bank_id_in,
                           *(dw_init[n] for n in walk))
            with m.Case(isa.Opcode.POOLINIT):
                f = fields_of(isa.PoolInit, words)

                def shift_only(kernel):
                    return (kernel == 0) | (kernel == 1) | (kernel == 3) | (kernel == 7)

                refuse(f.valid_pixel_parallel >= pp, f.pool_type > max(PoolType),
                       (f.pool_type == PoolType.AVERAGE) & shift_only(f.kernel_w)
                       & ~shift_only(f.kernel_h),
                       (f.pool_type != PoolType.MAX_REDUCE) & (f.stride_offset_in > f.stride_h),
                       f.stride_offset_out > f.stride_out)
            with m.Case(isa.Opcode.POOL):
                f = fields_of(isa.Pool, words)
                reduce = pool_init["pool_type"] == PoolType.MAX_REDUCE
                kernel = Signal(8)
                stride = Signal(8)
                m.d.comb += [
                    kernel.eq(Mux(reduce, f.downsample_kernel_h, pool_init["kernel_h"])),
                    stride.eq(Mux(reduce, f.downsample_kernel_h, pool_init["stride_h"])),
                ]
                refuse(~pool_seen, image(f.bank_id_in), image(f.bank_id_out),
                       reduce & (pool_init["stride_offset_in"] > f.downsample_kernel_h))
                limit_rows(pool_init["valid_pixel_parallel"], f.bank_id_in,
                           pool_init["stride_offset_in"], kernel, stride)
            with m.Case(isa.Opcode.ALUINIT):
                f = fields_of(isa.AluInit, words)
                depthwise = Signal()
                pointwise = Signal()
                m.d.comb += [
                    depthwise.eq(sum(f.exec_mode == k for k in legal.DEPTHWISE_MODES)),
                    pointwise.eq(sum(f.exec_mode == k for k in legal.POINTWISE_MODES)),
                ]
                refuse(f.exec_mode > max(AluMode), f.shift_bias > legal.MAX_SHIFT_BIAS,
                       depthwise & act_refused(f.act_type, target.alu_leaky_relu),
                       pointwise & ((f.kernel_h != 0) | (f.kernel_w != 0) | (f.stride_h != 0)
                                    | (f.stride_w != 0)),
                       f.stride_offset_in > f.stride_h, f.stride_offset_out > f.stride_out)
            with m.Case(isa.Opcode.ALU):
                f = fields_of(isa.Alu, words)
                refuse(~alu_seen, image(f.bank_id_in), image(f.bank_id_out), f.kernel_d != 0,
                       f.valid_pixel_parallel >= target.alu_pixel_parallel)
                limit_rows(f.valid_pixel_parallel, f.bank_id_in, *(alu_init[n] for n in walk))
            with m.Case(isa.Opcode.ELEWINIT):
                f = fields_of(isa.ElewInit, words)
                refuse(image(f.bank_id_in), f.id != pending)
                with m.If(self.accept):
                    m.d.sync += pending.eq(pending + 1)
                    for i, jump in enumerate(jumps):
                        with m.If(pending == i):
                            m.d.sync += jump.eq(f.jump_bank)
            with m.Case(isa.Opcode.ELEW):
                f = fields_of(isa.Elew, words)
                refuse(image(f.bank_id_out), f.elew_type > max(ElewType), f.num + 1 != pending,
                       (f.elew_type == ElewType.MULT) & (f.num != 1),
                       f.valid_pixel_parallel >= target.alu_pixel_parallel)
                for i, jump in enumerate(jumps):
                    m.d.comb += spread[i].eq(Mux(
                        pending > i, narrow_product(f.valid_pixel_parallel + 1, (jump + 1)[:4]), 0))
                with m.If(self.accept):
                    m.d.sync += pending.eq(0)
        with m.If(self.clear):
            m.d.sync += pending.eq(0)
        if Extension.TABLE in target.extensions:
            for instruction in (isa.Conv, isa.Alu, isa.Pool, isa.DptWise, isa.Elew):
                refuse((opcode == instruction.OPCODE)
                       & (fields_of(instruction, words).table > table.SLOTS))
        if scaled:
            conv, alu = fields_of(isa.Conv, words), fields_of(isa.Alu, words)
            summed = Cat(alu_init["exec_mode"] == mode for mode in legal.SCALED_MODES).any()
            refuse((opcode == isa.Opcode.ALU) & alu.scaled & ~summed)
            if Extension.CHANNEL in target.extensions:
                refuse((opcode == isa.Opcode.CONV) & conv.scaled & conv.channel_shift,
                       (opcode == isa.Opcode.ALU) & alu.scaled & alu.channel_shift)
        return m

    def _judge(self, m, broken, rows, spread):
        """Make ``legal``: a cycle for the rules, one for a product, one to compare it."""
        first, second = Signal(), Signal()
        spread_over = Signal()
        for banks in spread:
            kept = Signal.like(banks, name=f"checked_{banks.name}", reset_less=True)
            m.d.sync += kept.eq(banks)
            with m.If(kept > self._target.pixel_parallel):
                m.d.comb += spread_over.eq(1)
        checked = Signal(_ROWS, reset_less=True)
        last = Signal.like(rows.last, reset_less=True)
        most = Signal(len(rows.stride) + len(rows.banks), reset_less=True)
        m.d.sync += [
            first.eq(broken), checked.eq(rows),
            second.eq(first | spread_over), last.eq(checked.last),
            most.eq(narrow_product(checked.stride, checked.banks)),
        ]
        m.d.sync += self.legal.eq(~second & (last <= most))
