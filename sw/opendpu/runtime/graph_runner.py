# SPDX-License-Identifier: Apache-2.0
"""The runner of a whole graph: DPU subgraphs on a device, all others on the CPU."""

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from opendpu.ops.foreign import DYNAMIC_AXES
from opendpu.runtime.arrays import (
    Array,
    Arrays,
    converted,
    from_tensor,
    is_quantized,
    match_arrays,
    quantized,
)
from opendpu.runtime.cpu import Island
from opendpu.runtime.cpu_runner import SOURCES, Plain
from opendpu.runtime.device import Device, JobStatistics
from opendpu.runtime.job_runner import JobRunner
from opendpu.runtime.jobs import JobQueue
from opendpu.runtime.runner import Runner
from opendpu_arch.errors import GraphError
from opendpu_arch.target import Target
from xir import DataType, Graph, Op, Subgraph, Tensor

_CONSTANTS = ("const", "const-fix")


@dataclasses.dataclass(frozen=True)
class GraphStatistics:
    """What a job took, by name of the subgraph: of the DPU's, and of the CPU's islands."""

    subgraphs: Mapping[str, JobStatistics]
    islands: Mapping[str, JobStatistics] = dataclasses.field(default_factory=dict)

    @property
    def cpu_seconds(self) -> float:
        """Time in CPU islands."""
        return sum(statistics.wall_seconds for statistics in self.islands.values())

    @property
    def cycles(self) -> int:
        """Cycles of all subgraphs together."""
        return sum(statistics.cycles for statistics in self.subgraphs.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-ready values."""
        every = {**self.subgraphs, **self.islands}
        return {name: statistics.as_dict() for name, statistics in every.items()}


@dataclasses.dataclass(frozen=True)
class _CpuStep:
    """A CPU subgraph and its ops as an island."""

    name: str
    island: Island

    @classmethod
    def of(cls, subgraph: Subgraph, results: list[Tensor]) -> "_CpuStep":
        """Compile the ops; UnsupportedError if nothing computes one of them."""
        ops = [op for op in subgraph.toposort() if op.get_type() not in SOURCES]
        own = {op.get_output_tensor().name for op in ops}
        taken = {tensor.name for tensor in (*subgraph.get_output_tensors(), *results)}
        return cls(subgraph.get_name(), Island(ops, own & taken))


class GraphRunner(JobRunner[GraphStatistics]):
    """Executes a compiled graph, or an uncompiled one wholly on the CPU.

    Inputs are the tensors of the graph's data ops; outputs those of the ops that the graph
    attribute ``return_ops`` names, or else the ones nobody uses; both by name. With
    ``as_vitis_ai``, programs find them as in AMD's graph runner: inputs of the subgraph that comes
    last are first, and quantized outputs are real numbers, in float32 tensors with a ``_`` behind
    their names. An output whose size depends on the input, as that of detections does, has 1 there
    in its tensor. Inputs that no op reads may be left out of a dictionary. Keywords are those of
    :class:`~opendpu.runtime.Runner`.

    Raises
    ------
    UnsupportedError
        A CPU op has no implementation; the message says how to register one.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        device: Device | str | None = None,
        memory: str | None = None,
        target: Target | str | None = None,
        workers: int | None = None,
        as_vitis_ai: bool = False,
        **options: Any,
    ) -> None:
        inputs = _by_name(_sources(graph))
        if as_vitis_ai:
            children = enumerate(graph.get_root_subgraph().get_children())
            place = {
                op.get_output_tensor().name: -i for i, part in children for op in part.get_ops()
            }
            inputs.sort(key=lambda tensor: place.get(tensor.name, 0))
        self._inputs = [Plain(tensor) for tensor in inputs]
        unread = [slot for slot in self._inputs if _is_unread(slot.tensor)]
        self._unread = {slot.tensor.name: np.zeros(slot.shape, slot.dtype) for slot in unread}
        outputs = _by_name(_sinks(graph))
        self._results = [_real(t) for t in outputs] if as_vitis_ai else outputs
        self._outputs = [
            Plain(own, () if own.name == told.name else (told.name,))
            for own, told in zip(outputs, self._results, strict=True)
        ]
        self._dynamic = {
            op.get_output_tensor().name for op in graph.get_ops() if op.has_attr(DYNAMIC_AXES)
        }
        self._steps: list[Runner | _CpuStep] = []
        try:
            for subgraph in _subgraphs(graph):
                if _device_of(subgraph) == "DPU":
                    step = Runner(
                        subgraph,
                        device=device,
                        memory=memory,
                        target=target,
                        workers=workers,
                        **options,
                    )
                    self._steps.append(step)
                else:
                    self._steps.append(_CpuStep.of(subgraph, outputs))
        except BaseException:
            self._close_steps()
            raise
        self._jobs = JobQueue(workers)

    def get_input_tensors(self) -> list[Tensor]:
        """Return the input tensors, by name."""
        return [slot.tensor for slot in self._inputs]

    @property
    def optional_inputs(self) -> frozenset[str]:
        """Names of the input tensors that no op reads, and that need not be given."""
        return frozenset(self._unread)

    def get_output_tensors(self) -> list[Tensor]:
        """Return the output tensors, by name."""
        return list(self._results)

    def get_input_names(self) -> dict[str, Tensor]:
        """Return the input tensors by each name they answer to."""
        return {slot.tensor.name: slot.tensor for slot in self._inputs}

    def execute_async(self, inputs: Arrays, outputs: Arrays) -> tuple[int, int]:
        """Start a job and return its number and the status 0.

        Arrays have the elements of their tensors. A float32 input for a fixed-point tensor is
        rounded to it and saturates, as the quantizer assumed; a DPU subgraph's own
        :class:`~opendpu.runtime.Runner` converts as VART does instead.

        Raises
        ------
        TensorError
            An array is missing or too many, or has a wrong dtype, shape or memory layout; or,
            when the job is waited for, an output has another size than its array.
        """
        wanted = match_arrays(outputs, self._outputs, "output")

        def give(values: dict[str, Array]) -> None:
            for array, slot in zip(wanted, self._outputs, strict=True):
                from_tensor(values[slot.tensor.name], slot.tensor, array)

        return self._submit(inputs, give), 0

    def start(self, inputs: Arrays, *, floats: bool = False) -> tuple[int, dict[str, Array]]:
        """Start a job and return its number, and a dictionary that will have the outputs.

        They are there, by tensor name and as large as they are, when the job has been waited for.
        With ``floats``, fixed-point outputs come as float32.

        Raises
        ------
        TensorError
            An input is missing or too many, or has a wrong dtype or shape.
        """
        found: dict[str, Array] = {}

        def give(values: dict[str, Array]) -> None:
            for slot in self._outputs:
                found[slot.tensor.name] = self._output(slot, values[slot.tensor.name], floats)

        return self._submit(inputs, give), found

    def _output(self, slot: Plain, values: Array, floats: bool) -> Array:
        """Return an output in an array of its own."""
        real = floats and is_quantized(slot.tensor)
        dtype = np.dtype(np.float32) if real else slot.dtype
        if slot.tensor.name in self._dynamic:
            return np.array(converted(values, slot.tensor, dtype))
        array: Array = np.empty(slot.shape, dtype)
        from_tensor(values, slot.tensor, array)
        return array

    def _submit(self, inputs: Arrays, give: Callable[[dict[str, Array]], None]) -> int:
        if self._unread and isinstance(inputs, Mapping):
            inputs = {**self._unread, **inputs}
        given = match_arrays(inputs, self._inputs, "input")
        values = {
            slot.tensor.name: quantized(array, slot.tensor).copy()
            for array, slot in zip(given, self._inputs, strict=True)
        }
        return self._jobs.submit(functools.partial(self._run, values, give))

    def _run(
        self, values: dict[str, Array], give: Callable[[dict[str, Array]], None]
    ) -> GraphStatistics:
        statistics, islands = {}, {}
        for step in self._steps:
            if isinstance(step, Runner):
                statistics[step.program.name] = _run_dpu(step, values)
            else:
                start = time.perf_counter()
                values.update(step.island.run(values))
                seconds = time.perf_counter() - start
                islands[step.name] = JobStatistics(device="cpu", wall_seconds=seconds)
        give(values)
        return GraphStatistics(statistics, islands)

    def run(self, inputs: Arrays) -> dict[str, Array]:
        """Run one job and return new output arrays by tensor name."""
        job, outputs = self.start(inputs)
        self.wait(job)
        return outputs

    def tensors(self, inputs: Arrays) -> dict[str, Array]:
        """Return the inputs and what every subgraph gives, by tensor name, of one job."""
        if self._unread and isinstance(inputs, Mapping):
            inputs = {**self._unread, **inputs}
        given = match_arrays(inputs, self._inputs, "input")
        values = {
            slot.tensor.name: quantized(array, slot.tensor)
            for array, slot in zip(given, self._inputs, strict=True)
        }
        job = self._jobs.submit(functools.partial(self._run, values, lambda values: None))
        self._jobs.result(job)
        return values

    def _close_steps(self) -> None:
        for step in self._steps:
            if isinstance(step, Runner):
                step.close()

    def cancel(self) -> None:
        """Drop the jobs that have not begun, end those that run where the device can."""
        super().cancel()
        for step in self._steps:
            if isinstance(step, Runner):
                step.cancel()

    def close(self) -> None:
        """Finish every job, then free the devices."""
        super().close()
        self._close_steps()


def _run_dpu(runner: Runner, values: dict[str, Array]) -> JobStatistics:
    inputs = []
    for port in runner.program.inputs:
        known = [name for name in (port.name, *port.aliases) if name in values]
        if not known:
            raise GraphError(
                f"nothing computes input {port.name!r} of {runner.program.name!r}",
                code="VAILIB_GRAPH_RUNNER_NOT_FIND",
            )
        inputs.append(values[known[0]].reshape(port.shape))
    outputs, statistics = runner.compute(inputs)
    values.update(outputs)
    return statistics


def _subgraphs(graph: Graph) -> list[Subgraph]:
    root = graph.get_root_subgraph()
    return [root] if root.is_leaf else root.toposort_child_subgraph()


def _device_of(subgraph: Subgraph) -> str:
    return str(subgraph.get_attr("device")).upper() if subgraph.has_attr("device") else "CPU"


def _by_name(ops: list[Op]) -> list[Tensor]:
    return sorted((op.get_output_tensor() for op in ops), key=lambda tensor: tensor.name)


def _real(tensor: Tensor) -> Tensor:
    """Return a tensor as AMD's compiler leaves a graph's output: one on the CPU, of floats."""
    if tensor.data_type.type is DataType.FLOAT or not is_quantized(tensor):
        return tensor
    return Tensor(f"{tensor.name}_", tensor.dims, "FLOAT32")


def _sources(graph: Graph) -> list[Op]:
    return [op for op in graph.get_ops() if op.get_type() in SOURCES]


def _is_unread(tensor: Tensor) -> bool:
    return tensor.producer is not None and not tensor.producer.get_fanout_num()


def _sinks(graph: Graph) -> list[Op]:
    if not graph.has_attr("return_ops"):
        return [op for op in graph.get_tail_ops() if op.get_type() not in _CONSTANTS]
    found = []
    for name in graph.get_attr("return_ops"):
        op = graph.get_op(name)
        if op is None:
            raise GraphError(
                f"graph {graph.get_name()!r} has no op {name!r}, a return op",
                code="VAILIB_GRAPH_RUNNER_NOT_FIND",
            )
        found.append(op)
    return found
