# SPDX-License-Identifier: Apache-2.0
"""Extensions on the RTL: results, cycles, and that they cost plain programs nothing."""

import dataclasses
import functools

import numpy as np
import pytest

from opendpu.runtime.device import Job
from opendpu_arch import isa, legal
from opendpu_arch.target import Target
from opendpu_sim.cycle.device import CycleDevice
from opendpu_sim.device import IssDevice
from opendpu_sim.progen import ENGINES, random_program
from opendpu_sim.rtl.device import RtlDevice

pytestmark = pytest.mark.cosim

NAME = "B64+table+channel+scaled"
TARGET = Target.from_name(NAME)
MEMORIES = ["ideal", "kv260", "stall:7"]


@functools.cache
def devices(name, memory):
    target = Target.from_name(name)
    rtl = RtlDevice(target, memory=memory, trace=True, timeout_cycles=5_000_000)
    return IssDevice(target), rtl, CycleDevice(target, memory=memory, results=False)


def compare(name, memory, code, segments, where):
    """Memory as the functional simulator's, every start and end as the cycle model's."""
    iss, rtl, cycle = devices(name, memory)
    expected, found = ({r: s.copy() for r, s in segments.items()} for _ in range(2))
    iss.run(Job(code, expected))
    measured = rtl.run(Job(code, found))
    predicted = cycle.run(Job(code, segments))
    for reg in segments:
        np.testing.assert_array_equal(found[reg], expected[reg], where)
    for which in ("start", "end"):
        wanted, told = (getattr(s.timeline, which) for s in (measured, predicted))
        wrong = np.flatnonzero(wanted != told)
        assert not wrong.size, (
            f"{where}: {which} of {isa.decode(code)[wrong[0]]}: {told[wrong[0]]}, "
            f"RTL {wanted[wrong[0]]}"
        )
    assert predicted.cycles == measured.cycles, where
    return measured


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("engine", ENGINES)
def test_random_programs(engine, memory, rng):
    for _ in range(5):
        seed = int(rng.integers(1 << 30))
        code, segments = random_program(engine, TARGET, seed)
        where = f"random_program({engine!r}, {TARGET.name}, {seed}) {memory}"
        compare(NAME, memory, code, segments, where)


def test_plain_programs_take_the_same_cycles(rng):
    for number in range(40):
        seed = int(rng.integers(1 << 30))
        code, segments = random_program(ENGINES[number % len(ENGINES)], TARGET.plain, seed)
        extended = devices(NAME, "kv260")[1].run(Job(code, dict(segments)))
        plain = devices("B64", "kv260")[1].run(Job(code, dict(segments)))
        where = f"random_program({ENGINES[number % len(ENGINES)]!r}, B64, {seed})"
        np.testing.assert_array_equal(extended.timeline.end, plain.timeline.end, where)
        assert extended.cycles == plain.cycles, where


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["conv", "dwconv", "pool", "eltwise", "mixed"])
def test_multipliers_alone_with_more_pixels(engine, rng):
    """Four pixels of a column and two rows of MISC take turns, and there is no other extension.

    With a vendor's primitives the same target is one of the quick ones (``test_vendor``).
    """
    target = Target.from_name("B128+scaled")
    for number in range(8):
        seed = int(rng.integers(1 << 30))
        code, segments = random_program(engine, target, seed)
        memory = MEMORIES[number % len(MEMORIES)]
        where = f"random_program({engine!r}, {target.name}, {seed}) {memory}"
        compare("B128+scaled", memory, code, segments, where)


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine, seed, memory", [("eltwise", 47323462, "stall:7"), ("mixed", 291976137, "ideal")]
)
def test_columns_of_two_rows_as_close_as_they_may_be(engine, seed, memory):
    """The second row's turn comes when the next column's sums are there."""
    code, segments = random_program(engine, Target.from_name("B128+scaled"), seed)
    compare("B128+scaled", memory, code, segments, f"{engine} {seed}")


@pytest.mark.slow
def test_a_column_with_a_table_close_behind_one_without():
    """Both by multipliers: the one before ended a second time, and all columns moved by one."""
    name = "B512+table+channel+scaled"
    code, segments = random_program("eltwise", Target.from_name(name), 50016)
    compare(name, "ideal", code, segments, "eltwise 50016")


@pytest.mark.parametrize("table", [0, 3])
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 16])
def test_end_while_multipliers_finish(stride, table):
    """END aborts what is left in them, which a CONV with a wide stride has not by then."""
    init = isa.ConvInit(stride_out=stride, jump_write_endl=40, valid_pixel_parallel=2)
    conv = isa.Conv(length=250, bank_id_out=2, table=table, scaled=1)
    compare(NAME, "ideal", isa.encode([init, conv, isa.End()]), {}, f"{stride} {table}")


def switching_convs(rng):
    """CONVs of few steps, rows that share a bank, hazards; some with tables, with multipliers."""
    program = []
    for _ in range(5):
        stride_out = int(rng.choice([1, 1, 2, 3, 16]))
        init = isa.ConvInit(
            kernel_w=int(rng.integers(1, 3)), stride_out=stride_out, jump_write_endl=40,
            valid_pixel_parallel=2, stride_offset_out=int(rng.integers(min(stride_out, 8))),
            shift_cut=8,
        )  # fmt: skip
        program.append(init)
        for _ in range(6):
            near = {n: int(rng.integers(60)) for n in ("bank_addr_in", "bank_addr_out")}
            ids = {n: int(rng.integers(4)) for n in ("bank_id_in", "bank_id_out")}
            length, groups = (int(n) for n in rng.integers(1, (12, 4)))
            table = int(rng.choice([0, 0, 1, 8]))
            program.append(
                isa.Conv(
                    length=length,
                    channel_group=groups,
                    table=table,
                    scaled=int(rng.integers(2)),
                    **near,
                    **ids,
                )
            )
            assert not legal.violations(program[-1], TARGET, init=init)
    return isa.encode([*program, isa.End()])


def switching_elews(rng):
    """Sums and products that follow each other; some have tables, multipliers."""
    program = []
    for _ in range(30):
        multiply = bool(rng.integers(2))
        count = 2 if multiply else int(rng.integers(1, 4))
        program += [
            isa.ElewInit(id=n, bank_id_in=int(rng.integers(2)), bank_addr_in=64 * n, jump_read=1)
            for n in range(count)
        ]
        program.append(
            isa.Elew(
                num=count,
                elew_type=isa.ElewType.MULT if multiply else isa.ElewType.ADD,
                length=int(rng.integers(1, 6)),
                bank_id_out=int(rng.integers(2, 4)),
                bank_addr_out=int(rng.integers(64)),
                table=int(rng.choice([0, 0, 3])),
                scaled=int(rng.integers(2)),
            )
        )
    return isa.encode([*program, isa.End()])


@pytest.mark.parametrize("memory", ["ideal", "kv260"])
@pytest.mark.parametrize("draw", [switching_convs, switching_elews])
def test_what_results_go_through_is_switched_without_a_bubble(draw, memory, rng):
    for number in range(25):
        compare(NAME, memory, draw(rng), {}, f"{draw.__name__} number {number}")


def products_among_others(rng):
    """Products of terms, which are computed late, between sums and maxima of one and two rows."""
    program = [isa.AluInit(exec_mode=isa.AluMode.MAXPOOL)]
    for _ in range(40):
        kind = rng.choice(["product", "sum", "maximum"], p=[0.5, 0.25, 0.25])
        common = {
            "length": int(rng.integers(1, 6)),
            "bank_id_out": int(rng.integers(4, 8)),
            "bank_addr_out": int(rng.integers(64)),
            "scaled": int(rng.integers(4) > 0),
        }
        if kind == "maximum":
            del common["length"]
            program.append(isa.Alu(bank_id_in=int(rng.integers(4)), **common))
            continue
        count = 2 if kind == "product" else int(rng.integers(1, 4))
        program += [
            isa.ElewInit(id=n, bank_id_in=int(rng.integers(4)), bank_addr_in=64 * n)
            for n in range(count)
        ]
        of_kind = isa.ElewType.MULT if kind == "product" else isa.ElewType.ADD
        rows = int(rng.integers(1, 3))
        program.append(isa.Elew(num=count, elew_type=of_kind, valid_pixel_parallel=rows, **common))
    return isa.encode([*program, isa.End()])


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["ideal", "kv260"])
def test_late_products_meet_no_other_step(memory, rng):
    for number in range(25):
        code = products_among_others(rng)
        compare("B128+scaled", memory, code, {}, f"products_among_others number {number}")


def test_switching_tables_takes_no_cycle():
    """CONVs with a table each take what CONVs with one table take."""
    init = isa.ConvInit(kernel_w=2, valid_pixel_parallel=2)
    convs = [isa.Conv(length=20, bank_id_out=2, table=1 + n % 8) for n in range(16)]
    same = [dataclasses.replace(c, table=1) for c in convs]
    without = [dataclasses.replace(c, table=0) for c in convs]
    cycles = [
        devices(NAME, "ideal")[1].run(Job(isa.encode([init, *c, isa.End()]), {})).cycles
        for c in (convs, same, without)
    ]
    assert cycles[0] == cycles[1] == cycles[2] + 1


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["ideal", "kv260", "stall"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", [NAME, "B512+table+channel+scaled", "B4096+table+channel+scaled"])
def test_for_long(name, engine, memory):
    target = Target.from_name(name)
    for seed in range(30_000, 30_000 + (150 if name == NAME else 20)):
        model = f"stall:{seed // 50}" if memory == "stall" else memory
        code, segments = random_program(engine, target, seed)
        where = f"random_program({engine!r}, {name}, {seed}) {model}"
        compare(name, model, code, segments, where)
