# SPDX-License-Identifier: Apache-2.0
"""The functional simulator against a slow, literal one: a byte at a time, exact fractions."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from opendpu_arch import isa
from opendpu_arch.isa import ActType, AluMode, ElewType, PoolType
from opendpu_arch.target import Target
from opendpu_sim.model.machine import plan
from opendpu_sim.progen import ENGINES, random_program

TARGETS = {
    "B64": Target(arch=11, alu_pixel_parallel=1, alu_leaky_relu=True, load_mean=True),
    "B128": Target(arch=8, alu_pixel_parallel=2, bank_groups=3, save_argmax=False),
    "B512": Target.from_name("B512"),
    "B800": Target.from_name("B800"),
}
LARGE = {
    "B3136": Target(arch=6, alu_pixel_parallel=8, alu_leaky_relu=True),
    "B4096": Target.from_name("B4096"),
}


def dpu_round(x: Fraction) -> int:
    return 127 if x > 127 else -128 if x < -128 else math.floor(x + Fraction(1, 2))


def power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def activate(v: Fraction, act: int) -> Fraction:
    if act == ActType.RELU:
        return max(v, Fraction(0))
    if act == ActType.LEAKYRELU:
        return v * 26 / 256 if v < 0 else v
    if act == ActType.RELU6:
        return min(max(v, Fraction(0)), Fraction(96))
    return v


def pool_scale(shift_cut: int) -> Fraction:
    return power(-(shift_cut - 8) if shift_cut >= 8 else shift_cut)


def prelu_scale(shift: int) -> Fraction:
    return power(-(shift - 32) if shift >= 32 else shift)


class Literal:
    """Runs a program in program order."""

    def __init__(self, target: Target, segments: dict[int, np.ndarray]) -> None:
        self.t = target
        self.w = target.channel_parallel
        size = target.bank_depth * self.w
        self.banks = [np.zeros(size, np.int8) for _ in range(target.bank_count)]
        self.segments = segments
        self.inits: dict[type, isa.Instruction] = {}
        self.inputs: list[isa.ElewInit] = []

    def read(self, bank: int, word: int, count: int) -> list[int]:
        data = self.banks[bank]
        start = word * self.w
        return [int(data[(start + n) % data.size]) for n in range(count)]

    def write(self, bank: int, word: int, values: list[int]) -> None:
        data = self.banks[bank]
        start = word * self.w
        for n in range(-(-len(values) // self.w) * self.w):
            data[(start + n) % data.size] = values[n] if n < len(values) else 0

    def run(self, program: list[isa.Instruction]) -> None:
        for i in program:
            name = type(i).__name__.lower()
            if isinstance(i, isa.ElewInit):
                self.inputs.append(i)
            elif isinstance(i, isa.ConvInit | isa.AluInit | isa.PoolInit | isa.DwInit):
                self.inits[type(i)] = i
            elif not isinstance(i, isa.End):
                getattr(self, name)(i)

    def load(self, i: isa.Load) -> None:
        ddr = self.segments[i.reg_id]
        aligned = -(-i.channel // self.w) * self.w
        mean = [v & 255 for v in self.read(self.t.bias_bank, 0, i.channel)]
        for p in range(i.length):
            values = []
            for c in range(i.channel):
                if i.broadcast == 7:
                    value = i.const_value
                else:
                    value = int(ddr[i.ddr_addr + p * i.jump_read + c])
                    if i.mode_avg:
                        value = (value - mean[c]) >> (i.mode_avg - 1)
                if i.jump_read <= i.channel <= 64:
                    if c < i.pad_start - p * i.jump_read:
                        value = 0
                    after = p - (i.length - i.pad_idx)
                    if after >= 0 and c >= aligned - (i.pad_end + i.jump_read * after):
                        value = 0
                values.append((value & 255) - ((value & 128) << 1))
            self.write(i.bank_id, i.bank_addr + p * i.jump_write, values)

    def save(self, i: isa.Save) -> None:
        ddr = self.segments[i.reg_id]
        for p in range(i.length):
            at = i.ddr_addr + p * i.jump_write
            values = self.read(i.bank_id, i.bank_addr + p * i.jump_read, i.channel)
            if i.const_en:
                ddr[at : at + i.channel] = i.const_value
            elif i.argmax & 2:
                best = max(values)
                ddr[at] = (best if i.argmax & 1 else values.index(best)) & 255
            else:
                ddr[at : at + i.channel] = [v & 255 for v in values]

    def source(self, i, init, r, c, count, *, kernel_h, kernel_w, stride_h, stride_w, pad, offset):
        """One input pixel: (is padding, its channels)."""
        pp = self.t.pixel_parallel
        rows = self.field(i, init, "valid_pixel_parallel")
        rows = (rows - 1) * stride_h + kernel_h
        columns = (self.field(i, init, "length") - 1) * stride_w + kernel_w
        outside = pad is not None and (
            c < i.pad_left
            or r < i.pad_top
            or c >= columns - kernel_w + i.pad_right + 1
            or r >= rows - kernel_h + i.pad_bottom + 1
        )
        if outside:
            return [pad] * count
        k = init.stride_offset_in + r
        b = i.bank_id_in % pp + k // stride_h
        base = (i.bank_addr_in, i.bank_addr_in_1, i.bank_addr_in_2, i.bank_addr_in_3)[b // pp]
        endl = self.field(i, init, "jump_read_endl")
        word = base + (k % stride_h) * endl + c * init.jump_read
        values = self.read(i.bank_id_in // pp * pp + b % pp, word % self.t.bank_depth, count)
        if pad is not None:
            for lane in range(offset):
                values[count - 1 - lane] = pad
        return values

    def field(self, i, init, name):
        return getattr(i, name) if hasattr(i, name) else getattr(init, name)

    def target_word(self, i, init, h, w):
        pp = self.t.pixel_parallel
        k = h + init.stride_offset_out
        b = i.bank_id_out % pp + k // init.stride_out
        endl = self.field(i, init, "jump_write_endl")
        word = (
            i.bank_addr_out
            + b // pp * init.stride_out * endl
            + k % init.stride_out * endl
            + w * init.jump_write
        )
        return i.bank_id_out // pp * pp + b % pp, word % self.t.bank_depth

    def walk(self, i, init, *, pad, kernel=None):
        """Yield (h, w, window) with window[kh][kw][channel]; a list of what each output needs."""
        kernel_h, kernel_w = kernel or (init.kernel_h, init.kernel_w)
        stride_h, stride_w = kernel or (init.stride_h, init.stride_w)
        count = self.field(i, init, "channel_group") * self.w
        offset = getattr(i, "channel_offset", getattr(init, "channel_offset", 0))
        results = []
        for h in range(self.field(i, init, "valid_pixel_parallel")):
            for w in range(self.field(i, init, "length")):
                window = [
                    [
                        self.source(
                            i, init, h * stride_h + y, w * stride_w + x, count, kernel_h=kernel_h,
                            kernel_w=kernel_w, stride_h=stride_h, stride_w=stride_w, pad=pad,
                            offset=offset)
                        for x in range(kernel_w)
                    ]
                    for y in range(kernel_h)
                ]  # fmt: skip
                results.append((h, w, np.array(window, np.int64)))
        return results

    def put(self, i, init, outputs):
        for h, w, values in outputs:
            bank, word = self.target_word(i, init, h, w)
            self.write(bank, word, values)

    def finish(self, total, bias, init, act):
        t = 2 * int(total) + bias * 2**init.shift_bias
        return dpu_round(activate(Fraction(t, 2 ** (init.shift_cut + 1)), act))

    def conv(self, i: isa.Conv) -> None:
        init = self.inits[isa.ConvInit]
        taps = init.kernel_h * init.kernel_w
        count = i.channel_group * self.w
        weights = [
            np.array(
                [
                    self.read(self.t.convw_base + o, i.bank_addr_weights + t * i.channel_group,
                              count)
                    for t in range(taps)
                ], np.int64)
            for o in range(self.w)
        ]  # fmt: skip
        bias = self.read(self.t.bias_bank, i.bank_addr_bias, self.w)
        outputs = []
        for h, w, window in self.walk(i, init, pad=0):
            flat = window.reshape(taps, count)
            outputs.append((h, w, [
                self.finish((flat * weights[o]).sum(), bias[o], init, init.act_type)
                for o in range(self.w)
            ]))  # fmt: skip
        self.put(i, init, outputs)

    def dptwise(self, i: isa.DptWise) -> None:
        init = self.inits[isa.DwInit]
        count = i.channel_group * self.w
        bias = self.read(self.t.bias_bank, i.bank_addr_bias, count)
        weights = np.array([
            self.read(self.t.dwconvw_bank, i.bank_addr_weights + t * i.channel_group, count)
            for t in range(init.kernel_h * init.kernel_w)
        ])  # fmt: skip
        outputs = []
        for h, w, window in self.walk(i, init, pad=0):
            sums = (window.reshape(weights.shape) * weights).sum(axis=0)
            outputs.append(
                (h, w, [self.finish(sums[c], bias[c], init, i.act_type) for c in range(count)])
            )
        self.put(i, init, outputs)

    def pool(self, i: isa.Pool) -> None:
        init = self.inits[isa.PoolInit]
        scale = pool_scale(init.shift_cut)
        factor = {3: Fraction(28, 256), 5: Fraction(10, 256), 6: Fraction(7, 256),
                  7: Fraction(21, 1024)}.get(init.kernel_w)  # fmt: skip
        factor = factor or Fraction(1, init.kernel_w * init.kernel_h)
        kernel, pad = None, 0 if init.pool_type == PoolType.AVERAGE else -128
        if init.pool_type == PoolType.MAX_REDUCE:
            kernel, pad = (i.downsample_kernel_h, i.downsample_kernel_w), None
        outputs = []
        for h, w, window in self.walk(i, init, pad=pad, kernel=kernel):
            if init.pool_type == PoolType.AVERAGE:
                values = [dpu_round(int(v) * factor * scale) for v in window.sum(axis=(0, 1))]
            else:
                values = [dpu_round(int(v) * scale) for v in window.max(axis=(0, 1))]
            outputs.append((h, w, values))
        self.put(i, init, outputs)

    def alu(self, i: isa.Alu) -> None:
        init = self.inits[isa.AluInit]
        mode, groups = init.exec_mode, init.channel_group
        count = groups * self.w
        bank, bias = self.t.dwconvw_bank, [0] * count
        scale = pool_scale(init.shift_cut)
        signed = (init.multi_factor ^ 128) - 128
        if mode == AluMode.DWCV:
            bias = self.read(self.t.bias_bank, i.bank_addr_bias, count)
        if mode == AluMode.PRELU:
            factors = self.read(bank, i.bank_addr_weights, count)
        taps = []
        for t in range(init.kernel_h * init.kernel_w):
            word = i.bank_addr_weights + t * init.jump_read_weights
            if mode == AluMode.DWCVW16B0:
                raw = self.read(bank, word, 2 * count)
                pairs = [
                    (raw[2 * g * self.w] & 255, raw[2 * g * self.w + 1]) for g in range(groups)
                ]
                taps.append([low + 256 * high for low, high in pairs for _ in range(self.w)])
            elif mode in (AluMode.DWCV, AluMode.DWCVB0):
                taps.append(self.read(bank, word, count))
        pad = {AluMode.MAXPOOL: -128, AluMode.MAXREDUCE: None}.get(mode, 0)
        outputs = []
        for h, w, window in self.walk(i, init, pad=pad):
            if taps:
                sums = (window.reshape(-1, count) * np.array(taps)).sum(axis=0)
                values = [self.finish(sums[c], bias[c], init, init.act_type) for c in range(count)]
            elif mode == AluMode.AVEPOOL:
                values = [dpu_round(int(v) * signed * scale) for v in window.sum(axis=(0, 1))]
            elif mode in (AluMode.MAXPOOL, AluMode.MAXREDUCE):
                values = [dpu_round(int(v) * scale) for v in window.max(axis=(0, 1))]
            elif mode == AluMode.HSIGMOID:
                values = []
                for v in window.reshape(count):
                    line = int(v) * 2731 + 3 * 2731 * 2**init.shift_bias
                    clipped = min(2**32, max(0, line))
                    values.append(dpu_round(Fraction(clipped, 2**init.shift_cut)))
            else:
                if mode == AluMode.LEAKYRELU:
                    factors = [signed] * count
                p, n = prelu_scale(init.shift_prelu_p), prelu_scale(init.shift_prelu_n)
                values = [
                    dpu_round(int(v) * f * n if v < 0 else int(v) * p)
                    for v, f in zip(window.reshape(count), factors, strict=True)
                ]
            outputs.append((h, w, values))
        self.put(i, init, outputs)

    def elew(self, i: isa.Elew) -> None:
        pp, count = self.t.pixel_parallel, i.channel_group * self.w
        inputs, self.inputs = self.inputs, []
        f = power(-(i.shift_write - 16) if i.shift_write >= 16 else i.shift_write)
        outputs = []
        for h in range(i.valid_pixel_parallel):
            for w in range(i.length):
                terms = []
                for e in inputs:
                    b = e.bank_id_in % pp + (0 if e.share_pp else h * e.jump_bank)
                    word = e.bank_addr_in + b // pp * e.jump_read_endl + w * e.jump_read
                    bank = e.bank_id_in // pp * pp + b % pp
                    x = self.read(bank, word % self.t.bank_depth, count)
                    terms.append([math.floor(Fraction(v * 4, 2**e.shift_read)) for v in x])
                values = []
                for column in zip(*terms, strict=True):
                    if i.elew_type == ElewType.ADD:
                        v = sum(column) * f / 4
                    else:
                        v = column[0] * column[1] * f / 16
                    values.append(dpu_round(max(v, Fraction(0)) if i.act_type else v))
                b = i.bank_id_out % pp + h
                word = i.bank_addr_out + b // pp * i.jump_write_endl + w * i.jump_write
                bank = i.bank_id_out // pp * pp + b % pp
                outputs.append((bank, word % self.t.bank_depth, values))
        for bank, word, values in outputs:
            self.write(bank, word, values)


def compare(engine: str, target: Target, seed: int) -> None:
    print(f"random_program({engine!r}, Target.from_name({target.name!r}), {seed})")
    compare_program(target, *random_program(engine, target, seed))


def compare_program(target: Target, code: bytes, segments: dict[int, np.ndarray]) -> None:
    expected = {reg_id: segment.copy() for reg_id, segment in segments.items()}
    literal = Literal(target, expected)
    literal.run(isa.decode(code))
    memory = plan(code, target).run(segments, check=True)
    banks = memory.words.reshape(target.bank_count, -1)
    for bank in range(target.bank_count):
        np.testing.assert_array_equal(banks[bank], literal.banks[bank], f"bank {bank}")
    for reg_id, segment in segments.items():
        np.testing.assert_array_equal(segment, expected[reg_id], f"segment {reg_id}")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_random_programs_match_the_literal_model(engine: str, target: Target) -> None:
    for seed in range(3):
        compare(engine, target, seed)


@pytest.mark.parametrize("beyond", [0, 1, 2])
@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("engine", ["load", "save"])
def test_contiguous_transfers_wrap_at_the_end_of_a_bank(
    engine: str, length: int, beyond: int, rng: np.random.Generator
) -> None:
    """The last words of a contiguous range are the first of the same bank, not of the next one."""
    target, words = TARGETS["B512"], 4
    size = words * target.channel_parallel
    first = target.bank_depth - length * words + beyond
    whole = {"channel": size, "jump_read": size, "jump_write": words, "length": length}
    program: list[isa.Instruction] = [
        isa.Load(bank_id=bank, ddr_addr=bank * 256, **whole) for bank in (1, 2)
    ]
    if engine == "load":
        program.append(isa.Load(bank_id=1, bank_addr=first, ddr_addr=99, **whole))
    else:
        program.append(isa.Load(bank_id=1, bank_addr=first - beyond, **whole))
        program.append(
            isa.Save(
                bank_id=1, bank_addr=first, channel=size, jump_read=words, jump_write=size,
                length=length, reg_id=1,
            )
        )  # fmt: skip
    segments = {0: rng.integers(0, 256, 1024, np.uint8), 1: np.zeros(1024, np.uint8)}
    compare_program(target, isa.encode([*program, isa.End()]), segments)


def test_of_overlapping_pixels_the_later_one_stays(rng: np.random.Generator) -> None:
    program = [
        isa.Load(bank_id=0, channel=128, jump_read=128, jump_write=16),
        isa.Save(bank_id=0, channel=13, jump_read=2, jump_write=5, length=7, reg_id=1),
        isa.End(),
    ]
    segments = {0: rng.integers(0, 256, 256, np.uint8), 1: np.zeros(256, np.uint8)}
    compare_program(TARGETS["B512"], isa.encode(program), segments)


GEOMETRY = {
    "bank_id_in": 3, "bank_addr_in": 7, "bank_addr_in_1": 40, "stride_offset_in": 1, "stride_h": 2,
    "valid_pixel_parallel": 3, "length": 4, "jump_read_endl": 30, "jump_read": 3,
    "channel_group": 2, "bank_id_out": 5, "stride_offset_out": 1, "stride_out": 2,
    "bank_addr_out": 9, "jump_write_endl": 31, "jump_write": 3, "bank_addr_weights": 5,
    "kernel_h": 2, "kernel_w": 2, "bank_addr_bias": 3,
}  # fmt: skip
"""What a CONV is changed to in one field; otherwise it is :data:`PLAIN`."""
PLAIN = {
    "bank_id_in": 1, "bank_addr_in_1": 60, "stride_h": 3, "stride_out": 3, "length": 3,
    "valid_pixel_parallel": 4, "jump_read_endl": 20, "jump_read": 4, "jump_write_endl": 20,
    "jump_write": 4, "bank_id_out": 6, "bank_addr_out": 100, "kernel_h": 3, "kernel_w": 3,
    "shift_cut": 9, "pad_right": 15, "pad_bottom": 15,
}  # fmt: skip


@pytest.mark.parametrize("field", GEOMETRY)
def test_two_instructions_that_differ_in_one_field(field: str, rng: np.random.Generator) -> None:
    """What is planned once for many instructions is not taken for one that walks elsewhere."""
    target = dataclasses.replace(TARGETS["B512"], bank_depth=256)
    program: list[isa.Instruction] = [
        isa.Load(bank_id=bank, channel=2048, jump_read=2048, ddr_addr=8 * bank)
        for bank in range(target.bank_count)
    ]
    for values in (PLAIN, {**PLAIN, field: GEOMETRY[field]}):
        for kind in (isa.ConvInit, isa.Conv):
            names = {f.name for f in kind.bit_fields()}
            program.append(kind(**{n: v for n, v in values.items() if n in names}))
    segments = {0: rng.integers(0, 256, 4096, np.uint8)}
    compare_program(target, isa.encode([*program, isa.End()]), segments)


def test_the_largest_sum_of_sixteen_bit_weights() -> None:
    """512 products of -128 and -32768: one more than int32 holds."""
    target = TARGETS["B512"]
    segments = {0: np.array([0, 0x80, 0, 0, 0, 0, 0, 0] * 512, np.uint8)}
    program = [
        isa.Load(bank_id=b, broadcast=7, const_value=0x80, channel=1024, jump_write=128, length=4)
        for b in range(target.pixel_parallel)
    ]
    weights = isa.Load(
        bank_id=target.dwconvw_bank, channel=4096, jump_read=4096, jump_write=512
    )  # fmt: skip
    init = isa.AluInit(
        exec_mode=isa.AluMode.DWCVW16B0, kernel_h=16, kernel_w=32, jump_read_weights=1,
        jump_read_endl=32, stride_h=4, shift_cut=30,
    )  # fmt: skip
    alu = isa.Alu(bank_id_out=target.pixel_parallel, pad_right=31, pad_bottom=15)
    code = isa.encode([*program, weights, init, alu, isa.End()])
    compare_program(target, code, segments)
    memory = plan(code, target).run(segments)
    assert (memory.words[target.pixel_parallel * target.bank_depth] == 2).all()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", (TARGETS | LARGE).values(), ids=TARGETS | LARGE)
def test_many_random_programs_match_the_literal_model(engine: str, target: Target) -> None:
    for seed in range(100, 120 if target in LARGE.values() else 160):
        compare(engine, target, seed)
