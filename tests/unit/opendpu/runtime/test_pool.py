# SPDX-License-Identifier: Apache-2.0
"""Pools of cores: who gets one, in which order, and what a process shares."""

import threading

import numpy as np
import pytest

from opendpu.runtime import Runner, devices
from opendpu.runtime.device import Job, JobStatistics
from opendpu.runtime.devices import open_device
from opendpu.runtime.pool import DevicePool
from opendpu_arch.errors import DPUError, UnsupportedError
from opendpu_arch.target import Target

PATIENCE = 20
"""Seconds after which a test is wrong rather than slow."""


class Gated:
    """A core whose jobs end when they are told to, and which notes their codes."""

    name = "gated"
    target = Target.from_name("B64")

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.gate = threading.Semaphore(0)
        self.closed = 0
        self.cancelled = 0

    def run(self, job: Job) -> JobStatistics:
        self.begun.append(job.code)
        assert self.gate.acquire(timeout=PATIENCE)
        return JobStatistics(device=self.name)

    def cancel(self) -> None:
        self.cancelled += 1
        self.gate.release()

    def close(self) -> None:
        self.closed += 1


class Thread(threading.Thread):
    """Runs a job, and keeps its error."""

    def __init__(self, device, code: bytes) -> None:
        super().__init__(daemon=True)
        self.device, self.code = device, code
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.device.run(Job(self.code, {}))
        except DPUError as error:
            self.error = error


def started(pool: DevicePool, device, code: bytes) -> Thread:
    """Start a job and wait until it has a core, or a place in the queue."""
    before = waiting(pool) + sum(len(core.begun) for core in pool.cores)
    thread = Thread(device, code)
    thread.start()
    for _ in range(PATIENCE * 1000):
        if waiting(pool) + sum(len(core.begun) for core in pool.cores) > before:
            return thread
        threading.Event().wait(0.001)
    raise AssertionError("the job neither began nor waits")


def waiting(pool: DevicePool) -> int:
    return sum(len(turns) for turns in pool._waiting.values())


def test_clients_take_turns():
    core = Gated()
    pool = DevicePool([core])
    greedy, modest = pool.lease(), pool.lease()
    threads = [started(pool, greedy, b"g%d" % i) for i in range(4)]
    threads += [started(pool, modest, b"m%d" % i) for i in range(2)]
    for _ in threads:
        core.gate.release()
    for thread in threads:
        thread.join(PATIENCE)
    assert core.begun == [b"g0", b"g1", b"m0", b"g2", b"m1", b"g3"]


def test_cores_work_at_the_same_time():
    cores = [Gated(), Gated()]
    pool = DevicePool(cores)
    threads = [started(pool, pool, code) for code in (b"a", b"b", b"c")]
    assert [core.begun for core in cores] == [[b"a"], [b"b"]]
    cores[1].gate.release()
    threads[1].join(PATIENCE)
    cores[1].gate.release()
    threads[2].join(PATIENCE)
    assert cores[1].begun == [b"b", b"c"]
    cores[0].gate.release()
    threads[0].join(PATIENCE)
    pool.close()
    assert [core.closed for core in cores] == [1, 1]


def test_a_failed_job_gives_its_core_back():
    class Failing(Gated):
        def run(self, job: Job) -> JobStatistics:
            if job.code == b"bad":
                raise DPUError("bad job")
            return JobStatistics(device=self.name)

    pool = DevicePool([Failing()])
    with pytest.raises(DPUError, match="bad job"):
        pool.run(Job(b"bad", {}))
    assert pool.run(Job(b"good", {})).device == "gated"


def test_cancelling_ends_the_jobs_of_one_client():
    core = Gated()
    pool = DevicePool([core])
    mine, other = pool.lease(), pool.lease()
    first, second = started(pool, mine, b"1"), started(pool, mine, b"2")
    theirs = started(pool, other, b"3")
    other.cancel()
    theirs.join(PATIENCE)
    assert "a job for 1 'gated' cores was cancelled" in str(theirs.error)
    mine.cancel()
    first.join(PATIENCE)
    second.join(PATIENCE)
    assert first.error is None
    assert second.error is not None
    assert (core.begun, core.cancelled) == ([b"1"], 1)


def test_a_closed_pool_takes_no_jobs():
    core = Gated()
    pool = DevicePool([core])
    running, queued = started(pool, pool, b"1"), started(pool, pool, b"2")
    pool.close()
    queued.join(PATIENCE)
    assert queued.error is not None
    core.gate.release()
    running.join(PATIENCE)
    with pytest.raises(DPUError, match="the pool of 1 'gated' cores is closed"):
        pool.run(Job(b"3", {}))
    with pytest.raises(UnsupportedError, match="needs at least one core"):
        DevicePool([])


def test_a_process_shares_its_cores(monkeypatch):
    monkeypatch.setenv("XLNX_DPU_DEVICE_CORES", "0,1,1,3")
    first, second = open_device("iss", "B64"), open_device("iss", "B64")
    assert first.pool is second.pool
    assert [core.name for core in first.pool.cores] == ["iss"] * 3
    other = open_device("iss", "B64", check=True)
    assert other.pool is not first.pool
    own = open_device("iss", "B64", cores=0)
    assert not hasattr(own, "pool")
    for device in (first, second, other):
        device.close()
        device.close()
    assert not devices._POOLS._pools
    again = open_device("iss", "B64")
    assert again.pool is not first.pool
    again.close()


@pytest.mark.parametrize(
    ("variable", "cores", "message"),
    [
        ("0;1", None, "XLNX_DPU_DEVICE_CORES is '0;1', but must be numbers of cores with commas"),
        ("-1", None, "XLNX_DPU_DEVICE_CORES is '-1', but must be"),
        (",".join(map(str, range(65))), None, "number of cores in XLNX_DPU_DEVICE_CORES is 65, "),
        ("", 65, r"cores is 65, but must be a number of cores in 1\.\.64"),
        ("", -1, "cores is -1, but must be"),
        ("", True, "cores is True, but must be"),
    ],
)
def test_wrong_numbers_of_cores(monkeypatch, variable, cores, message):
    monkeypatch.setenv("XLNX_DPU_DEVICE_CORES", variable)
    with pytest.raises(UnsupportedError, match=message):
        open_device("iss", "B64", cores=cores)


def test_runners_on_shared_cores(copy_subgraph, image):
    runners = [Runner(copy_subgraph, device="iss", cores=2) for _ in range(3)]
    for runner in runners:
        with runner:
            np.testing.assert_array_equal(runner.run([image])["y"], image)
    assert not devices._POOLS._pools
