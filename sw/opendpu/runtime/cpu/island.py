# SPDX-License-Identifier: Apache-2.0
"""CPU islands: neighbouring ops as one session of onnxruntime, with one hand-over each way.

Ops that onnxruntime has no kernel for, custom ones among them, are Python functions between
sessions; ops are reordered, within what they need, so that sessions are few and large.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from opendpu.ir import FloatGraph
from opendpu.ir.xir_bridge import add_op, type_with_quantization
from opendpu.ops import operator_of
from opendpu.ops.foreign import KIND, model_opset
from opendpu.ops.session import Session
from opendpu.runtime.cpu.registry import Array, call, python_for, refuse
from xir import Op


@dataclasses.dataclass(frozen=True)
class _PythonStep:
    """One op that a Python function computes."""

    op: Op

    def run(self, values: dict[str, Array]) -> None:
        inputs = [values[tensor.name] for tensor in self.op.get_input_tensors()]
        values[self.op.get_output_tensor().name] = call(self.op, inputs)


class _SessionStep:
    """Ops that one session of onnxruntime computes; nodes have the names of tensors."""

    def __init__(self, graph: FloatGraph, nodes: Sequence[str], keep: Sequence[str]) -> None:
        self.session = Session(graph, nodes=nodes, keep=keep)
        self._types = {name: graph[name].type.dtype for name in self.session.inputs}

    def run(self, values: dict[str, Array]) -> None:
        feeds = {name: np.asarray(values[name], dtype=dtype) for name, dtype in self._types.items()}
        values.update(self.session.run(feeds))


class Island:
    """Ops of the CPU, in topological order, compiled to steps.

    Parameters
    ----------
    ops
        The ops; what they read of others comes from outside.
    wanted
        Names of the tensors that others or the user take.

    Raises
    ------
    UnsupportedError
        Nothing computes an op.
    """

    def __init__(self, ops: Sequence[Op], wanted: Collection[str]) -> None:
        self.wanted = sorted(wanted)
        groups = _grouped(ops)
        self._steps: list[_PythonStep | _SessionStep] = []
        readers = _readers(groups)
        for number, group in enumerate(groups):
            if not group.session:
                self._steps += [_PythonStep(op) for op in group.ops]
                continue
            own = [op.get_output_tensor().name for op in group.ops]
            later = {n for n, where in readers.items() if any(w > number for w in where)}
            keep = [name for name in own if name in wanted or name in later]
            self._steps.append(_SessionStep(_graph_of(group.ops), own, keep))

    def run(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """Return the wanted tensors; ``given`` are those from outside, by name."""
        values = dict(given)
        for step in self._steps:
            step.run(values)
        return {name: np.require(values[name], requirements="C") for name in self.wanted}


@dataclasses.dataclass(frozen=True)
class _Group:
    """Ops that run together: in one session, or one after the other in Python."""

    session: bool
    ops: list[Op]


def _grouped(ops: Sequence[Op]) -> list[_Group]:
    """Return the ops in groups that only need earlier ones."""
    waiting = list(ops)
    done: set[str] = set()
    own = {op.get_output_tensor().name for op in ops}
    kinds = {op.get_type(): op for op in ops}
    by_python = {kind for kind, op in kinds.items() if python_for(op) is not None}
    places = {op: _in_session(op, op.get_type() in by_python) for op in ops}
    groups: list[_Group] = []
    session = True
    while waiting:
        group = _Group(session, [])
        opset: int | None = None
        later = []
        for op in waiting:
            ready = all(t.name in done or t.name not in own for t in op.get_input_tensors())
            needed = _opset(op) if session else None
            if not ready or places[op] != session or (
                needed is not None and opset not in (None, needed)
            ):  # fmt: skip
                later.append(op)
                continue
            opset = needed or opset
            group.ops.append(op)
            done.add(op.get_output_tensor().name)
        waiting = later
        if group.ops:
            groups.append(group)
        session = not session
    return groups


def _in_session(op: Op, by_python: bool) -> bool:
    """Tell whether onnxruntime computes an op; whatever somebody registered comes first."""
    if is_any_scale(op):
        return True
    if by_python:
        return False
    if operator_of(op.get_type()).emit is None:
        refuse(op)
    return True


def is_any_scale(op: Op) -> bool:
    """Tell whether an op computes with scales other than the DPU's, which its kernel does."""
    tensors = [op.get_output_tensor(), *op.get_input_tensors()]
    return op.has_attr("multiplier") or any(tensor.has_attr("scale") for tensor in tensors)


def _opset(op: Op) -> int | None:
    return model_opset(op.get_attr("model")) if op.get_type() == KIND else None


def _readers(groups: Sequence[_Group]) -> dict[str, list[int]]:
    """Return the groups that read each tensor, by number."""
    found: dict[str, list[int]] = {}
    for number, group in enumerate(groups):
        for op in group.ops:
            for tensor in op.get_input_tensors():
                found.setdefault(tensor.name, []).append(number)
    return found


def _graph_of(ops: Sequence[Op]) -> FloatGraph:
    """Return ops as a graph whose nodes have the names of their tensors."""
    graph = FloatGraph("island")
    for op in ops:
        for source in op.get_input_ops_list():
            tensor = source.get_output_tensor()
            if tensor.name not in graph.nodes:
                graph.add(tensor.name, "data", type_with_quantization(tensor))
        add_op(graph, op, lambda source: source.get_output_tensor().name)
    return graph


def evaluate(op: Op, inputs: Sequence[Array]) -> Array:
    """Return the result of one op, in the dimensions and element type of its tensor.

    What is no feature map (argument ``input``) counts as constant.

    Raises
    ------
    UnsupportedError
        Nothing computes this op type.
    GraphError
        The result has other dimensions than the tensor.
    """
    if not _in_session(op, python_for(op) is not None):
        return call(op, inputs)
    graph = FloatGraph("op")
    feeds: dict[str, Array] = {}
    arrays = iter(inputs)
    for arg, sources in op.get_input_ops().items():
        for source in sources:
            name, array = source.get_name(), next(arrays)
            if name in graph.nodes:
                continue
            made = type_with_quantization(source.get_output_tensor())
            if arg == "input":
                graph.add(name, "data", made)
                feeds[name] = np.asarray(array, dtype=made.dtype)
            else:
                graph.add(name, "const", made, value=np.asarray(array))
    node = add_op(graph, op)
    return Session(graph, nodes=[node.name], keep=[node.name]).run(feeds)[node.name]
