# SPDX-License-Identifier: Apache-2.0
"""The functional simulator as a device."""

import threading

import numpy as np
import pytest

from opendpu.runtime.device import Device, Job, JobStatistics
from opendpu_arch import isa
from opendpu_arch.errors import IllegalInstructionError, UninitializedReadError
from opendpu_arch.target import Target
from opendpu_sim.device import CACHED_PROGRAMS, IssDevice
from opendpu_sim.model.machine import Program, plan
from opendpu_sim.progen import random_program

B128 = Target(arch=8, alu_pixel_parallel=2)


def test_it_is_a_device() -> None:
    device = IssDevice(B128)
    assert isinstance(device, Device)
    assert (device.name, device.target) == ("iss", B128)
    device.close()


def test_statistics() -> None:
    code = isa.encode([
        isa.Load(channel=10, length=3, jump_read=5, jump_write=3),
        isa.Load(broadcast=7, channel=100, jump_write=25),
        isa.Save(channel=4, length=2, jump_write=4, reg_id=1),
        isa.Save(channel=4, argmax=2, reg_id=1),
        isa.End(),
    ])  # fmt: skip
    segments = {0: np.arange(99).astype(np.uint8), 1: np.zeros(16, np.uint8)}
    statistics = IssDevice(B128, memory="ideal").run(Job(code, segments))
    assert isinstance(statistics, JobStatistics)
    assert (statistics.device, statistics.memory, statistics.cycles) == ("iss", "ideal", 0)
    assert (statistics.instructions, statistics.bytes_read) == (5, 30)
    assert statistics.bytes_written == 9
    assert statistics.wall_seconds > 0


def test_errors_come_out_of_run_and_the_device_goes_on() -> None:
    device = IssDevice(B128, check=True)
    with pytest.raises(IllegalInstructionError):
        device.run(Job(isa.encode([isa.Save(bank_id=63), isa.End()]), {}))
    save = isa.encode([isa.Save(channel=4), isa.End()])
    with pytest.raises(UninitializedReadError):
        device.run(Job(save, {0: np.zeros(16, np.uint8)}))
    code, segments = random_program("mixed", B128, 0)
    assert device.run(Job(code, segments)).instructions == len(isa.decode(code))


def test_runs_do_not_see_each_other() -> None:
    """Banks start undefined in every run, whatever ran before on the device."""
    device = IssDevice(B128)
    first = isa.encode([isa.Load(channel=4), isa.End()])
    second = isa.encode([isa.Save(channel=4), isa.End()])
    device.run(Job(first, {0: np.full(16, 9, np.uint8)}))
    memory = np.full(16, 5, np.uint8)
    device.run(Job(second, {0: memory}))
    assert memory.tolist() == [0] * 4 + [5] * 12


def test_threads_share_a_device() -> None:
    device = IssDevice(B128)
    jobs = [random_program("mixed", B128, seed) for seed in range(6)]
    expected = []
    for code, segments in jobs:
        copy = {k: v.copy() for k, v in segments.items()}
        IssDevice(B128).run(Job(code, copy))
        expected.append(copy[1])
    failures: list[str] = []

    def work(seed: int) -> None:
        try:
            for turn in range(10):
                number = (seed + turn) % len(jobs)
                code, segments = jobs[number]
                copy = {k: v.copy() for k, v in segments.items()}
                device.run(Job(code, copy))
                if not (copy[1] == expected[number]).all():
                    failures.append(f"program {number}")
        except Exception as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_the_plan_cache_is_bounded() -> None:
    device = IssDevice(B128)
    for value in range(CACHED_PROGRAMS + 3):
        device.run(Job(isa.encode([isa.Load(bank_addr=value), isa.End()]), {0: np.zeros(1, "u1")}))
    assert len(device._programs) == CACHED_PROGRAMS
    device.close()
    assert len(device._programs) == 0


def test_a_program_in_use_stays_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[bytes] = []

    def counted(code: bytes, target: Target, **options: int | None) -> Program:
        planned.append(code)
        return plan(code, target, **options)

    monkeypatch.setattr("opendpu_sim.device.plan", counted)
    device = IssDevice(B128)
    codes = [isa.encode([isa.Load(bank_addr=n), isa.End()]) for n in range(2 * CACHED_PROGRAMS)]
    for code in codes:
        for each in (codes[0], code):
            device.run(Job(each, {0: np.zeros(1, np.uint8)}))
    assert planned == codes
