# SPDX-License-Identifier: Apache-2.0
"""What the C++ library of :mod:`opendpu.cpp` calls: graphs described, attributes, runners.

Everything here is plain tuples, lists and numbers, so that C++ needs little of Python's interface.
"""

from collections import OrderedDict
from typing import Any

import numpy as np
import numpy.typing as npt

import opendpu.runtime
import vart.runner
from opendpu.runtime.jobs import REMEMBERED
from opendpu_arch.errors import DPUError, GraphError, TargetError, TensorError
from opendpu_arch.target import ISA_VERSION, TYPE, TYPE_CODE, Target
from xir import DataType, Graph, Op, Subgraph, Tensor
from xir.attrs import Attrs

Memory = tuple[str, str, memoryview]
"""Name of a tensor, element type, and the bytes of all its elements."""


def load(path: str) -> Graph:
    """Return the graph in a file."""
    return Graph.deserialize(path)


def load_bytes(content: bytes) -> Graph:
    """Return the graph in the bytes of a file."""
    return Graph.from_bytes(content)


def describe(graph: Graph) -> tuple[Any, ...]:
    """Return the name, the ops (inputs first) and the root subgraph of a graph.

    An op is (object, name, type, arguments, tensor, inputs); a tensor what :func:`describe_tensor`
    returns; a subgraph (object, name, its ops, ops of its inputs, of its outputs, its children).
    Ops are numbers in that order.
    """
    ops = graph.toposort()
    numbers = {op: number for number, op in enumerate(ops)}
    return (
        graph.get_name(),
        [_described(op, numbers) for op in ops],
        _subgraph(graph.get_root_subgraph(), numbers),
    )


def _described(op: Op, numbers: dict[Op, int]) -> tuple[Any, ...]:
    arguments = [(a.name, int(a.occurrence), int(a.data_kind)) for a in op.get_definition().args]
    inputs = [(arg, [numbers[o] for o in sources]) for arg, sources in op.get_input_ops().items()]
    tensor = describe_tensor(op.get_output_tensor())
    return op, op.get_name(), op.get_type(), arguments, tensor, inputs


def describe_tensor(tensor: Tensor) -> tuple[Tensor, str, list[int], str]:
    """Return a tensor, its name, its dimensions and its element type."""
    return tensor, tensor.name, tensor.dims, tensor.data_type.to_string()


def _subgraph(subgraph: Subgraph, numbers: dict[Op, int]) -> tuple[Any, ...]:
    def places(tensors: list[Tensor]) -> list[int]:
        return [numbers[tensor.producer] for tensor in tensors if tensor.producer is not None]

    children = subgraph.toposort_child_subgraph()
    return (
        subgraph,
        subgraph.get_name(),
        [numbers[op] for op in subgraph.toposort()],
        places(subgraph.get_sorted_input_tensors()),
        places(subgraph.get_sorted_output_tensors()),
        [_subgraph(child, numbers) for child in children],
    )


def create(name: str) -> Graph:
    """Return a graph without ops."""
    return Graph(name)


Values = list[tuple[str, str, Any]]
"""Attributes: names, types in the file, values."""


def add_op(
    graph: Graph,
    name: str,
    kind: str,
    attrs: Values,
    inputs: list[tuple[str, list[str]]],
    subgraph: Subgraph | None,
) -> None:
    """Add an op whose inputs are named; GraphError where something does not fit."""
    taken = {argument: [_op(graph, source) for source in names] for argument, names in inputs}
    op = graph.create_op(name, kind, {key: value for key, _, value in attrs}, taken, subgraph)
    defined = {attr.name for attr in op.get_definition().attrs}
    for key, written, value in attrs:
        if key not in defined:
            op.set_attr(key, value, written)


def remove_op(graph: Graph, name: str) -> None:
    """Remove an op; GraphError if its result is used."""
    graph.remove_op(_op(graph, name))


def set_input_ops(graph: Graph, name: str, argument: str, sources: list[str]) -> None:
    """Let other results in."""
    _op(graph, name).set_input_ops(argument, [_op(graph, source) for source in sources])


def replace_input_op(graph: Graph, name: str, old: str, new: str) -> None:
    """Let the result of another op in, wherever an old one went in."""
    _op(graph, name).replace_input_ops(_op(graph, old), _op(graph, new))


def replace_output_tensor(
    graph: Graph, op: str, name: str, dims: list[int], data_type: str, attrs: Values
) -> None:
    """Let the result of an op be another tensor."""
    tensor = Tensor(name, dims, DataType(data_type))
    for key, kind, value in attrs:
        tensor.set_attr(key, value, kind)
    _op(graph, op).replace_output_tensor(tensor)


def infer_shape(graph: Graph, name: str) -> None:
    """Infer the shape of an op's result again."""
    _op(graph, name).infer_shape()


def _op(graph: Graph, name: str) -> Op:
    op = graph.get_op(name)
    if op is None:
        raise GraphError(f"graph {graph.get_name()!r} has no op {name!r}")
    return op


def attribute(owner: Attrs, key: str) -> tuple[str, Any]:
    """Return an attribute's type in the file, and its value."""
    return owner.get_attr_kind(key), owner.get_attr(key)


def attributes(owner: Attrs) -> list[str]:
    """Return the names of all attributes."""
    return list(owner.get_attrs())


def target(name: str) -> tuple[str, str, int, int, int]:
    """Return name, type, ISA version, feature code and fingerprint of a target.

    ``name`` is a name, or ``0x`` and a fingerprint.
    """
    found = Target.from_name(name)
    return found.name, TYPE, ISA_VERSION, found.feature_code, found.fingerprint


def fingerprint(kind: str, isa_version: int, feature_code: int) -> int:
    """Return the fingerprint of a target by its parts."""
    if kind != TYPE:
        raise TargetError(f"targets here are of the type {TYPE}, not {kind}")
    return Target.from_fingerprint(TYPE_CODE << 56 | isa_version << 48 | feature_code).fingerprint


def create_runner(subgraph: Subgraph, mode: str) -> "BridgedRunner":
    """Return a runner for a subgraph, see :meth:`vart.Runner.create_runner`."""
    return BridgedRunner(vart.runner.RunnerExt.create_runner(subgraph, mode))


def create_graph_runner(graph: Graph) -> "BridgedRunner":
    """Return a runner for a whole graph."""
    return BridgedRunner(
        vart.runner.RunnerExt(opendpu.runtime.GraphRunner(graph, as_vitis_ai=True))
    )


class BridgedRunner:
    """A runner whose buffers are memory of C++."""

    def __init__(self, runner: vart.runner.RunnerExt) -> None:
        self._runner = runner
        self._inputs, self._outputs = runner.get_input_tensors(), runner.get_output_tensors()
        self._pending: OrderedDict[int, tuple[int, int]] = OrderedDict()

    def inputs(self) -> list[tuple[Tensor, str, list[int], str]]:
        """Return the input tensors, described."""
        return [describe_tensor(tensor) for tensor in self._inputs]

    def outputs(self) -> list[tuple[Tensor, str, list[int], str]]:
        """Return the output tensors, described."""
        return [describe_tensor(tensor) for tensor in self._outputs]

    def execute_async(
        self, inputs: list[Memory], outputs: list[Memory], finish: bool = False
    ) -> int:
        """Start a job and return its number; TensorError for wrong memory.

        ``finish`` waits for it, see :meth:`vart.Runner.execute_async`.
        """
        job = self._runner.execute_async(
            _ordered(inputs, self._inputs), _ordered(outputs, self._outputs)
        )
        self._pending[job[0]] = job
        if finish:
            self._runner.wait(job)
        while len(self._pending) > REMEMBERED:
            self._pending.popitem(last=False)
        return job[0]

    def wait(self, job: int, timeout: int) -> int:
        """Wait for a job, or for the oldest if the number is negative; return 0.

        Programs for boards that keep no number give 0, which is no job's: all are waited for.
        ``timeout`` is in milliseconds, none if it is not positive: AMD's runners know none.
        """
        if job == 0:
            for each in list(self._pending):
                self.wait(each, timeout)
            return 0
        if job < 0:
            if not self._pending:
                raise DPUError("no job is waited for: none was started, or all were")
            job = next(iter(self._pending))
        found = self._pending.get(job, (job, 0))
        status = self._runner.wait(found, timeout)
        self._pending.pop(job, None)
        return status

    def close(self) -> None:
        """Finish the jobs and free the device."""
        self._runner.close()


def _ordered(given: list[Memory], tensors: list[Tensor]) -> list[npt.NDArray[Any]]:
    """Return arrays in the order of tensors: by name, or as they come where names are others."""
    if len(given) != len(tensors):
        names = ", ".join(tensor.name for tensor in tensors)
        raise TensorError(
            f"{len(given)} buffers given, but must be {len(tensors)}: {names}",
            code="VART_TENSOR_INFO_ERROR",
        )
    by_name = {entry[0]: entry for entry in given}
    if len(by_name) == len(tensors) and all(tensor.name in by_name for tensor in tensors):
        given = [by_name[tensor.name] for tensor in tensors]
    return [np.frombuffer(memory, DataType(kind).numpy()) for _, kind, memory in given]
