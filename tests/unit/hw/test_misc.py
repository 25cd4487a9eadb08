# SPDX-License-Identifier: Apache-2.0
"""The MISC engine as a whole: mixed programs, order, hazards, speed, abort."""

import dataclasses
import random

import numpy as np
import pytest
from misc_bench import Memories, Reference, check, run
from misc_draws import anything, crowded, pointwise_alu

from opendpu_arch import isa, latency
from opendpu_arch.isa import AluMode
from opendpu_arch.target import Target
from opendpu_hw.engine.misc_plan import effective_taps


@pytest.mark.parametrize("name", ["B64", "B128"])
def test_random_pointwise(name):
    check(pointwise_alu, Target.from_name(name), seed=random.randrange(1 << 32))


@pytest.mark.parametrize("stall", [0, 0.5])
def test_random_mixture(stall):
    check(anything, Target.from_name("B64"), seed=random.randrange(1 << 32), count=6, stall=stall)


@pytest.mark.parametrize("stall", [0, 0.5])
def test_instructions_see_the_results_of_those_before(stall):
    check(crowded, Target.from_name("B64"), seed=random.randrange(1 << 32), count=6, stall=stall)


def pair(target, mode=AluMode.DWCV, *, kernel=3, stride=1, length=12, groups=2, source=0):
    """ALUINIT and ALU of one row block from bank group ``source`` to the other."""
    pp = target.pixel_parallel
    return [
        isa.AluInit(
            exec_mode=mode, kernel_h=kernel, kernel_w=kernel, stride_h=stride, stride_w=stride,
            stride_offset_in=0, stride_offset_out=0, stride_out=1, channel_group=groups,
            channel_offset=0, length=length, shift_prelu_p=33, act_type=0, shift_bias=0,
            shift_cut=9, shift_prelu_n=40, multi_factor=7, jump_read=groups, jump_read_endl=100,
            jump_read_weights=groups, jump_write=groups, jump_write_endl=100,
        ),
        isa.Alu(
            bank_id_in=source * pp, bank_id_out=(1 - source) * pp, bank_addr_in=0,
            bank_addr_in_1=200, bank_addr_in_2=400, bank_addr_in_3=600, bank_addr_out=1000,
            valid_pixel_parallel=target.alu_pixel_parallel, pad_left=1, pad_top=1, pad_right=255,
            pad_bottom=255, kernel_d=1, bank_addr_weights=5, bank_addr_bias=9,
        ),
    ]  # fmt: skip


def elew(target, *, inputs, length=12, groups=2):
    """ELEWINITs and ELEW from bank group 0 to 1."""
    rows = target.alu_pixel_parallel
    return [
        *(
            isa.ElewInit(
                bank_id_in=0, share_pp=0, jump_bank=1, id=n, jump_read_endl=1,
                bank_addr_in=100 * n, shift_read=0, jump_read=groups,
            )
            for n in range(inputs)
        ),
        isa.Elew(
            bank_id_out=target.pixel_parallel, elew_type=0, act_type=0, length=length,
            valid_pixel_parallel=rows, num=inputs, jump_write_endl=1, bank_addr_out=1000,
            channel_group=groups, shift_write=0, jump_write=groups,
        ),
    ]  # fmt: skip


def cycles_between(target, sequence, **options):
    """Cycles from the end of one instruction to that of the same again, done three times."""
    program = sequence * 3
    memories = Memories(target, random.Random(1))
    done, active = run(target, program, memories, **options)
    ends = [done[n] for n in range(len(sequence) - 1, len(program), len(sequence))]
    assert ends[2] - ends[1] == ends[1] - ends[0]
    assert active == 3 * (ends[1] - ends[0])
    return ends[1] - ends[0]


@pytest.mark.parametrize(
    ("taps", "kernel", "stride", "steps"),
    [
        (1, 3, 1, 9),
        (1, 3, 2, 9),
        (3, 3, 1, 3),
        (3, 3, 2, 4),
        (3, 5, 1, 10),
        (3, 5, 2, 10),
        (3, 2, 2, 4),
        (3, 9, 1, 27),
    ],
)
@pytest.mark.parametrize(
    "mode", [AluMode.DWCV, pytest.param(AluMode.MAXPOOL, marks=pytest.mark.slow)]
)
def test_a_step_a_cycle_without_gaps(mode, taps, kernel, stride, steps):
    target = Target.from_name("B128")
    if taps == 3 and kernel == 9 and mode == AluMode.DWCV:
        steps = 81  # too many taps to keep: one word of weights a cycle
    length, groups = (4, 2) if kernel == 9 else (12, 2)
    sequence = pair(target, mode, kernel=kernel, stride=stride, length=length, groups=groups)
    if steps == 81:
        done, _ = run(target, sequence, Memories(target, random.Random(1)))
        assert done[1] < steps * length * groups + 60
    else:
        first_column = 2 if (taps, kernel, stride) == (3, 3, 2) else 0  # nothing is kept yet
        cycles = cycles_between(target, sequence, taps_per_cycle=taps, window=False)
        assert cycles == (steps * length + first_column) * groups


@pytest.mark.parametrize(
    "mode",
    [
        AluMode.DWCV, AluMode.MAXPOOL,
        *(pytest.param(mode, marks=pytest.mark.slow) for mode in (AluMode.DWCVB0, AluMode.AVEPOOL)),
    ],
)  # fmt: skip
def test_whole_windows_take_a_cycle_a_column_and_two_a_group(mode):
    target = Target.from_name("B128")
    for length, groups in ((12, 2), (7, 5)):
        sequence = pair(target, mode, length=length, groups=groups)
        assert cycles_between(target, sequence) == (length + 2) * groups


@pytest.mark.parametrize(
    ("kernel", "stride"), [(3, 1), (3, 2), pytest.param(5, 1, marks=pytest.mark.slow)]
)
def test_weights_of_16_bits_take_a_cycle_a_tap(kernel, stride):
    target = Target.from_name("B128")
    sequence = pair(target, AluMode.DWCVW16B0, kernel=kernel, stride=stride)
    assert cycles_between(target, sequence) == kernel * kernel * 12 * 2


def test_whole_windows_need_three_taps_of_a_column():
    target = Target.from_name("B64")
    assert effective_taps(target, 3) == 2
    assert cycles_between(target, pair(target)) == 6 * 12 * 2


@pytest.mark.parametrize("mode", [AluMode.HSIGMOID, AluMode.PRELU, AluMode.LEAKYRELU])
def test_pointwise_takes_a_cycle_a_column(mode):
    target = Target.from_name("B128")
    assert cycles_between(target, pair(target, mode, kernel=1)) == 24


def check_program(target, program, **options):
    """Compare all image banks with the reference."""
    memories = Memories(target, random.Random(3))
    after = memories.copy()
    reference = Reference(after)
    for i in program:
        reference.execute(i)
    run(target, program, memories, **options)
    assert np.array_equal(memories.image, after.image)


@pytest.mark.parametrize(
    "mode", [AluMode.HSIGMOID, AluMode.DWCV, pytest.param(AluMode.MAXPOOL, marks=pytest.mark.slow)]
)
def test_results_wait_while_nothing_can_be_written(mode):
    target = Target.from_name("B128")
    program = pair(target, mode, kernel=1 if mode == AluMode.HSIGMOID else 3, length=40)
    check_program(target, program, closed=range(400))


@pytest.mark.parametrize("reader", ["ALU", "ELEW"])
def test_a_reader_waits_for_results_that_cannot_be_written_yet(reader):
    target = Target.from_name("B64")
    write = pair(target, AluMode.HSIGMOID, kernel=1, length=5)
    if reader == "ALU":
        init, alu = pair(target, AluMode.HSIGMOID, kernel=1, length=5, source=1)
        read = [init, dataclasses.replace(alu, bank_addr_in=1000, bank_addr_out=1500)]
    else:
        first, *others = elew(target, inputs=1, length=5)
        there = dataclasses.replace(first, bank_id_in=target.pixel_parallel, bank_addr_in=1000)
        read = [there, *(dataclasses.replace(i, bank_id_out=0) for i in others)]
    check_program(target, [*write, *read], closed=range(200))


@pytest.mark.parametrize(("bank", "waits"), [(0, True), (1, False)])
def test_an_elew_waits_only_for_banks_that_it_reads(bank, waits):
    """The first one writes a bank of group 1; the second reads one of that group."""
    target = Target.from_name("B128")
    pp, length = target.pixel_parallel, 12
    first, write = elew(target, inputs=1, length=length, groups=1)
    write = dataclasses.replace(write, valid_pixel_parallel=1)
    second = dataclasses.replace(first, bank_id_in=pp + bank, bank_addr_in=1000)
    program = [first, write, second, dataclasses.replace(write, bank_id_out=0)]
    check_program(target, program)
    done, _ = run(target, program, Memories(target, random.Random(1)))
    gap = done[3] - done[1] - length
    assert gap > latency.MISC_RESULT if waits else gap == 0


def test_weights_wait_while_nothing_can_be_written():
    """They come for each column anew, a word a cycle, until there is no more room for them."""
    target = Target.from_name("B128")
    program = pair(target, kernel=9, length=24, groups=1)
    check_program(target, program, taps_per_cycle=1, closed=range(1800))


def test_hard_sigmoid_has_its_bound_for_every_shift():
    """2**32 before the shift is 64 after one of 26 bits, and nothing after one of 34."""
    target = Target.from_name("B64")
    init, alu = pair(target, AluMode.HSIGMOID, kernel=1, length=3, groups=1)
    program = []
    for number, shift_cut in enumerate(range(24, 36)):
        program.append(dataclasses.replace(init, shift_cut=shift_cut, shift_bias=20))
        program.append(dataclasses.replace(alu, bank_addr_out=alu.bank_addr_out + 10 * number))
    check_program(target, program)


@pytest.mark.parametrize("inputs", [1, 2, 4])
def test_eltwise_takes_a_cycle_an_input(inputs):
    target = Target.from_name("B128")
    assert cycles_between(target, elew(target, inputs=inputs)) == 24 * inputs


@pytest.mark.parametrize(
    ("name", "taps", "expected"),
    [("B4096", 3, 3), ("B4096", 1, 1), ("B512", 3, 3), ("B64", 3, 2), ("B4096", 9, 5)],
)
def test_taps_are_limited_by_banks(name, taps, expected):
    assert effective_taps(Target.from_name(name), taps) == expected


def test_inits_are_done_in_order_and_apply_to_later_instructions_only():
    target = Target.from_name("B64")
    first, second = pair(target, kernel=3), pair(target, AluMode.HSIGMOID, kernel=1, source=1)
    program = [*first, *second, first[0], *elew(target, inputs=2)]
    memories = Memories(target, random.Random(2))
    after = memories.copy()
    reference = Reference(after)
    for i in program:
        reference.execute(i)
    done, _ = run(target, program, memories)
    assert len(done) == len(program) and sorted(done) == done
    assert done[2] > done[1], "an INIT behind a long ALU is not done before it"
    assert np.array_equal(memories.image, after.image)


@pytest.mark.parametrize("stall", [0, 0.4])
def test_nothing_of_an_aborted_program_is_left(stall):
    seed = random.randrange(1 << 32)
    times, at = [], 0
    rng = random.Random(seed)
    for _ in range(6):
        at += rng.randint(4, 250)
        times.append(at)
    check(crowded, Target.from_name("B64"), seed=seed, stall=stall, abort_at=times)
