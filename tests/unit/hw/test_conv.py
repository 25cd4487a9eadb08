# SPDX-License-Identifier: Apache-2.0
"""CONV in Amaranth's simulator against a naive model of its semantics."""

import collections
import dataclasses
import itertools
import random

import numpy as np
import pytest
from amaranth_bench import simulated

from opendpu_arch import isa, latency, legal
from opendpu_arch.target import Target
from opendpu_hw.engine.conv import Conv, lanes_with_leaky_blocks


class Banks:
    """Image banks, weight banks and bias, as CONV sees them."""

    def __init__(self, target, rng):
        depth, word = target.bank_depth, target.channel_parallel
        self.image = rng.integers(
            -128, 128, (target.bank_groups, target.pixel_parallel, depth, word), dtype=np.int8
        )
        self.weights = rng.integers(
            -128, 128, (target.channel_parallel, depth, word), dtype=np.int8
        )
        self.bias = rng.integers(-128, 128, (depth, word), dtype=np.int8)


def requantize(total, bias, init):
    """One result, in exact integers."""
    t = 2 * total + (bias << init.shift_bias)
    scale = init.shift_cut + 1
    numerator, bits = t, scale
    if init.act_type == isa.ActType.LEAKYRELU and t < 0:
        numerator, bits = t * 26, scale + 8
    if init.act_type in (isa.ActType.RELU, isa.ActType.RELU6):
        numerator = max(0, numerator)
    value = (2 * numerator + (1 << bits)) >> (bits + 1)
    if init.act_type == isa.ActType.RELU6:
        value = min(value, 96)
    return max(-128, min(127, value))


def run_conv(target, banks, init, conv):
    """Apply one CONV to ``banks``, pixel by pixel; False, and no effect, if it overlaps itself.

    An instruction that writes words it reads, or a word twice, has no defined result.
    """
    read = set()
    pp, cp, depth = target.pixel_parallel, target.channel_parallel, target.bank_depth
    rows = (init.valid_pixel_parallel - 1) * init.stride_h + init.kernel_h
    cols = (conv.length - 1) * init.stride_w + init.kernel_w
    bases = [conv.bank_addr_in, conv.bank_addr_in_1, conv.bank_addr_in_2, conv.bank_addr_in_3]
    source = np.zeros((rows, cols, conv.channel_group * cp), np.int64)
    group_in, first = divmod(conv.bank_id_in, pp)
    for r in range(rows):
        k = init.stride_offset_in + r
        b = first + k // init.stride_h
        for c in range(cols):
            if (
                c < conv.pad_left
                or r < conv.pad_top
                or c >= cols - init.kernel_w + conv.pad_right + 1
                or r >= rows - init.kernel_h + conv.pad_bottom + 1
            ):
                continue
            for g in range(conv.channel_group):
                word = (
                    bases[b // pp]
                    + (k % init.stride_h) * init.jump_read_endl
                    + c * init.jump_read
                    + g
                ) % depth
                read.add((group_in, b % pp, word))
                source[r, c, g * cp : (g + 1) * cp] = banks.image[group_in, b % pp, word]
    if conv.channel_offset:
        source[:, :, -conv.channel_offset :] = 0
    taps = init.kernel_h * init.kernel_w * conv.channel_group
    index = (conv.bank_addr_weights + np.arange(taps)) % depth
    kernel = banks.weights[:, index].astype(np.int64).reshape(cp, init.kernel_h, init.kernel_w, -1)
    group_out, first = divmod(conv.bank_id_out, pp)
    writes = []
    for h in range(init.valid_pixel_parallel):
        q, k = divmod(h + init.stride_offset_out, init.stride_out)
        b = first + q
        for w in range(conv.length):
            window = source[
                h * init.stride_h : h * init.stride_h + init.kernel_h,
                w * init.stride_w : w * init.stride_w + init.kernel_w,
            ]
            total = (kernel * window).sum((1, 2, 3))
            word = (
                conv.bank_addr_out
                + (b // pp) * init.stride_out * init.jump_write_endl
                + k * init.jump_write_endl
                + w * init.jump_write
            ) % depth
            value = [
                requantize(int(t), int(v), init)
                for t, v in zip(total, banks.bias[conv.bank_addr_bias], strict=True)
            ]
            writes.append((group_out, b % pp, word, value))
    written = {w[:3] for w in writes}
    if read & written or len(written) < len(writes):
        return False
    for group, bank, word, value in writes:
        banks.image[group, bank, word] = value
    return True


def random_init(target, rng):
    """A legal CONVINIT."""
    stride_h, stride_out = rng.randint(1, 4), rng.randint(1, 4)
    return isa.ConvInit(
        act_type=rng.choice([0, 1, 3, 4]),
        shift_cut=rng.choice([0, 3, 6, 8, 9, 10, 11, 14, 40]),
        shift_bias=rng.randint(0, 20),
        jump_read=rng.randint(1, 9),
        stride_out=stride_out,
        jump_read_endl=rng.randint(1, 70),
        stride_h=stride_h,
        kernel_h=rng.randint(1, 4),
        valid_pixel_parallel=rng.randint(1, target.pixel_parallel),
        stride_offset_in=rng.randrange(stride_h),
        jump_write=rng.randint(1, 9),
        stride_w=rng.randint(1, 4),
        kernel_w=rng.randint(1, 4),
        stride_offset_out=rng.randrange(8),
        jump_write_endl=rng.randint(1, 70),
    )


def random_conv(target, rng, init):
    """A legal CONV under ``init``."""
    depth = target.bank_depth
    return isa.Conv(
        pad_left=rng.randint(0, init.kernel_w - 1),
        pad_top=rng.randint(0, init.kernel_h - 1),
        pad_right=rng.choice([15, rng.randint(0, init.kernel_w - 1)]),
        pad_bottom=rng.choice([15, rng.randint(0, init.kernel_h - 1)]),
        channel_group=rng.choice([1, 1, 2, 3]),
        length=rng.choice([1, 2, 3, 9]),
        bank_addr_in=rng.randrange(depth),
        bank_addr_in_1=rng.randrange(depth),
        bank_addr_in_2=rng.randrange(depth),
        bank_addr_in_3=rng.randrange(depth),
        bank_addr_out=rng.randrange(depth),
        bank_id_in=rng.randrange(target.image_banks),
        bank_id_out=rng.randrange(target.image_banks),
        bank_addr_weights=rng.randrange(depth),
        bank_addr_bias=rng.randrange(depth),
        channel_offset=rng.randrange(target.channel_parallel),
    )


def walk_groups(target, init, conv):
    """Address groups the rows of a CONV need."""
    rows = (init.valid_pixel_parallel - 1) * init.stride_h + init.kernel_h
    last = (
        conv.bank_id_in % target.pixel_parallel
        + (init.stride_offset_in + rows - 1) // init.stride_h
    )
    return last // target.pixel_parallel + 1


@pytest.mark.parametrize("name", ["B64", "B144", "B512"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_random_instructions(name, seed):
    target = Target.from_name(name)
    rng = random.Random(f"conv {name} {seed}")
    expected = Banks(target, np.random.default_rng(seed))
    actual = Banks(target, np.random.default_rng(seed))
    program = []
    for _ in range(12):
        init = random_init(target, rng)
        program.append(init)
        for _ in range(rng.choice([0, 1, 2, 4])):
            conv = random_conv(target, rng, init)
            if walk_groups(target, init, conv) <= 4 and run_conv(target, expected, init, conv):
                program.append(conv)
    assert any(isinstance(i, isa.Conv) for i in program)
    simulate(target, program, actual, pause=lambda: rng.choice([0, 0, 0, 1, 5]))
    np.testing.assert_array_equal(actual.image, expected.image)


def simulate(target, program, actual, *, pause=lambda: 0):
    """Run a program on the engine and ``actual``; return the cycles of ``done`` and of steps."""
    simulator = simulated(Conv, target)
    dut = simulator.dut
    done, steps, written = [], [], []

    async def feed(ctx):
        for instruction in program:
            words = list(instruction.encode())
            words += [0] * (6 - len(words))
            for _ in range(pause()):
                await ctx.tick()
            ctx.set(dut.insn.payload, words)
            ctx.set(dut.insn.valid, 1)
            await ctx.tick().until(dut.insn.ready)
            ctx.set(dut.insn.valid, 0)

    async def memory(ctx):
        pp, cp = target.pixel_parallel, target.channel_parallel
        ctx.set(dut.bias.ready, 1)
        coming = collections.deque([None] * (latency.BANK_READ - 1))  # what the banks answer
        for cycle in range(100_000):
            en, group = ctx.get(dut.read.en), ctx.get(dut.read.group)
            turn = ctx.get(dut.read.turn)
            addr = [ctx.get(dut.read.addr[b]) for b in range(pp)]
            weight = ctx.get(dut.read.weight_addr)
            bias = ctx.get(dut.bias.valid), ctx.get(dut.bias.addr)
            mask, out_group = ctx.get(dut.write.mask), ctx.get(dut.write.group)
            far = ctx.get(dut.write.far)
            sources = [(b + (far >> b & 1) * pp // 2) % pp for b in range(pp)]
            writes = [
                (b, ctx.get(dut.write.addr[b]), ctx.get(dut.write.data[sources[b]]))
                for b in range(pp)
                if mask >> b & 1
            ]
            done.extend([cycle] * ctx.get(dut.done))
            steps.extend([cycle] * ctx.get(dut.active))
            await ctx.tick()
            image = [actual.image[group, b, addr[b]].tobytes() for b in range(pp)]
            image = image[turn:] + image[:turn]
            coming.append((image, weight) if en else None)
            answer = coming.popleft()
            if answer:
                for b, word in enumerate(answer[0]):
                    ctx.set(dut.read.data[b], int.from_bytes(word, "little"))
                for lane in range(cp):
                    ctx.set(
                        dut.read.weights[lane],
                        int.from_bytes(actual.weights[lane, answer[1]].tobytes(), "little"),
                    )
            if bias[0]:
                ctx.set(dut.bias.data, int.from_bytes(actual.bias[bias[1]].tobytes(), "little"))
            for b, word, value in writes:
                actual.image[out_group, b, word] = np.frombuffer(
                    value.to_bytes(cp, "little"), np.int8
                )
            written.extend([cycle] * bool(mask))
            if len(done) == len(program) and cycle - done[-1] >= latency.CONV_DONE:
                assert not ctx.get(dut.busy)
                assert written[-1] <= done[-1] + latency.CONV_DONE
                for _ in range(20):
                    await ctx.tick()
                    assert not ctx.get(dut.write.mask) and not ctx.get(dut.done)
                return
        raise AssertionError(f"deadline: {len(done)} of {len(program)} instructions done")

    simulator.run(feed, memory)
    return done, steps


def crowded(target, rng, init):
    """A legal CONV whose words lie close to those of others, so that it reads their results."""
    conv = random_conv(target, rng, init)
    near = {
        f.name: rng.randrange(80) for f in isa.Conv.bit_fields() if f.name.startswith("bank_addr_")
    }
    return dataclasses.replace(conv, **near, length=rng.choice([1, 2, 5, 9]))


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 6))]
)
def test_instructions_see_the_results_of_those_before(seed):
    target = Target.from_name("B64")
    rng = random.Random(f"crowded {seed}")
    expected = Banks(target, np.random.default_rng(seed))
    actual = Banks(target, np.random.default_rng(seed))
    program = []
    while len(program) < 40:
        init = dataclasses.replace(
            random_init(target, rng), jump_read_endl=rng.randint(1, 12),
            jump_write_endl=rng.randint(1, 12), kernel_h=rng.choice([1, 1, 2]),
        )  # fmt: skip
        convs = [crowded(target, rng, init) for _ in range(rng.randint(1, 4))]
        if legal.violations(init, target):
            continue
        program.append(init)
        for conv in convs:
            if walk_groups(target, init, conv) <= 4 and run_conv(target, expected, init, conv):
                program.append(conv)
    simulate(target, program, actual)
    np.testing.assert_array_equal(actual.image, expected.image)


def layer(*, addr_in, addr_out, to=0, length=7, groups=5):
    """A 1x1 CONV of all rows from group 0 to group ``to`` of B64."""
    return isa.Conv(
        bank_id_in=0, bank_id_out=2 * to, bank_addr_in=addr_in, bank_addr_out=addr_out,
        length=length, channel_group=groups,
    )  # fmt: skip


@pytest.mark.parametrize("addr_in", [0, 2040])
@pytest.mark.parametrize(
    ("first_out", "to", "waits"),
    [
        (35, 0, False),  # right behind what is read
        (2048 - 25, 0, False),  # the last word written is the one before the first read
        (2048 - 24, 0, True),  # it is that one
        (34, 0, True),
        (0, 1, False),  # the same words of another bank group
    ],
)
def test_a_conv_waits_only_for_words_it_may_read(addr_in, first_out, to, waits):
    target = Target.from_name("B64")
    init = isa.ConvInit(
        shift_cut=9, jump_read=5, jump_read_endl=5, jump_write=4, jump_write_endl=1,
        valid_pixel_parallel=2,
    )  # fmt: skip
    # the first of three writes what the second may read; the third goes elsewhere
    outs = [(addr_in + first_out) % 2048, 1000, 1200]
    convs = [
        layer(addr_in=a, addr_out=b, to=to) for a, b in zip((500, addr_in, 600), outs, strict=True)
    ]
    actual = Banks(target, np.random.default_rng(0))
    expected = Banks(target, np.random.default_rng(0))
    for conv in convs:
        assert run_conv(target, expected, init, conv)
    _, steps = simulate(target, [init, *convs], actual)
    np.testing.assert_array_equal(actual.image, expected.image)
    gaps = [b - a for a, b in itertools.pairwise(steps) if b - a > 1]
    waiting = latency.conv(target) + 2 - latency.CONV_READABLE
    assert gaps == ([waiting] if waits else [])


WRITER = isa.ConvInit(shift_cut=9, jump_read=1, jump_write=1, valid_pixel_parallel=2)
READERS = {
    "columns": (400, {"jump_read": 400}, {"length": 2}),
    "taps": (200, {"jump_read": 200, "kernel_w": 2}, {}),
    "rows of a bank": (500, {"jump_read_endl": 500, "kernel_h": 2, "stride_h": 2}, {}),
    "channel groups": (1, {}, {"channel_group": 2}),
}
"""Which word a CONV reads in its second step, counted from its first one."""


@pytest.mark.parametrize("second", [False, True], ids=["one writer", "two writers"])
@pytest.mark.parametrize("part", READERS)
def test_a_conv_waits_for_every_word_it_reads(part, second):
    """The word is written right before, and perhaps another one by a CONV between the two."""
    target = Target.from_name("B64")
    word, changes, fields = READERS[part]
    init = dataclasses.replace(WRITER, **{"jump_write": 20, **changes})
    program = [WRITER, isa.Conv(bank_addr_in=1000, bank_addr_out=word, channel_group=8)]
    if second:
        program.append(isa.Conv(bank_addr_in=1100, bank_addr_out=1200))
    program += [init, isa.Conv(bank_addr_out=1300, pad_right=15, pad_bottom=15, **fields)]
    expected = Banks(target, np.random.default_rng(2))
    actual = Banks(target, np.random.default_rng(2))
    for instruction in program:
        if isinstance(instruction, isa.ConvInit):
            init = instruction
        else:
            assert run_conv(target, expected, init, instruction)
    simulate(target, program, actual)
    np.testing.assert_array_equal(actual.image, expected.image)


@pytest.mark.parametrize(("stride_w", "kernel_w"), [(3, 3), (16, 2)])
def test_padding_on_the_right_of_the_longest_rows(stride_w, kernel_w):
    """The columns up to the right border of an input row, up to 16 times the longest length."""
    target = Target.from_name("B64")
    init = isa.ConvInit(
        shift_cut=8, jump_read=1, jump_read_endl=1, jump_write=1, jump_write_endl=1,
        stride_w=stride_w, kernel_w=kernel_w, valid_pixel_parallel=2,
    )  # fmt: skip
    conv = isa.Conv(length=1024, bank_id_out=2, pad_left=1)
    actual = Banks(target, np.random.default_rng(stride_w))
    expected = Banks(target, np.random.default_rng(stride_w))
    assert run_conv(target, expected, init, conv)
    simulate(target, [init, conv], actual)
    np.testing.assert_array_equal(actual.image, expected.image)


@pytest.mark.parametrize(
    ("name", "options", "lanes"),
    [
        ("B512", {"sparing": False}, 0),
        ("B4096", {"sparing": False}, 16),
        ("B4096", {"sparing": True}, 11),
        ("B1600", {"sparing": True}, 7),
        ("B512", {"sparing": True, "double_rate": True}, 8),
    ],
)
def test_lanes_with_blocks_for_leaky_relu(name, options, lanes):
    assert lanes_with_leaky_blocks(Target.from_name(name), **options) == lanes
