# SPDX-License-Identifier: Apache-2.0
"""Runners that get what they cannot run."""

import functools
import os
import pathlib
import signal
import threading
from collections.abc import Callable

import numpy as np
from graph_draws import Quantized

import vart
import xir
from opendpu import api
from opendpu.compiler.pipeline import compile as compile_graph
from opendpu.runtime import GraphRunner, Runner
from opendpu.runtime.buffers import view
from opendpu.runtime.crosscheck import layer_name
from opendpu.runtime.device import Job, JobStatistics
from opendpu.runtime.jobs import JobQueue
from opendpu.runtime.worker import WorkerDevice
from opendpu_arch.target import Target
from provocations.registry import gives

B64 = Target.from_name("B64")


class Idle:
    """A device that does nothing."""

    name = "idle"
    target = B64

    def run(self, job: Job) -> JobStatistics:
        return JobStatistics(device=self.name)

    def close(self) -> None:
        """Have nothing to close."""


@functools.cache
def file() -> bytes:
    """Return a compiled convolution from x to conv."""
    q = Quantized()
    return compile_graph(q.done(q.conv(q.data(4, 4, 3), "conv", 4)), B64).to_bytes()


def compiled() -> xir.Graph:
    return xir.Graph.from_bytes(file())


def subgraph(**attrs: object) -> xir.Subgraph:
    (found,) = api.dpu_subgraphs(compiled())
    for key, value in attrs.items():
        found.set_attr(key, value)
    return found


def feed(*arrays: np.ndarray, **named: np.ndarray) -> None:
    with Runner(subgraph(), device=Idle()) as runner:
        outputs = [np.zeros(t.dims, np.int8) for t in runner.get_output_tensors()]
        runner.execute_async(named or list(arrays), outputs)


GOOD = np.zeros((1, 4, 4, 3), np.int8)


@gives("VART_TENSOR_INFO_ERROR")
def too_many_inputs(folder: pathlib.Path) -> None:
    feed(GOOD, GOOD)


@gives("VART_TENSOR_INFO_ERROR")
def an_unknown_input(folder: pathlib.Path) -> None:
    feed(nobody=GOOD)


@gives("VART_TENSOR_INFO_ERROR")
def another_type(folder: pathlib.Path) -> None:
    feed(GOOD.astype(np.int32))


@gives("VART_TENSOR_BUFFER_DIMS_ERROR")
def another_shape(folder: pathlib.Path) -> None:
    feed(GOOD[:, :2].copy())


@gives("VART_TENSOR_BUFFER_INVALID")
def gaps(folder: pathlib.Path) -> None:
    feed(np.zeros((1, 4, 4, 6), np.int8)[..., ::2])


@gives("VART_TENSOR_BUFFER_INVALID")
def no_memory(folder: pathlib.Path) -> None:
    view(3, np.dtype(np.int8), "input 'x'")


@gives("VART_TENSOR_BUFFER_CHECK_ERROR")
def half_an_element(folder: pathlib.Path) -> None:
    view(bytes(7), np.dtype(np.float32), "input 'x'")


@gives("VART_GRAPH_FINGERPRINT_ERROR")
def no_fingerprint(folder: pathlib.Path) -> None:
    made = subgraph()
    made.remove_attr("dpu_fingerprint")
    Runner(made)


@gives("VART_DEVICE_MISMATCH")
def another_dpu(folder: pathlib.Path) -> None:
    Runner(subgraph(dpu_fingerprint=Target.from_name("B512").fingerprint), device=Idle())


@gives("VART_DEVICE_MISMATCH")
def another_target(folder: pathlib.Path) -> None:
    compiled().serialize(folder / "b64.xmodel")
    api.inspect(folder / "b64.xmodel", target="B512")


@gives("VART_XMODEL_ERROR")
def no_code(folder: pathlib.Path) -> None:
    Runner(subgraph(mc_code=b""), device=Idle())


@gives("VART_XMODEL_ERROR")
def no_registers(folder: pathlib.Path) -> None:
    made = subgraph()
    made.remove_attr("reg_id_to_size")
    Runner(made, device=Idle())


@gives("VART_OPEN_DEVICE_FAIL")
def no_device(folder: pathlib.Path) -> None:
    Runner(subgraph(), device="nothing")


@gives("VART_OUT_OF_RANGE")
def no_subgraph(folder: pathlib.Path) -> None:
    api.create_runner(compiled(), subgraph=1, device=Idle())


@gives("VART_FUNC_NOT_SUPPORT")
def no_mode(folder: pathlib.Path) -> None:
    vart.Runner.create_runner(subgraph(), "fast")


@gives("VART_DPU_TIMEOUT_ERROR")
def too_long(folder: pathlib.Path) -> None:
    gate = threading.Event()
    jobs = JobQueue(1)
    try:
        jobs.result(jobs.submit(gate.wait), 0.01)
    finally:
        gate.set()
        jobs.close()


@gives("VAILIB_CPU_RUNNER_CPU_OP_NOT_FIND")
def nobodys_op(folder: pathlib.Path) -> None:
    q = Quantized()
    x = q.data(4, 4, 3)
    q.graph.add("own", "codes_of_nobody", (1, 4, 4, 3), {"input": [x]})
    GraphRunner(compile_graph(q.done("own"), B64), device=Idle(), target=B64)


@gives("VAILIB_GRAPH_RUNNER_NOT_FIND")
def no_output(folder: pathlib.Path) -> None:
    made = compiled()
    made.set_attr("return_ops", ["nobody"])
    GraphRunner(made, device=Idle())


def with_environment(work: Callable[[], None], folder: pathlib.Path, **variables: str) -> None:
    """Call a function in a folder, with variables in the environment."""
    kept, here = dict(os.environ), pathlib.Path.cwd()
    os.environ.update(variables)
    os.chdir(folder)
    try:
        work()
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(kept)


def run_once() -> None:
    with Runner(subgraph(), device=Idle()) as runner:
        runner.run([GOOD])


@gives("VART_SIZE_MISMATCH")
def a_golden_file_of_another_size(folder: pathlib.Path) -> None:
    (name,) = (tensor.name for tensor in Runner(subgraph(), device=Idle()).get_input_tensors())
    (folder / f"{layer_name(name)}.bin").write_bytes(b"short")
    golden = {"XLNX_GOLDEN_DIR": str(folder), "XLNX_ENABLE_UPLOAD": "1"}
    with_environment(run_once, folder, **golden)


@gives("VART_CONTROLLER_DUMP_FOLDER_CREATE_ERROR")
def a_file_where_dumps_go(folder: pathlib.Path) -> None:
    (folder / "dump").write_text("in the way")
    with_environment(run_once, folder, XLNX_ENABLE_DUMP="1")


@gives("VART_DPU_EXEC_ERROR")
def a_dead_worker(folder: pathlib.Path) -> None:
    device = WorkerDevice("iss", B64, "kv260", {})
    try:
        with Runner(subgraph(), device=device) as runner:
            process = device._process
            assert process is not None
            process.is_alive = lambda: True  # it dies between the look and the job
            os.kill(process.pid, signal.SIGKILL)
            runner.run([GOOD])
    finally:
        device.close()
