# SPDX-License-Identifier: Apache-2.0
"""The cycle model as a device: statistics, results, errors. Needs a C++ compiler, no Verilator."""

import concurrent.futures
import importlib
import tomllib

import numpy as np
import pytest

from opendpu.runtime.device import Device, Job
from opendpu_arch import errors, isa
from opendpu_arch.target import Target
from opendpu_sim.cycle.device import CycleDevice
from opendpu_sim.device import IssDevice
from opendpu_sim.progen import random_program

pytestmark = pytest.mark.cosim

B64 = Target.from_name("B64")


def copies(segments):
    return {reg_id: content.copy() for reg_id, content in segments.items()}


def test_it_is_a_device_that_is_found_by_name(repository):
    text = (repository / "pyproject.toml").read_text(encoding="utf-8")
    entry = tomllib.loads(text)["project"]["entry-points"]["opendpu.device"]["cycle"]
    module, _, name = entry.partition(":")
    assert getattr(importlib.import_module(module), name) is CycleDevice
    device = CycleDevice(B64)
    assert isinstance(device, Device)
    assert (device.name, device.target) == ("cycle", B64)
    device.close()


def test_results_are_those_of_the_functional_simulator():
    code, segments = random_program("mixed", B64, 1)
    expected, found = copies(segments), copies(segments)
    IssDevice(B64).run(Job(code, expected))
    statistics = CycleDevice(B64, memory="ideal").run(Job(code, found))
    assert all(np.array_equal(expected[r], found[r]) for r in segments)
    assert statistics.cycles > 0
    assert (statistics.device, statistics.memory) == ("cycle", "ideal")


def test_without_results_nothing_is_written():
    code, segments = random_program("mixed", B64, 1)
    untouched = copies(segments)
    plain = CycleDevice(B64, results=False, trace=False).run(Job(code, untouched))
    assert all(np.array_equal(segments[r], untouched[r]) for r in segments)
    assert plain.timeline is None
    both = CycleDevice(B64).run(Job(code, copies(segments)))
    assert plain.cycles == both.cycles
    assert both.timeline.end.max() < both.cycles


def test_memory_matters():
    code, segments = random_program("mixed", B64, 1)
    cycles = [
        CycleDevice(B64, memory=memory, results=False).run(Job(code, segments)).cycles
        for memory in ("ideal", "kv260", "stall:1", "stall:2")
    ]
    assert len(set(cycles)) == 4
    assert cycles[0] < cycles[1]


def test_options_are_those_of_the_misc_engine():
    target = Target.from_name("B4096")
    code, segments = random_program("dwconv", target, 3)

    def cycles(**options):
        device = CycleDevice(target, memory="ideal", results=False, **options)
        return device.run(Job(code, segments)).cycles

    assert cycles(taps_per_cycle=3, window=True) == cycles()
    assert cycles(taps_per_cycle=1) > cycles()
    with pytest.raises(TypeError, match="taps_a_cycle"):
        CycleDevice(target, taps_a_cycle=1)


def test_several_jobs_at_a_time_and_more_programs_than_are_kept():
    device = CycleDevice(B64, memory="ideal", results=False)
    programs = [random_program("load", B64, seed) for seed in range(20)]
    wanted = [device.run(Job(*p)).cycles for p in programs]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda p: device.run(Job(*p)).cycles, programs * 3))
    assert found == wanted * 3


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (b"", errors.ProgramError, "0 instructions, but no END"),
        (b"123", errors.DecodeError, "must be a multiple of 4"),
        (b"\xff\xff\xff\xff", errors.DecodeError, "unknown opcode 0xf"),
        (isa.encode([isa.Conv(), isa.End()]), errors.IllegalInstructionError, "instruction 0 "),
        (
            isa.encode([isa.Load(channel=9), isa.Load(channel=8, ddr_addr=9), isa.End()]),
            errors.AddressError,
            r"instruction 1 \(LOAD\): what begins at ddr_addr 0x9 leaves segment 0, .* 16 bytes",
        ),
    ],
)
def test_errors_name_what_is_wrong(code, error, text):
    device = CycleDevice(B64, results=False)
    with pytest.raises(error, match=text):
        device.run(Job(code, {0: np.zeros(16, np.uint8)}))
    illegal = isa.encode([isa.Save(bank_id=63), isa.End()])
    with pytest.raises(errors.IllegalInstructionError):
        CycleDevice(B64).run(Job(illegal, {0: np.zeros(16, np.uint8)}))


def test_timeout():
    code, segments = random_program("mixed", B64, 0)
    with pytest.raises(errors.DPUTimeoutError, match="no END after 100 cycles"):
        CycleDevice(B64, results=False, timeout_cycles=100).run(Job(code, segments))
