# SPDX-License-Identifier: Apache-2.0
"""Fields of ALU, POOL, DPTWISE and ELEW into the job the planner makes.

Every function adds assignments for one cycle to ``m``; ``s`` is the planner's state, ``f`` the
fields of the instruction, ``i`` those of its INIT.
"""

from amaranth.hdl import Cat, Const, Mux
from amaranth.lib import data

from opendpu_arch.extensions import Extension
from opendpu_arch.isa import ActType, AluMode, ElewType, PoolType
from opendpu_arch.numerics import HARD_SIGMOID_FACTOR, POOL_AVERAGE, RELU6_MAX
from opendpu_hw.datapath.narrow_product import narrow_product
from opendpu_hw.datapath.scale import RIGHT_MAX
from opendpu_hw.engine import misc_plan as plan
from opendpu_hw.engine.misc_plan import Op, Weights

#: Hard sigmoid's largest result by ``shift_cut``, where it is below 127; above these it is 0.
SIGMOID_LIMITS = {shift: (2**33 >> shift) + 1 >> 1 for shift in range(26, 34)}


def _plain(shift):
    """Return the right shift of DWCV and HSIGMOID."""
    return Mux(shift > RIGHT_MAX - 8, RIGHT_MAX, shift + 8)[:6]


def _pool(shift):
    """Return the right shift of pooling: 0..7 left, 8 + n right by n."""
    right = Mux(shift < 8, (8 - shift)[:6], shift)
    return Mux(right > RIGHT_MAX, RIGHT_MAX, right)[:6] if len(shift) == 6 else right[:6]


def _prelu(shift):
    """Return the right shift of PRELU; more than 8 to the left saturate all but zero."""
    return Mux(shift[5], shift[:5] + 8, Mux(shift[:5] > 8, 0, (8 - shift[:5])[:6]))[:6]


def _written(shift, guard):
    """Return the right shift of ELEW with ``guard`` more fraction bits."""
    low = shift[:4]
    return Mux(shift[4], low + 8 + guard,
               Mux(low > 8 + guard, 0, (8 + guard - low)[:6]))[:6]


def _group(target, bank_id):
    return bank_id[plan.bank_bits(target):][:2]


def _in_group(target, bank_id, banks):
    """Return a mask of all image banks: ``banks``, a bit a bank, of the group of ``bank_id``."""
    group = bank_id[plan.bank_bits(target):]
    return Cat(Mux(group == g, banks, 0)[:target.pixel_parallel]
               for g in range(target.bank_groups))


def _every_bank(target):
    return Const(-1, target.pixel_parallel)


def _activation(m, s, act):
    m.d.sync += [
        s.finish.relu.eq((act == ActType.RELU) | (act == ActType.RELU6)),
        s.finish.limit.eq(Mux(act == ActType.RELU6, RELU6_MAX, 127)),
        s.finish.leaky.eq(act == ActType.LEAKYRELU),
    ]


def _table(m, target, s, f):
    """Set what the results go through."""
    if Extension.TABLE in target.extensions:
        m.d.sync += [s.finish.table.eq(f.table), s.walk.tabled.eq(f.table != 0)]


def _scaled(m, s, f):
    """Let results be made by records, which the biases' addresses name."""
    m.d.sync += [s.finish.scaled.eq(f.scaled), s.walk.scaled.eq(f.scaled)]
    with m.If(f.scaled):
        m.d.sync += [s.walk.bias.eq(1), s.finish.bias.eq(1), s.fetch.bias.eq(1)]


def kept_shape(target):
    """Return the layout of the products of an ALUINIT."""
    a = plan.address_bits(target)
    return data.StructLayout({
        "jump": a, "right": 20, "row_offset": a, "out_wrap": a, "out_offset": a,
        "tap_h": a, "tap_stride": a, "cached": 1})


def pass_rows_1(target, rows_1):
    """Return the rows of the first pass over ``rows_1 + 1``, less one."""
    most = target.alu_pixel_parallel - 1
    return Mux(rows_1 > most, most, rows_1)[:3]


def defaults(m, target, s):
    """Set what most jobs have in common."""
    m.d.sync += [
        s.walk.op.eq(Op.MAC), s.walk.weights.eq(Weights.FACTOR), s.walk.factor.eq(1),
        s.walk.prelu.eq(0), s.walk.wide.eq(0), s.fetch.wide.eq(0), s.walk.bias.eq(0),
        s.walk.eltwise.eq(0), s.walk.inputs_1.eq(0),
        s.walk.invalid.eq(0), s.walk.row_base.eq(0), s.walk.wrap.eq(0), s.walk.checked.eq(1),
        s.finish.eq(plan.finish_shape(target).const({"limit": 127})),
        s.fetch.weights.eq(0), s.fetch.bias.eq(0), s.fetch.group_step.eq(1),
    ]
    if Extension.SCALED in target.extensions:
        m.d.sync += [s.walk.scaled.eq(0), s.walk.zero_in.eq(0)]


def aluinit(m, target, s, i):
    """Set up the operands of ALUINIT's products."""
    a = plan.address_bits(target)
    _kernel(m, s, kernel_h_1=i.kernel_h, kernel_w_1=i.kernel_w, stride_h_1=i.stride_h,
            stride_w_1=i.stride_w, single=i.exec_mode == AluMode.DWCVW16B0)
    m.d.sync += [
        s.walk.jump.eq((i.jump_read + 1)[:a]), s.walk.jump_endl.eq((i.jump_read_endl + 1)[:a]),
        s.walk.length_1.eq(i.length), s.walk.in_bank.eq(i.stride_offset_in),
        s.stride_out.eq(i.stride_out + 1), s.out_phase.eq(i.stride_offset_out),
        s.out_jump.eq((i.jump_write_endl + 1)[:a]), s.tap_jump.eq(i.jump_read_weights),
    ]


def keep(m, s):
    """Keep ALUINIT's products; other instructions may come before its ALU."""
    m.d.sync += [
        s.kept.jump.eq(s.walk.inputs[0].jump), s.kept.right.eq(s.walk.right_limit),
        s.kept.row_offset.eq(s.walk.row_offset), s.kept.out_wrap.eq(s.out_wrap),
        s.kept.out_offset.eq(s.out_offset), s.kept.tap_h.eq(s.fetch.tap_h),
        s.kept.tap_stride.eq(s.fetch.tap_stride), s.kept.cached.eq(s.walk.cached),
    ]


def _kernel(m, s, *, kernel_h_1, kernel_w_1, stride_h_1, stride_w_1, single=None):
    """Set kernel and stride; a kernel column has min(stride_h, kernel_h) phases.

    ``single``: a step has one tap.
    """
    phases_1 = Mux(stride_h_1 < kernel_h_1, stride_h_1, kernel_h_1)
    paired = ((kernel_h_1 == 2) & (kernel_w_1 == 2) & (stride_h_1 == 1) & (stride_w_1 == 1)
              & (s.taps >= 3))
    if single is not None:
        paired &= ~single
    m.d.sync += s.walk.sliding.eq(
        (kernel_h_1 <= 2) & (kernel_w_1 == 2) & (stride_h_1 == 0) & (stride_w_1 == 0)
        if s.window else 0)
    m.d.sync += [
        s.walk.kernel_h_1.eq(kernel_h_1), s.walk.kernel_w_1.eq(kernel_w_1),
        s.walk.stride_h.eq(stride_h_1 + 1), s.walk.stride_w.eq(stride_w_1 + 1),
        s.walk.phases_1.eq(phases_1), s.walk.paired.eq(paired),
        s.fetch.kernel_h_1.eq(kernel_h_1), s.fetch.kernel_w_1.eq(kernel_w_1),
        s.fetch.stride_h.eq(Mux(paired, 1, stride_h_1 + 1)),
        s.fetch.phases_1.eq(Mux(paired, 0, phases_1)),
    ]


def _window(m, target, s, f, i, *, length_1, groups_1, rows_1, jump_read_endl_1,
            jump_write_endl_1):
    """Set what ALU, POOL and DPTWISE say in the same words."""
    a, bb = plan.address_bits(target), plan.bank_bits(target)
    m.d.sync += [
        s.walk.length_1.eq(length_1), s.walk.groups_1.eq(groups_1),
        s.walk.jump.eq((i.jump_read + 1)[:a]), s.walk.jump_endl.eq((jump_read_endl_1 + 1)[:a]),
        s.walk.in_bank.eq(i.stride_offset_in),
        s.walk.low.eq(f.bank_id_in[:bb]), s.walk.group.eq(_group(target, f.bank_id_in)),
        s.walk.bases[0].eq(f.bank_addr_in[:a]), s.walk.bases[1].eq(f.bank_addr_in_1[:a]),
        s.walk.bases[2].eq(f.bank_addr_in_2[:a]), s.walk.bases[3].eq(f.bank_addr_in_3[:a]),
        s.walk.inputs[0].step.eq(1),
        s.walk.pad_left.eq(f.pad_left), s.walk.pad_top.eq(f.pad_top),
        s.pad_right.eq(f.pad_right),
        s.rows_1.eq(rows_1), s.pad_bottom.eq(f.pad_bottom),
        s.walk.rows_1.eq(pass_rows_1(target, rows_1)),
        s.walk.reads.eq(_in_group(target, f.bank_id_in, _every_bank(target))),
        s.walk.writes.eq(_in_group(target, f.bank_id_out, _every_bank(target))),
        s.fetch.length_1.eq(length_1), s.fetch.groups_1.eq(groups_1),
        s.write.length_1.eq(length_1), s.write.groups_1.eq(groups_1),
        s.write.jump.eq((i.jump_write + 1)[:a]),
        s.write.group.eq(_group(target, f.bank_id_out)),
        s.remaining.eq(rows_1 + 1),
        s.stride_out.eq(i.stride_out + 1), s.out_phase.eq(i.stride_offset_out),
        s.out_jump.eq((jump_write_endl_1 + 1)[:a]),
        s.out_bank.eq(f.bank_id_out[:bb]), s.out_base.eq(f.bank_addr_out[:a]),
    ]


def _unpad(m, s):
    """Pad nothing."""
    m.d.sync += [s.walk.pad_left.eq(0), s.walk.pad_top.eq(0), s.unpadded.eq(1),
                 s.walk.right_limit.eq((1 << 20) - 1)]


def bottom_limit(s):
    """Return the last row that is no padding, from what :func:`_window` and others have set."""
    limit = narrow_product(s.walk.stride_h, s.rows_1) + s.pad_bottom
    return limit[:13] | s.unpadded.replicate(13)


def _depthwise(m, target, s, f, *, shift_cut, shift_bias, jump):
    """Set DWCV and DPTWISE."""
    a = plan.address_bits(target)
    m.d.sync += [
        s.walk.weights.eq(Weights.BYTES), s.walk.bias.eq(1),
        s.finish.bias.eq(1), s.finish.shift_bias.eq(shift_bias[:5]),
        s.finish.right_p.eq(_plain(shift_cut)),
        *([s.finish.channel_shift.eq(f.channel_shift)]
          if Extension.CHANNEL in target.extensions else []),
        s.fetch.weights.eq(1), s.fetch.bias.eq(1),
        s.fetch.addr.eq(f.bank_addr_weights[:a]), s.fetch.bias_addr.eq(f.bank_addr_bias[:a]),
        s.fetch.tap_w.eq(jump), s.tap_jump.eq(jump),
    ]


def alu(m, target, s, f, i):
    """Set up ALU with its ALUINIT."""
    _kernel(m, s, kernel_h_1=i.kernel_h, kernel_w_1=i.kernel_w, stride_h_1=i.stride_h,
            stride_w_1=i.stride_w, single=i.exec_mode == AluMode.DWCVW16B0)
    _window(m, target, s, f, i, length_1=i.length, groups_1=i.channel_group,
            rows_1=f.valid_pixel_parallel,
            jump_read_endl_1=i.jump_read_endl, jump_write_endl_1=i.jump_write_endl)
    m.d.sync += [
        s.walk.inputs[0].jump.eq(s.kept.jump), s.walk.row_offset.eq(s.kept.row_offset),
        s.walk.right_limit.eq((s.kept.right + f.pad_right)[:20]),
        s.out_wrap.eq(s.kept.out_wrap), s.out_offset.eq(s.kept.out_offset),
        s.fetch.tap_h.eq(s.kept.tap_h), s.fetch.tap_stride.eq(s.kept.tap_stride),
        s.walk.cached.eq(s.kept.cached), s.fetch.cached.eq(s.kept.cached),
    ]
    _depthwise(m, target, s, f, shift_cut=i.shift_cut, shift_bias=i.shift_bias,
               jump=i.jump_read_weights)
    m.d.sync += [s.walk.invalid.eq(i.channel_offset), s.finish.right_n.eq(_prelu(i.shift_prelu_n))]
    no_bias = [s.walk.bias.eq(0), s.finish.bias.eq(0), s.fetch.bias.eq(0)]
    if Extension.CHANNEL in target.extensions:
        no_bias.append(s.finish.channel_shift.eq(0))
    no_weights = [s.walk.weights.eq(Weights.FACTOR), s.fetch.weights.eq(0), *no_bias]
    factor = s.walk.factor.eq(i.multi_factor.as_signed())
    wide = [s.walk.wide.eq(1), s.fetch.wide.eq(1)]
    prelu = [*wide, s.walk.prelu.eq(1), s.finish.prelu.eq(1),
             s.finish.right_p.eq(_prelu(i.shift_prelu_p))]
    maximum = [*no_weights, s.walk.op.eq(Op.MAX),
               s.finish.right_p.eq(_pool(i.shift_cut))]
    with m.Switch(i.exec_mode):
        with m.Case(AluMode.PRELU):
            m.d.sync += [*no_bias, *prelu]
        with m.Case(AluMode.LEAKYRELU):
            m.d.sync += [*no_weights, *prelu, factor]
        with m.Case(AluMode.AVEPOOL):
            m.d.sync += [*no_weights, factor, s.finish.right_p.eq(_pool(i.shift_cut))]
        with m.Case(AluMode.MAXPOOL):
            m.d.sync += maximum
        with m.Case(AluMode.MAXREDUCE):
            m.d.sync += [*maximum, s.walk.invalid.eq(0)]
            _unpad(m, s)
        with m.Case(AluMode.HSIGMOID):
            # min(2^32, max(0, ..)) before the shift is a clamp to 0..2^32 / 2^shift_cut after it.
            m.d.sync += [*no_weights, *wide, s.walk.factor.eq(HARD_SIGMOID_FACTOR),
                         s.finish.sigmoid.eq(1), s.finish.relu.eq(1)]
            for shift, limit in SIGMOID_LIMITS.items():
                with m.If(i.shift_cut == shift):
                    m.d.sync += s.finish.limit.eq(limit)
            with m.If(i.shift_cut > max(SIGMOID_LIMITS)):
                m.d.sync += s.finish.limit.eq(0)
        with m.Case(AluMode.DWCVW16B0):
            m.d.sync += [*no_bias, *wide, s.walk.weights.eq(Weights.HALVES),
                         s.fetch.group_step.eq(2), s.walk.sliding.eq(0)]
            _activation(m, s, i.act_type)
        with m.Case(AluMode.DWCVB0):
            m.d.sync += no_bias
            _activation(m, s, i.act_type)
        with m.Default():
            _activation(m, s, i.act_type)
    _table(m, target, s, f)
    if Extension.SCALED in target.extensions:
        _scaled(m, s, f)
        with m.If(f.scaled & (i.exec_mode == AluMode.DWCV)):
            m.d.sync += s.walk.zero_in.eq(i.multi_factor.as_signed())


def dptwise(m, target, s, f, i):
    """Set up DPTWISE with its DWINIT."""
    _kernel(m, s, kernel_h_1=i.kernel_h, kernel_w_1=i.kernel_w, stride_h_1=i.stride_h,
            stride_w_1=i.stride_w)
    _window(m, target, s, f, i, length_1=f.length, groups_1=f.channel_group,
            rows_1=i.valid_pixel_parallel,
            jump_read_endl_1=i.jump_read_endl, jump_write_endl_1=i.jump_write_endl)
    _depthwise(m, target, s, f, shift_cut=i.shift_cut, shift_bias=i.shift_bias,
               jump=f.channel_group + 1)
    m.d.sync += s.walk.invalid.eq(f.channel_offset)
    _activation(m, s, f.act_type)
    _table(m, target, s, f)


def pool(m, target, s, f, i):
    """Set up POOL with its POOLINIT."""
    reduce = i.pool_type == PoolType.MAX_REDUCE
    down_h, down_w = f.downsample_kernel_h, f.downsample_kernel_w
    _kernel(m, s, kernel_h_1=Mux(reduce, down_h, i.kernel_h),
            kernel_w_1=Mux(reduce, down_w, i.kernel_w),
            stride_h_1=Mux(reduce, down_h, i.stride_h), stride_w_1=Mux(reduce, down_w, i.stride_w))
    _window(m, target, s, f, i, length_1=f.length, groups_1=f.channel_group,
            rows_1=i.valid_pixel_parallel,
            jump_read_endl_1=f.jump_read_endl, jump_write_endl_1=f.jump_write_endl)
    shift = _pool(i.shift_cut)
    with m.If(i.pool_type == PoolType.AVERAGE):
        # Powers of two: the low bits of 0, 1, 3, 7 count to the logarithm.
        halvings = (sum(i.kernel_w[k] for k in range(3)) + sum(i.kernel_h[k] for k in range(3)))
        m.d.sync += s.finish.right_p.eq((shift + halvings)[:6])
        for kernel_w, (factor, right) in POOL_AVERAGE.items():
            with m.If(i.kernel_w == kernel_w - 1):
                m.d.sync += [s.walk.factor.eq(factor), s.finish.right_p.eq((shift + right)[:6])]
    with m.Else():
        m.d.sync += [s.walk.op.eq(Op.MAX), s.finish.right_p.eq(shift)]
    with m.If(reduce):
        _unpad(m, s)
    _table(m, target, s, f)


def elew(m, target, s, f, entries):
    """Set up ELEW with its ELEWINITs; ``s.places`` has the banks of each input's rows."""
    a, bb = plan.address_bits(target), plan.bank_bits(target)
    multiply = f.elew_type == ElewType.MULT
    op = Mux(multiply, Op.MULT.value, Op.ADD.value)
    reads = 0
    rows = f.valid_pixel_parallel
    for n, (entry, to) in enumerate(zip(entries, s.walk.inputs, strict=True)):
        base = entry.bank_addr_in[:a]
        group = _group(target, entry.bank_id_in)
        banks = Cat(
            Cat((s.places[n][q] == b) & (rows >= q)
                for q in range(target.alu_pixel_parallel)).any()
            for b in range(target.pixel_parallel))
        reads |= Mux(f.num >= n, _in_group(target, entry.bank_id_in, banks), 0)
        m.d.sync += [
            to.group.eq(group), to.low.eq(entry.bank_id_in[:bb]), to.here.eq(base),
            to.next.eq((base + entry.jump_read_endl + 1)[:a]), to.jump.eq(entry.jump_read[:a]),
            to.step.eq(Mux(entry.share_pp, 0, entry.jump_bank + 1)), to.shift.eq(entry.shift_read),
        ]
    m.d.sync += [
        s.walk.op.eq(op), s.walk.wide.eq(1), s.walk.eltwise.eq(1),
        s.walk.paired.eq(0), s.walk.sliding.eq(0),
        s.walk.inputs_1.eq(f.num),
        s.walk.length_1.eq(f.length), s.walk.groups_1.eq(f.channel_group),
        s.walk.reads.eq(reads),
        s.walk.writes.eq(_in_group(target, f.bank_id_out, Cat(
            (b - f.bank_id_out[:bb])[:bb] <= rows for b in range(target.pixel_parallel)))),
        s.finish.relu.eq(f.act_type),
        s.finish.right_p.eq(Mux(multiply, _written(f.shift_write, 4), _written(f.shift_write, 2))),
        s.write.length_1.eq(f.length), s.write.groups_1.eq(f.channel_group),
        s.write.jump.eq((f.jump_write + 1)[:a]), s.write.group.eq(_group(target, f.bank_id_out)),
        s.walk.rows_1.eq(pass_rows_1(target, f.valid_pixel_parallel)),
        s.remaining.eq(f.valid_pixel_parallel + 1), s.stride_out.eq(1), s.out_phase.eq(0),
        s.out_wrap.eq((f.jump_write_endl + 1)[:a]),
        s.out_bank.eq(f.bank_id_out[:bb]), s.out_base.eq(f.bank_addr_out[:a]),
    ]
    _table(m, target, s, f)
    if Extension.SCALED in target.extensions:
        _scaled(m, s, f)
        m.d.sync += [
            s.fetch.groups_1.eq(f.channel_group), s.fetch.bias_addr.eq(entries[0].bank_addr_scale),
            *(to.term.eq(entry.term)
              for entry, to in zip(entries, s.walk.inputs, strict=True)),
        ]
