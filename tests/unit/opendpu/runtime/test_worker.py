# SPDX-License-Identifier: Apache-2.0
"""Devices in processes of their own: results, errors, and what becomes of dead ones."""

import os
import signal
from typing import Any

import numpy as np
import pytest

from opendpu.runtime import GraphRunner, Runner, worker
from opendpu.runtime.device import Job
from opendpu.runtime.devices import open_device
from opendpu.runtime.worker import WorkerDevice
from opendpu_arch.errors import DPUError, ProgramError, ToolError, UnsupportedError
from opendpu_arch.target import Target

TARGET = Target.from_name("B64")
PATIENCE = 60
"""Seconds after which a test is wrong rather than slow."""


@pytest.fixture
def iss():
    """Return the functional simulator in another process."""
    device = WorkerDevice("iss", TARGET, "kv260", {})
    yield device
    device.close()


def test_jobs_run_in_another_process(iss, copy_subgraph, image):
    assert iss.computes
    assert iss.pid not in (None, os.getpid())
    runner = Runner(copy_subgraph, device=iss)
    for values in (image, -image, image + 1):
        np.testing.assert_array_equal(runner.run([values])["y"], values)
    assert runner.last_statistics.device == "iss"
    assert runner.last_statistics.instructions == 5


def test_segments_that_say_nothing_of_themselves(iss, copy_subgraph, image):
    """A job that does not tell what is given and wanted has all of its segments moved."""
    runner = Runner(copy_subgraph, device=iss)
    segments = runner._layout.complete(runner._layout.filled([image]))
    iss.run(Job(runner.program.code, segments))
    port = runner.program.outputs[0]
    np.testing.assert_array_equal(port.view(segments[3]).reshape(image.shape), image)


def test_errors_come_over(iss):
    with pytest.raises(ProgramError, match="END"):
        iss.run(Job(b"", {}))
    with pytest.raises(UnsupportedError, match="no device is called 'nothing'"):
        WorkerDevice("nothing", TARGET, "kv260", {})
    with pytest.raises(DPUError, match=r"TypeError: .*unexpected keyword argument 'wrong'"):
        WorkerDevice("iss", TARGET, "kv260", {"wrong": 1})


def test_the_device_ref_gets_its_subgraph(copy_graph, image):
    with GraphRunner(copy_graph, device="ref", cores=1, processes=True) as runner:
        for values in (image, -image):
            np.testing.assert_array_equal(runner.run([values])["z"], values / np.float32(4))


def test_a_process_that_dies_at_work_is_reported_and_replaced(
    iss, copy_subgraph, image, monkeypatch
):
    runner = Runner(copy_subgraph, device=iss)
    np.testing.assert_array_equal(runner.run([image])["y"], image)
    killed = iss.pid
    receive = worker._Process._receive

    def receive_of_the_dead(process: worker._Process) -> Any:
        os.kill(killed, signal.SIGKILL)
        return receive(process)

    os.kill(killed, signal.SIGSTOP)  # so that it does not answer before
    with monkeypatch.context() as patch:
        patch.setattr(worker._Process, "_receive", receive_of_the_dead)
        job = runner.execute_async([image], [np.empty_like(image)])
        runner._jobs._jobs[job[0]].wait(PATIENCE)
    message = f"worker process {killed} of device 'iss' was ended by SIGKILL while it ran a job"
    with pytest.raises(ToolError, match=message) as caught:
        runner.wait(job)
    assert caught.value.code == "VART_DPU_EXEC_ERROR"
    np.testing.assert_array_equal(runner.run([image])["y"], image)
    assert iss.pid != killed


def test_a_process_that_dies_idle_is_replaced(iss, copy_subgraph, image, caplog):
    killed = iss.pid
    os.kill(killed, signal.SIGKILL)
    os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
    np.testing.assert_array_equal(Runner(copy_subgraph, device=iss).run([image])["y"], image)
    assert f"worker process {killed} of device 'iss' was ended by SIGKILL" in caplog.text


def test_cancelling_ends_the_process(iss, copy_subgraph, image):
    killed = iss.pid
    iss.cancel()
    os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
    np.testing.assert_array_equal(Runner(copy_subgraph, device=iss).run([image])["y"], image)


def test_old_programs_are_forgotten(iss, copy_subgraph, image, monkeypatch):
    monkeypatch.setattr(worker, "KEPT", 3)
    runners = [Runner(copy_subgraph, device=iss) for _ in range(4)]
    for _ in range(2):
        for runner in runners:
            np.testing.assert_array_equal(runner.run([image])["y"], image)
            assert len(iss._process._sent) <= 3


def test_the_environment_asks_for_processes(monkeypatch, copy_subgraph, image):
    monkeypatch.setenv("OPENDPU_PROCESSES", "1")
    monkeypatch.setenv("XLNX_DPU_DEVICE_CORES", "0,1")
    device = open_device("iss", TARGET)
    try:
        assert len({core.pid for core in device.pool.cores}) == 2
        np.testing.assert_array_equal(Runner(copy_subgraph, device=device).run([image])["y"], image)
    finally:
        device.close()
