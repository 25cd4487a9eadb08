# SPDX-License-Identifier: Apache-2.0
"""Runners that get what they cannot run."""

import functools
import pathlib
import threading

import numpy as np
from graph_draws import Quantized

import vart
import xir
from opendpu import api
from opendpu.compiler.pipeline import compile as compile_graph
from opendpu.runtime import GraphRunner, Runner
from opendpu.runtime.buffers import view
from opendpu.runtime.device import Job, JobStatistics
from opendpu.runtime.jobs import JobQueue
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
