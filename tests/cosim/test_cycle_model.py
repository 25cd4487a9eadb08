# SPDX-License-Identifier: Apache-2.0
"""The cycle model against the RTL, instruction by instruction: exactly the same cycles."""

import functools
import pathlib
import sys

import numpy as np
import pytest

import xir
from opendpu.compiler.backend import build
from opendpu.compiler.planner.revise import BankCapacityError
from opendpu.runtime.device import Job
from opendpu.runtime.program import Program
from opendpu_arch import errors, isa, legal
from opendpu_arch.target import Target
from opendpu_sim.cycle.device import CycleDevice
from opendpu_sim.progen import ENGINES, random_program
from opendpu_sim.rtl.device import RtlDevice

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "unit" / "opendpu" / "compiler"))

from network_draws import draw_network  # noqa: E402

pytestmark = pytest.mark.cosim

MEMORIES = ["ideal", "kv260", "stall:11"]


@functools.cache
def devices(name, memory, **options):
    target = Target.from_name(name)
    rtl = RtlDevice(target, memory=memory, trace=True, timeout_cycles=20_000_000, **options)
    return rtl, CycleDevice(target, memory=memory, results=False, **options)


def compare(name, memory, code, segments, where, **options):
    """Everything both devices say must agree."""
    rtl, cycle = devices(name, memory, **options)
    predicted = cycle.run(Job(code, segments))
    measured = rtl.run(Job(code, segments))
    for which in ("start", "end"):
        wanted, found = (getattr(s.timeline, which) for s in (measured, predicted))
        wrong = np.flatnonzero(wanted != found)
        assert not wrong.size, (
            f"{where}: {which} of {wrong.size} of {wanted.size} instructions, first "
            f"{wrong[0]} ({isa.decode(code)[wrong[0]]}): {found[wrong[0]]}, RTL {wanted[wrong[0]]}"
        )
    for figure in ("cycles", "instructions", "busy_cycles", "bytes_read", "bytes_written"):
        assert getattr(predicted, figure) == getattr(measured, figure), f"{where}: {figure}"


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("engine", ENGINES)
def test_random_programs(engine, memory, rng):
    for _ in range(6):
        seed = int(rng.integers(1 << 30))
        code, segments = random_program(engine, Target.from_name("B64"), seed)
        compare("B64", memory, code, segments, f"random_program({engine!r}, B64, {seed}) {memory}")


def crowded_convs(rng):
    """CONVs of few steps a column, close to each other: rows that share a bank, and hazards."""
    program = []
    for _ in range(4):
        stride_out = int(rng.integers(1, 5))
        init = isa.ConvInit(
            kernel_w=int(rng.integers(1, 3)), stride_out=stride_out, jump_write_endl=40,
            valid_pixel_parallel=2, stride_offset_out=int(rng.integers(stride_out)), shift_cut=8,
        )  # fmt: skip
        program.append(init)
        for _ in range(5):
            near = {n: int(rng.integers(60)) for n in ("bank_addr_in", "bank_addr_out")}
            ids = {n: int(rng.integers(4)) for n in ("bank_id_in", "bank_id_out")}
            length, groups = (int(n) for n in rng.integers(1, (12, 4)))
            program.append(isa.Conv(length=length, channel_group=groups, **near, **ids))
            assert not legal.violations(program[-1], Target.from_name("B64"), init=init)
    return isa.encode([*program, isa.End()])


@pytest.mark.parametrize("memory", ["ideal", "kv260"])
def test_convs_in_each_others_way(memory, rng):
    for number in range(20):
        compare("B64", memory, crowded_convs(rng), {}, f"crowded_convs number {number}")


def compare_networks(name, memory, count, rng):
    target = Target.from_name(name)
    for _ in range(count):
        seed = int(rng.integers(1 << 30))
        try:
            program = build(draw_network(seed), target)
        except BankCapacityError:
            continue  # a pooling window larger than so few banks
        segments = {r: np.zeros(max(n, 1), np.uint8) for r, n in program.plan.segment_bytes.items()}
        code = isa.encode(program.schedule.instructions)
        compare(name, memory, code, segments, f"draw_network({seed}) on {name} {memory}")


@pytest.mark.parametrize("memory", MEMORIES)
def test_compiled_networks(memory, rng):
    compare_networks("B64", memory, 6, rng)


@pytest.mark.slow
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", ["B128", "B512", "B1024", "B1600", "B4096"])
def test_other_targets(name, memory, rng):
    for engine in ENGINES:
        for _ in range(20):
            seed = int(rng.integers(1 << 30))
            code, segments = random_program(engine, Target.from_name(name), seed)
            compare(name, memory, code, segments, f"random_program({engine!r}, {name}, {seed})")
    compare_networks(name, memory, 20, rng)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_many_random_programs(engine, rng):
    for number in range(300):
        seed = int(rng.integers(1 << 30))
        code, segments = random_program(engine, Target.from_name("B64"), seed)
        memory = MEMORIES[number % 3]
        compare("B64", memory, code, segments, f"random_program({engine!r}, B64, {seed}) {memory}")


@pytest.mark.slow
@pytest.mark.parametrize("file", ["dpu_mnist_classifier.xmodel", "tf2_custom_op.xmodel"])
def test_programs_of_amds_compiler(file, models):
    graph = xir.Graph.deserialize(models / "amd_compiled" / file)
    parts = graph.get_root_subgraph().toposort_child_subgraph()
    for subgraph in (p for p in parts if p.get_attr("device") == "DPU"):
        program = Program.from_subgraph(subgraph)
        segments = {r: np.frombuffer(value, np.uint8) for r, value in program.constants.items()}
        segments |= {r: np.zeros(size, np.uint8) for r, size in program.sizes.items()}
        name = Target.from_fingerprint(program.fingerprint).name
        compare(name, "kv260", program.code, segments, file)


LOAD, SAVE = (1 << e for e in (isa.Engine.LOAD, isa.Engine.SAVE))


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ([isa.Save(dpdon=LOAD, channel=4), isa.End()], errors.DeadlockError),
        (
            [isa.Save(dpdon=LOAD, channel=4), *[isa.Save(channel=4)] * 70,
             isa.Load(channel=4, dpdby=SAVE), isa.End()],
            errors.DeadlockError,  # the LOAD does not get past a full queue
        ),
        ([isa.Load(channel=4, dpdby=SAVE), isa.End()], errors.TokenError),
        ([isa.Load(channel=4, ddr_addr=61), isa.End()], errors.AddressError),
        ([isa.Save(channel=4, reg_id=2), isa.End()], errors.AddressError),
        ([isa.Load(channel=4)], errors.ProgramError),
    ],
)  # fmt: skip
def test_what_stops_the_rtl_stops_the_model(program, error):
    for device in devices("B64", "ideal"):
        with pytest.raises(error):
            device.run(Job(isa.encode(program), {0: np.zeros(64, np.uint8)}))
