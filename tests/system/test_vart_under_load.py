# SPDX-License-Identifier: Apache-2.0
"""``vart`` with many jobs: right results from every thread, and memory that does not grow."""

import gc
import os
import pathlib
import random
import resource
import threading
import time

import numpy as np
import pytest

import vart
import xir
from opendpu.runtime import devices
from opendpu_arch.errors import DPUError

pytestmark = [pytest.mark.system, pytest.mark.slow]

THREADS, JOBS = 8, 1000
GROWTH = 32 << 20
"""Bytes that the process may take more after the first tenth of the jobs."""


def resident() -> int:
    """Return the memory of this process in bytes."""
    gc.collect()
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


class Load:
    """A DPU subgraph and what it gives for some inputs."""

    def __init__(self, models: pathlib.Path) -> None:
        folder = models / "amd_compiled"
        root = xir.Graph.deserialize(folder / "tf2_custom_op.xmodel").get_root_subgraph()
        found = [s for s in root.toposort_child_subgraph() if s.get_attr("device") == "DPU"]
        self.subgraph = found[1]
        golden = np.load(folder / "tf2_custom_op.golden.npz")
        self.cases = []
        for seed in ("seed1", "seed2", "seed3"):
            given, wanted = (
                [golden[key] for key in sorted(golden) if key.startswith(f"s1/{seed}/{side}/")]
                for side in ("in", "out")
            )
            self.cases.append((given, wanted))

    def run(self, runner: vart.Runner, jobs: int, depth: int, wrong: list[str]) -> None:
        """Run jobs, ``depth`` of them in flight, and compare what they give."""
        flight = []
        for number in range(jobs):
            given, wanted = self.cases[number % len(self.cases)]
            results = [np.empty_like(array) for array in wanted]
            flight.append((runner.execute_async(given, results), results, wanted))
            if len(flight) == depth or number == jobs - 1:
                for job, found, expected in flight:
                    runner.wait(job)
                    if any((a != b).any() for a, b in zip(found, expected, strict=True)):
                        wrong.append(f"job {job}")
                flight.clear()


@pytest.fixture
def load(models) -> Load:
    return Load(models)


@pytest.mark.parametrize("processes", [False, True])
def test_eight_threads_on_four_cores(load, monkeypatch, processes):
    monkeypatch.setenv("XLNX_DPU_DEVICE_CORES", "0,1,2,3")
    monkeypatch.setenv("OPENDPU_PROCESSES", str(int(processes)))
    wrong: list[str] = []
    runners = [vart.Runner.create_runner(load.subgraph, device="iss") for _ in range(THREADS)]

    def work(jobs: int) -> None:
        threads = [
            threading.Thread(target=load.run, args=(runner, jobs, 4, wrong)) for runner in runners
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    work(JOBS // 10)
    before = resident()
    work(JOBS - JOBS // 10)
    grown = resident() - before
    assert not wrong
    assert grown < GROWTH, f"{grown >> 20} MiB more"
    for runner in runners:
        runner._runner.close()
    assert not devices._POOLS._pools


def test_a_soak_of_mixed_jobs(load, monkeypatch):
    """Right and wrong jobs, short-lived runners and killed workers; ``OPENDPU_SOAK`` seconds."""
    seconds = float(os.environ.get("OPENDPU_SOAK", "60"))
    seed = int(os.environ.get("OPENDPU_SEED", random.randrange(1 << 32)))
    print(f"OPENDPU_SEED={seed}")
    chance = random.Random(seed)
    monkeypatch.setenv("XLNX_DPU_DEVICE_CORES", "0,1")
    monkeypatch.setenv("OPENDPU_PROCESSES", "1")
    lasting = vart.Runner.create_runner(load.subgraph, device="iss")
    end, done, before = time.monotonic() + seconds, 0, 0
    wrong: list[str] = []
    while time.monotonic() < end:
        kind = chance.randrange(10)
        if kind == 0:
            short = vart.Runner.create_runner(load.subgraph, device=chance.choice(["iss", "ref"]))
            load.run(short, 3, 2, wrong)
            short._runner.close()
        elif kind == 1:
            given, wanted = load.cases[0]
            with pytest.raises(DPUError):
                lasting.execute_async(given, [np.empty(3, np.int8) for _ in wanted])
        elif kind == 2 and chance.random() < 0.1:
            core = chance.choice(lasting._runner.device.pool.cores)
            os.kill(core.pid, 9)
            os.waitid(os.P_PID, core.pid, os.WEXITED | os.WNOWAIT)
        else:
            load.run(lasting, 10, chance.choice([1, 3, 10]), wrong)
        done += 1
        if done == 50:
            before = resident()
    assert not wrong
    assert done > 50
    assert resident() - before < GROWTH
    lasting._runner.close()
