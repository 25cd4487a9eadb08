# SPDX-License-Identifier: Apache-2.0
"""The drop-in module against a small program on the functional simulator."""

import array
import copy
import ctypes
import dataclasses
import pickle
import re
import time

import numpy as np
import pytest

import vart
import xir
from opendpu.runtime.device import Job, JobStatistics
from opendpu_arch import isa
from opendpu_arch.errors import (
    AddressError,
    DecodeError,
    DPUError,
    DPUTimeoutError,
    FingerprintError,
    ModelFormatError,
    ProgramError,
    TensorError,
    UnsupportedError,
)
from opendpu_arch.target import Target
from vart.bridge import BridgedRunner


def copying_subgraph() -> xir.Subgraph:
    """Return a DPU subgraph that copies one pixel of four channels."""
    graph = xir.Graph("copy")
    source = graph.create_op("x", "data-fix", {"shape": [1, 1, 1, 4], "data_type": "XINT8"})
    upload = graph.create_op("up", "upload", {}, {"input": [source]})
    download = graph.create_op("down", "download", {}, {"input": [upload]})
    graph.create_op("relu", "relu", {}, {"input": [download]})
    for op, reg in ((upload, 2), (download, 3)):
        tensor = op.get_output_tensor()
        tensor.set_attr("reg_id", reg).set_attr("ddr_addr", 0).set_attr("fix_point", 3)
    children = graph.get_root_subgraph().split(
        [("user", [source]), ("dpu", [upload, download]), ("cpu", [graph.get_op("relu")])]
    )
    for child, device in zip(children, ("USER", "DPU", "CPU"), strict=True):
        child.set_attr("device", device)
    load, save = isa.Engine.LOAD, isa.Engine.SAVE
    program = [
        isa.Load(
            dpdon=0, dpdby=1 << save, bank_id=0, bank_addr=0, jump_read=4, jump_write=1, pad_idx=1,
            channel=4, length=1, pad_start=0, pad_end=0, mode_avg=0, broadcast=0, const_value=0,
            reg_id=2, ddr_addr=0,
        ),
        isa.Save(
            dpdon=1 << load, dpdby=0, bank_id=0, bank_addr=0, hp_id=0, argmax=0, jump_write=4,
            jump_read=1, channel=4, length=1, const_en=0, const_value=0, reg_id=3, ddr_addr=0,
        ),
        isa.End(dpdon=0, dpdby=0),
    ]  # fmt: skip
    children[1].set_attrs(
        {
            "device": "DPU",
            "dpu_fingerprint": Target.from_name("B64").fingerprint,
            "mc_code": isa.encode(program),
            "reg_id_to_context_type": {"REG_2": "DATA", "REG_3": "DATA"},
            "reg_id_to_size": {"REG_2": 4, "REG_3": 4},
        }
    )
    return children[1]


class Recorder:
    """A device that keeps what it is asked to do."""

    name = "recorder"
    target = Target.from_name("B64")

    def __init__(self, work=lambda job: None):
        self.work = work

    def run(self, job: Job) -> JobStatistics:
        self.work(job)
        return JobStatistics(device=self.name)

    def close(self) -> None:
        pass


VALUES = np.array([-128, -1, 5, 127], np.int8).reshape(1, 1, 1, 4)


@pytest.mark.parametrize("mode", ["run", "ref", "sim", ""])
def test_every_mode_runs(mode, monkeypatch):
    monkeypatch.setenv("OPENDPU_DEVICE", "iss")
    runner = vart.Runner.create_runner(copying_subgraph(), mode)
    assert [t.name for t in runner.get_input_tensors()] == ["x"]
    assert [t.name for t in runner.get_output_tensors()] == ["down"]
    assert runner.get_tensor_format() is vart.Runner.TensorFormat.NHWC
    output = np.empty_like(VALUES)
    job = runner.execute_async([VALUES], [output], enable_dynamic_array=False)
    assert len(job) == 2
    assert runner.wait(job) == 0
    assert (output == VALUES).all()
    assert runner.statistics(job) == runner.last_statistics
    assert runner.last_statistics.device == ("ref" if mode == "ref" else "iss")


def test_the_device_is_an_argument_or_the_environments(monkeypatch):
    monkeypatch.setenv("OPENDPU_DEVICE", "nothing")
    with pytest.raises(UnsupportedError, match="no device is called 'nothing'; known: "):
        vart.Runner.create_runner(copying_subgraph(), "run")
    vart.Runner.create_runner(copying_subgraph(), "run", device="iss")
    vart.Runner.create_runner(copying_subgraph(), "ref")
    with pytest.raises(FingerprintError, match="CHECK fingerprint fail"):
        vart.Runner.create_runner(copying_subgraph(), "run", device="iss", target="B512")


@pytest.mark.parametrize(("mode", "device"), [("run", ""), ("ref", ""), ("run", "graph")])
def test_root_of_a_graph_runs_as_a_whole(mode, device):
    """Tensors are those of the graph, with the CPU's ops behind the DPU's; AMD's tools mark it."""
    root = copying_subgraph().get_graph().get_root_subgraph()
    if device:
        root.set_attr("device", device)
        root.set_attr("runner", {"run": "libvitis_ai_library-graph_runner.so.3"})
    runner = vart.RunnerExt.create_runner(root, mode)
    inputs, outputs = runner.get_inputs(), runner.get_outputs()
    assert [buffer.get_tensor().name for buffer in (*inputs, *outputs)] == ["x", "relu"]
    inputs[0][...] = np.array([1, -2, 3, -4], np.int8)
    assert runner.wait(runner.execute_async(inputs, outputs)) == 0
    assert np.asarray(outputs[0]).ravel().tolist() == [1, 0, 3, 0]


def test_unknown_mode_and_user_subgraph():
    dpu = copying_subgraph()
    with pytest.raises(UnsupportedError, match="mode is 'walk', but must be one of '', 'run'"):
        vart.Runner.create_runner(dpu, "walk")
    user = dpu.get_parent().get_children()[0]
    with pytest.raises(UnsupportedError, match="'user' is for device 'USER', but must be for"):
        vart.Runner.create_runner(user, "run")


def test_cpu_subgraphs_run_on_the_cpu():
    cpu = copying_subgraph().get_parent().get_children()[2]
    runner = vart.Runner.create_runner(cpu, "run")
    output = np.empty_like(VALUES)
    assert runner.wait(runner.execute_async([VALUES], [output])) == 0
    assert output.tolist() == [[[[0, 0, 5, 127]]]]
    assert runner.last_statistics.device == "cpu"
    with pytest.raises(TensorError, match="0 inputs given, but must be 1: down"):
        runner.execute_async([], [output])


def test_the_runner_owns_buffers():
    runner = vart.RunnerExt.create_runner(copying_subgraph(), "run", device="iss")
    assert isinstance(runner, vart.RunnerExt)
    (given,), (result,) = runner.get_inputs(), runner.get_outputs()
    assert given.get_tensor().name == "x"
    assert given.get_tensor().get_attr("fix_point") == 3
    view = np.array(given, copy=False)
    assert type(view) is np.ndarray
    view[...] = VALUES
    assert memoryview(given).nbytes == 4
    job = runner.execute_async([given], [result])
    runner.wait(job)
    assert (np.asarray(result) == VALUES).all()
    assert isinstance(result, vart.TensorBuffer)


def test_each_call_makes_new_buffers():
    runner = vart.RunnerExt.create_runner(copying_subgraph(), "run", device="iss")
    jobs = []
    for value in range(3):
        given, wanted = runner.get_inputs(), runner.get_outputs()
        np.asarray(given[0])[...] = value
        jobs.append((runner.execute_async(given, wanted), wanted, value))
    for job, (result,), value in jobs:
        runner.wait(job)
        assert (np.asarray(result) == value).all()


class SlowDevice(Recorder):
    """A device whose jobs take a while, and count."""

    def __init__(self) -> None:
        self.done = 0
        super().__init__(self._take_time)

    def _take_time(self, _job) -> None:
        time.sleep(0.05)
        self.done += 1


def test_jobs_for_buffers_of_runners_are_done_without_waiting(monkeypatch):
    """As on a board, where programs leave ``wait`` away."""
    device = SlowDevice()
    runner = vart.RunnerExt.create_runner(copying_subgraph(), "run", device=device)
    job = runner.execute_async(runner.get_inputs(), runner.get_outputs())
    assert device.done == 1
    assert runner.wait(job) == 0
    runner.execute_async([VALUES], tuple(runner.get_outputs()))
    assert device.done == 2
    monkeypatch.setenv("XLNX_ENABLE_ASYNC_RUNNER", "0")
    runner.execute_async([VALUES], [VALUES.copy()])
    assert device.done == 3
    with pytest.raises(ZeroDivisionError):
        vart.Runner.create_runner(
            copying_subgraph(), "run", device=Recorder(lambda _job: 1 // 0)
        ).execute_async([VALUES], [VALUES.copy()])


def test_jobs_for_arrays_are_not_waited_for():
    import threading

    gate = threading.Event()
    device = Recorder(lambda _job: gate.wait(20))
    runner = vart.RunnerExt.create_runner(copying_subgraph(), "run", device=device)
    job = runner.execute_async(runner.get_inputs(), [VALUES.copy()])
    assert runner.last_statistics is None
    gate.set()
    assert runner.wait(job) == 0


class Exchanged:
    """Memory behind one of the protocols of other libraries."""

    def __init__(self, protocol: str, values: np.ndarray) -> None:
        self.values = values
        for name in {"__dlpack__": ["__dlpack__", "__dlpack_device__"]}.get(protocol, [protocol]):
            setattr(type(self), name, getattr(values, name))


def exchanged(protocol: str, values: np.ndarray) -> Exchanged:
    return type(protocol, (Exchanged,), {})(protocol, values)


HOLDERS = {
    "memoryview": memoryview,
    "bytearray": lambda values: bytearray(values.tobytes()),
    "array": lambda values: array.array("b", values.tobytes()),
    "ctypes": lambda values: (ctypes.c_int8 * values.size)(*values.ravel().tolist()),
    "dlpack": lambda values: exchanged("__dlpack__", values),
    "interface": lambda values: exchanged("__array_interface__", values),
    "flat": lambda values: values.ravel(),
    "without ones": lambda values: values.reshape(1, 4),
    "tensor buffer": lambda values: values.view(vart.TensorBuffer),
}


@pytest.mark.parametrize("kind", HOLDERS)
def test_memory_of_any_kind_is_used_in_place(kind):
    runner = vart.Runner.create_runner(copying_subgraph(), "run", device="iss")
    given, wanted = HOLDERS[kind](VALUES.copy()), HOLDERS[kind](np.zeros_like(VALUES))
    runner.wait(runner.execute_async([given], [wanted]))
    if kind in ("dlpack", "interface"):
        read = np.from_dlpack if kind == "dlpack" else np.asarray
        assert read(wanted).ravel().tolist() == VALUES.ravel().tolist()
    else:
        assert bytes(wanted) == VALUES.tobytes()


def test_bytes_are_inputs_but_not_outputs():
    runner = vart.Runner.create_runner(copying_subgraph(), "run", device="iss")
    output = np.zeros_like(VALUES)
    runner.wait(runner.execute_async([VALUES.tobytes()], [output]))
    assert (output == VALUES).all()
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix(-VALUES.reshape(2, 2))  # which cannot have four dimensions
    with pytest.warns(UserWarning, match="its first 4 elements are used"):
        runner.wait(runner.execute_async([matrix], [output]))
    assert (output == -VALUES).all()
    with pytest.raises(TensorError, match="output 'down' is read-only, but must be writeable"):
        runner.execute_async([VALUES], [bytes(4)])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2, 3, 4], "input 'x' is a list, but must be an array or have the buffer protocol"),
        (bytes(3), r"has shape \(3,\), but must be \(1, 1, 1, 4\)"),
        (np.zeros((3, 1), np.int8), r"has shape \(3, 1\), but must be \(1, 1, 1, 4\)"),
        (array.array("i", [1]), "has dtype int32, but must be int8 or float32"),
        (np.zeros((1, 1, 1, 8), np.int8)[..., ::2], "but must be C-contiguous"),
    ],
)
def test_memory_that_does_not_fit(value, message):
    runner = vart.Runner.create_runner(copying_subgraph(), "run", device="iss")
    with pytest.raises(TensorError, match=message):
        runner.execute_async([value], [np.zeros_like(VALUES)])


@pytest.mark.parametrize("shape", [(2, 2), (1, 1, 3, 4), (9,)])
def test_of_other_shapes_and_longer_buffers_the_first_elements_are_used(shape):
    runner = vart.Runner.create_runner(copying_subgraph(), "run", device="iss")
    given, wanted = np.full(shape, 7, np.int8), np.full(shape, 9, np.int8)
    given.reshape(-1)[:4] = VALUES.ravel()
    told = rf"input 'x' has shape {re.escape(str(shape))}; its first 4 elements are used as \(1, 1"
    with pytest.warns(UserWarning, match=told) as caught:
        runner.wait(runner.execute_async([given], [np.zeros_like(VALUES)]))
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="output 'down' has shape"):
        runner.wait(runner.execute_async([VALUES], [wanted]))
    assert wanted.ravel().tolist() == VALUES.ravel().tolist() + [9] * (wanted.size - 4)


def test_of_transposed_arrays_the_memory_counts():
    """As pictures, whose channels come last in memory, given with the channels in front."""
    runner = vart.Runner.create_runner(copying_subgraph(), "run", device="iss")
    given, wanted = VALUES.reshape(2, 2).T[None], np.zeros((2, 2), np.int8).T
    output = np.zeros_like(VALUES)
    with pytest.warns(UserWarning, match="input 'x' has transposed axes; its elements are used"):
        runner.wait(runner.execute_async([given], [output]))
    assert (output == VALUES).all()
    with pytest.warns(UserWarning, match="output 'down' has transposed axes"):
        runner.wait(runner.execute_async([VALUES], [wanted]))
    assert wanted.T.ravel().tolist() == VALUES.ravel().tolist()


def test_an_array_is_the_list_of_what_its_first_axis_holds():
    runner = vart.Runner.create_runner(copying_subgraph(), "run", device="iss")
    output = np.zeros_like(VALUES)
    runner.wait(runner.execute_async(VALUES, output))
    assert (output == VALUES).all()
    with pytest.raises(TensorError, match="inputs are a ndarray, but must be a list of arrays"):
        runner.execute_async(np.zeros((2, 1, 1, 4), np.int8), [output])
    with pytest.raises(TensorError, match=r"input 'x' has shape \(\), but must be"):
        runner.execute_async(np.zeros(1, np.int8), [output])


def test_a_timeout_is_in_milliseconds():
    import threading

    gate = threading.Event()
    device = Recorder(lambda _job: gate.wait(20))
    runner = vart.Runner.create_runner(copying_subgraph(), "run", device=device)
    job = runner.execute_async([VALUES], [VALUES.copy()])
    with pytest.raises(DPUTimeoutError, match=r"has not finished after 0\.02 seconds"):
        runner.wait(job, 20)
    gate.set()
    assert runner.wait(job) == 0


def test_no_time_at_all_is_no_limit_in_cpp_either():
    """AMD's runners know no timeout: who gives 0 finds the outputs, and may free them."""
    import threading

    def slow(_job):
        started.set()
        gate.wait(20)

    gate, started = threading.Event(), threading.Event()
    runner = vart.RunnerExt.create_runner(copying_subgraph(), "run", device=Recorder(slow))
    bridged = BridgedRunner(runner)
    memory = memoryview(bytearray(4))
    job = bridged.execute_async([("x", "XINT8", memory)], [("down", "XINT8", memory)])
    assert started.wait(20)
    threading.Timer(0.1, gate.set).start()
    assert bridged.wait(job, 0) == 0


def test_cxx_programs_that_keep_no_number_wait_for_all():
    """As AMD's test of runners in threads: ``runner->wait(0, 0)``."""
    done = []
    device = Recorder(lambda _job: done.append(1))
    bridged = BridgedRunner(vart.RunnerExt.create_runner(copying_subgraph(), "run", device=device))
    assert bridged.wait(0, 0) == 0
    memory = memoryview(bytearray(4))
    for _ in range(3):
        bridged.execute_async([("x", "XINT8", memory)], [("down", "XINT8", memory)])
    assert bridged.wait(0, 0) == 0
    assert len(done) == 3
    with pytest.raises(DPUError, match="no job is waited for"):
        bridged.wait(-1, 0)


def test_a_timeout_is_a_number_or_nothing():
    runner = vart.Runner.create_runner(copying_subgraph())
    buffers = [np.zeros(tensor.dims, np.int8) for tensor in runner.get_input_tensors()]
    for timeout in (None, np.int64(60_000), 60_000.0):
        assert runner.wait(runner.execute_async(buffers, buffers), timeout) == 0
    with pytest.raises(TypeError, match="timeout is '1' of type str, but must be milliseconds"):
        runner.wait(runner.execute_async(buffers, buffers), "1")


@pytest.mark.parametrize("kind", [vart.Runner, vart.RunnerExt])
def test_runners_have_no_constructor_for_programs(kind):
    message = rf"use vart\.{kind.__name__}\.create_runner\(subgraph, mode\)"
    for arguments in ([copying_subgraph()], [copying_subgraph(), "run"]):
        with pytest.raises(TypeError, match=message):
            kind(*arguments)


@pytest.mark.parametrize("root", [False, True])
def test_a_runner_stays_in_its_process(root):
    subgraph = copying_subgraph()
    whole = subgraph.get_graph().get_root_subgraph()
    runner = vart.Runner.create_runner(whole if root else subgraph)
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="give it the graph or the path of its file"):
            copied(runner)


def test_the_environment_limits_waiting(monkeypatch):
    import threading

    monkeypatch.setenv("XLNX_NUM_OF_DPU_RUNNERS", "1")
    monkeypatch.setenv("XLNX_DPU_TIMEOUT", "10")
    gate = threading.Event()
    device = Recorder(lambda _job: gate.wait(20))
    runner = vart.Runner.create_runner(copying_subgraph(), "run", device=device)
    job = runner.execute_async([VALUES], [VALUES.copy()])
    runner.execute_async([VALUES], [VALUES.copy()])
    with pytest.raises(DPUTimeoutError, match=r"has not finished after 0\.01 seconds"):
        runner.wait(job)
    assert len(runner._runner._jobs._threads.threads) == 1
    gate.set()
    assert runner.wait(job, 20_000) == 0
    monkeypatch.setenv("XLNX_DPU_TIMEOUT", "soon")
    with pytest.raises(UnsupportedError, match="XLNX_DPU_TIMEOUT is 'soon', but must be millisec"):
        runner.wait(job)
    monkeypatch.setenv("XLNX_NUM_OF_DPU_RUNNERS", "0")
    with pytest.raises(UnsupportedError, match="XLNX_NUM_OF_DPU_RUNNERS is '0', but must be a pos"):
        vart.Runner.create_runner(copying_subgraph(), "run", device=device)


def test_float_arrays_follow_the_conversion_rule():
    runner = vart.Runner.create_runner(copying_subgraph(), "run", device="iss")
    output = np.empty((1, 1, 1, 4), np.float32)
    given = np.float32([0.99, -0.99, 16.0, 1.125]).reshape(output.shape)
    runner.wait(runner.execute_async([given], [output]))
    assert output.ravel().tolist() == [0.875, -0.875, -16.0, 1.125]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda code: code[:-4], ProgramError, "END"),
        (lambda code: code[:-4] + b"\0\0\0\xf0", DecodeError, "unknown opcode 0xf"),
        (lambda code: b"", ModelFormatError, "attribute 'mc_code' is empty"),
    ],
)
def test_broken_programs_fail_by_name(change, error, message):
    subgraph = copying_subgraph()
    subgraph.set_attr("mc_code", change(subgraph.get_attr("mc_code")))
    with pytest.raises(error, match=message):
        runner = vart.Runner.create_runner(subgraph, "run", device="iss")
        runner.wait(runner.execute_async([VALUES], [VALUES.copy()]))


def test_an_address_outside_its_segment_fails_by_name():
    subgraph = copying_subgraph()
    program = isa.decode(subgraph.get_attr("mc_code"))
    beyond = [dataclasses.replace(program[0], ddr_addr=2), *program[1:]]
    subgraph.set_attr("mc_code", isa.encode(beyond))
    runner = vart.Runner.create_runner(subgraph, "run", device="iss")
    output = np.full_like(VALUES, 99)
    job = runner.execute_async([VALUES], [output])
    with pytest.raises(AddressError, match="LOAD"):
        runner.wait(job)
    assert (output == 99).all()
