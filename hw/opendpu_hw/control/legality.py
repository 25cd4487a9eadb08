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
#: Fields of an INIT that say which rows its instructions reach.
_WALK = ("stride_offset_in", "kernel_h", "stride_h")


def _act_refused(act, leaky):
    allowed = (act == ActType.NONE) | (act == ActType.RELU) | (act == ActType.RELU6)
    return ~(allowed | (act == ActType.LEAKYRELU)) if leaky else ~allowed


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
        self._broken = Signal(name="broken")
        self._rows = Signal(_ROWS, name="rows")
        self._spread = [Signal(8, name=f"elew_spread{i}") for i in range(4)]  # banks of an input
        self._judge(m)
        self._opcode = self.words[0][28:32]
        rules = (self._transfers, self._conv, self._depthwise, self._pool, self._alu, self._elew)
        cases = [case for family in rules for case in family(m)]
        with m.Switch(self._opcode):
            for instruction, rule in cases:
                with m.Case(instruction.OPCODE):
                    rule(fields_of(instruction, self.words))
        with m.If(self.clear):
            m.d.sync += self._pending.eq(0)
        self._extensions(m)
        return m

    def _refuse(self, m, *conditions):
        for condition in conditions:
            with m.If(condition):
                m.d.comb += self._broken.eq(1)

    def _remember(self, m, instruction, names):
        """Return whether an INIT was issued, and what it said, by name."""
        f = fields_of(instruction, self.words)
        kept = {}
        for name in names:
            value = getattr(f, name)
            kept[name] = Signal(len(value), name=f"{instruction.__name__}_{name}")
        seen = Signal(name=f"{instruction.__name__}_seen")
        with m.If(self.accept & (self._opcode == instruction.OPCODE)):
            m.d.sync += seen.eq(1)
            m.d.sync += [signal.eq(getattr(f, name)) for name, signal in kept.items()]
        with m.If(self.clear):
            m.d.sync += seen.eq(0)
        return seen, kept

    def _limit_rows(self, m, rows_raw, bank, stride_offset_in, kernel_h_raw, stride_h_raw):
        """Bound what an instruction reaches.

        stride_offset_in + kernel_h <= (4·PP + 1 - vpp - bank_id_in mod PP) · stride_h
        """
        pp = self._target.pixel_parallel
        m.d.comb += [
            self._rows.last.eq(stride_offset_in + kernel_h_raw + 1),
            self._rows.stride.eq(stride_h_raw + 1),
            self._rows.banks.eq(legal.ADDRESS_GROUPS * pp - rows_raw - bank[:ceil_log2(pp)]),
        ]

    def _no_image(self, bank):
        return bank >= self._target.image_banks

    def _transfers(self, m):
        target = self._target

        def load(f):
            self._refuse(m, f.bank_id >= target.bank_count)
            if target.load_mean:
                self._refuse(m, (f.mode_avg != 0) & (f.channel >= legal.MAX_MEAN_CHANNEL))
            else:
                self._refuse(m, f.mode_avg != 0)

        def save(f):
            self._refuse(m, self._no_image(f.bank_id))
            if not target.save_argmax:
                self._refuse(m, f.argmax[1])

        return (isa.Load, load), (isa.Save, save)

    def _conv(self, m):
        target = self._target
        seen, kept = self._remember(m, isa.ConvInit, (*_WALK, "valid_pixel_parallel"))

        def init(f):
            self._refuse(m, f.valid_pixel_parallel >= target.pixel_parallel,
                         _act_refused(f.act_type, target.conv_leaky_relu),
                         f.shift_bias > legal.MAX_SHIFT_BIAS, f.stride_offset_in > f.stride_h,
                         f.stride_offset_out > f.stride_out)

        def conv(f):
            self._refuse(m, ~seen, self._no_image(f.bank_id_in), self._no_image(f.bank_id_out))
            self._limit_rows(m, kept["valid_pixel_parallel"], f.bank_id_in,
                             *(kept[n] for n in _WALK))

        return (isa.ConvInit, init), (isa.Conv, conv)

    def _depthwise(self, m):
        target = self._target
        seen, kept = self._remember(m, isa.DwInit, (*_WALK, "valid_pixel_parallel"))

        def init(f):
            self._refuse(m, f.valid_pixel_parallel >= target.pixel_parallel,
                         f.shift_bias > legal.MAX_SHIFT_BIAS, f.stride_offset_in > f.stride_h,
                         f.stride_offset_out > f.stride_out)

        def depthwise(f):
            self._refuse(m, ~seen, self._no_image(f.bank_id_in), self._no_image(f.bank_id_out),
                         _act_refused(f.act_type, target.alu_leaky_relu))
            self._limit_rows(m, kept["valid_pixel_parallel"], f.bank_id_in,
                             *(kept[n] for n in _WALK))

        return (isa.DwInit, init), (isa.DptWise, depthwise)

    def _pool(self, m):
        seen, kept = self._remember(
            m, isa.PoolInit, (*_WALK, "valid_pixel_parallel", "pool_type"))

        def shift_only(kernel):
            return (kernel == 0) | (kernel == 1) | (kernel == 3) | (kernel == 7)

        def init(f):
            self._refuse(m, f.valid_pixel_parallel >= self._target.pixel_parallel,
                         f.pool_type > max(PoolType),
                         (f.pool_type == PoolType.AVERAGE) & shift_only(f.kernel_w)
                         & ~shift_only(f.kernel_h),
                         (f.pool_type != PoolType.MAX_REDUCE) & (f.stride_offset_in > f.stride_h),
                         f.stride_offset_out > f.stride_out)

        def pool(f):
            reduce = kept["pool_type"] == PoolType.MAX_REDUCE
            kernel = Signal(8)
            stride = Signal(8)
            m.d.comb += [
                kernel.eq(Mux(reduce, f.downsample_kernel_h, kept["kernel_h"])),
                stride.eq(Mux(reduce, f.downsample_kernel_h, kept["stride_h"])),
            ]
            self._refuse(m, ~seen, self._no_image(f.bank_id_in), self._no_image(f.bank_id_out),
                         reduce & (kept["stride_offset_in"] > f.downsample_kernel_h))
            self._limit_rows(m, kept["valid_pixel_parallel"], f.bank_id_in,
                             kept["stride_offset_in"], kernel, stride)

        return (isa.PoolInit, init), (isa.Pool, pool)

    def _alu(self, m):
        target = self._target
        names = (*_WALK, "exec_mode") if Extension.SCALED in target.extensions else _WALK
        seen, kept = self._remember(m, isa.AluInit, names)
        self._alu_init = kept

        def init(f):
            depthwise = Signal()
            pointwise = Signal()
            m.d.comb += [
                depthwise.eq(sum(f.exec_mode == k for k in legal.DEPTHWISE_MODES)),
                pointwise.eq(sum(f.exec_mode == k for k in legal.POINTWISE_MODES)),
            ]
            self._refuse(m, f.exec_mode > max(AluMode), f.shift_bias > legal.MAX_SHIFT_BIAS,
                         depthwise & _act_refused(f.act_type, target.alu_leaky_relu),
                         pointwise & ((f.kernel_h != 0) | (f.kernel_w != 0) | (f.stride_h != 0)
                                      | (f.stride_w != 0)),
                         f.stride_offset_in > f.stride_h, f.stride_offset_out > f.stride_out)

        def alu(f):
            self._refuse(m, ~seen, self._no_image(f.bank_id_in), self._no_image(f.bank_id_out),
                         f.kernel_d != 0, f.valid_pixel_parallel >= target.alu_pixel_parallel)
            self._limit_rows(m, f.valid_pixel_parallel, f.bank_id_in, *(kept[n] for n in _WALK))

        return (isa.AluInit, init), (isa.Alu, alu)

    def _elew(self, m):
        pending = self._pending = Signal(range(5), name="pending")
        jumps = [Signal(3, name=f"elew_jump{i}") for i in range(4)]

        def init(f):
            self._refuse(m, self._no_image(f.bank_id_in), f.id != pending)
            with m.If(self.accept):
                m.d.sync += pending.eq(pending + 1)
                for i, jump in enumerate(jumps):
                    with m.If(pending == i):
                        m.d.sync += jump.eq(f.jump_bank)

        def elew(f):
            self._refuse(m, self._no_image(f.bank_id_out), f.elew_type > max(ElewType),
                         f.num + 1 != pending, (f.elew_type == ElewType.MULT) & (f.num != 1),
                         f.valid_pixel_parallel >= self._target.alu_pixel_parallel)
            for i, (jump, spread) in enumerate(zip(jumps, self._spread, strict=True)):
                m.d.comb += spread.eq(Mux(
                    pending > i, narrow_product(f.valid_pixel_parallel + 1, (jump + 1)[:4]), 0))
            with m.If(self.accept):
                m.d.sync += pending.eq(0)

        return (isa.ElewInit, init), (isa.Elew, elew)

    def _extensions(self, m):
        extensions, opcode, words = self._target.extensions, self._opcode, self.words
        if Extension.TABLE in extensions:
            for instruction in (isa.Conv, isa.Alu, isa.Pool, isa.DptWise, isa.Elew):
                self._refuse(m, (opcode == instruction.OPCODE)
                             & (fields_of(instruction, words).table > table.SLOTS))
        if Extension.SCALED in extensions:
            conv, alu = fields_of(isa.Conv, words), fields_of(isa.Alu, words)
            mode = self._alu_init["exec_mode"]
            summed = Cat(mode == one for one in legal.SCALED_MODES).any()
            self._refuse(m, (opcode == isa.Opcode.ALU) & alu.scaled & ~summed)
            if Extension.CHANNEL in extensions:
                self._refuse(m, (opcode == isa.Opcode.CONV) & conv.scaled & conv.channel_shift,
                             (opcode == isa.Opcode.ALU) & alu.scaled & alu.channel_shift)

    def _judge(self, m):
        """Make ``legal``: a cycle for the rules, one for a product, one to compare it."""
        rows = self._rows
        first = Signal()
        second = Signal()
        spread_over = Signal()
        for banks in self._spread:
            kept = Signal.like(banks, name=f"checked_{banks.name}", reset_less=True)
            m.d.sync += kept.eq(banks)
            with m.If(kept > self._target.pixel_parallel):
                m.d.comb += spread_over.eq(1)
        checked = Signal(_ROWS, reset_less=True)
        last = Signal.like(rows.last, reset_less=True)
        most = Signal(len(rows.stride) + len(rows.banks), reset_less=True)
        m.d.sync += [
            first.eq(self._broken), checked.eq(rows),
            second.eq(first | spread_over), last.eq(checked.last),
            most.eq(narrow_product(checked.stride, checked.banks)),
        ]
        m.d.sync += self.legal.eq(~second & (last <= most))
