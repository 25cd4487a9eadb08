# SPDX-License-Identifier: Apache-2.0
"""Models with texts, sequences or dictionaries at their ends: what is of numbers, and the rest.

The DPU's part of such a model ends before the first value that is no tensor of numbers and begins
behind the last one that the inputs lead to; onnxruntime computes what is before and after.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import onnx
import onnxruntime
from onnx import TensorProto, helper

from opendpu.frontend.last_numbers import behind_numbers
from opendpu.frontend.model_file import reads
from opendpu.onnxruntime.port import is_numbers, kind_of
from opendpu_arch.errors import ModelFormatError

_NETWORK = ("Conv", "ConvTranspose", "Gemm", "MatMul", "QLinearConv", "QLinearMatMul")
"""Operators that the DPU is there for: a text that meets their results is joined behind them."""
NO_NETWORK = "nothing of it is a network from tensors of numbers to such"
_WRAPPED = re.compile(r"(tensor|seq|optional|map)\((.*)\)")
"""Types as onnxruntime says them: ``seq(map(int64,tensor(float)))``."""


@dataclasses.dataclass(frozen=True)
class Parts:
    """A model in three, by the names of its own values.

    ``before`` and ``after`` are none where there is nothing to compute; ``numbers`` reads and makes
    tensors of numbers only. ``inside`` are the places of its nodes among the model's.
    """

    before: onnx.ModelProto | None
    numbers: onnx.ModelProto
    after: onnx.ModelProto | None
    inside: frozenset[int]


def parts_of(model: onnx.ModelProto, session_options: Any = None) -> Parts | None:
    """Return a model cut; nothing if no network of numbers is left, or there is nothing to cut.

    ``session_options`` are those with which onnxruntime opens the model (libraries of operators).

    Raises
    ------
    ModelFormatError
        onnxruntime does not open the model.
    """
    values = _values(model, session_options)
    places = _Places(model.graph, {name for name, one in values.items() if is_numbers(one)})
    if not places.numbers or not places.before | places.after:
        return None
    before, numbers, after = (
        _part(model, values, chosen, places.last_of(chosen))
        for chosen in (places.before, places.numbers, places.after)
    )
    if numbers is None or not numbers.graph.input:
        return None
    return Parts(before, numbers, after, frozenset(places.numbers))


class _Places:
    """Which nodes of a graph, by number, are before, in and after the network of numbers."""

    def __init__(self, graph: onnx.GraphProto, numbers: Collection[str]) -> None:
        self._nodes, self._is_number = graph.node, numbers
        self._made_by = {n: i for i, node in enumerate(graph.node) for n in node.output if n}
        self._read_by: dict[str, list[int]] = {}
        for number, node in enumerate(graph.node):
            for name in reads(node):
                self._read_by.setdefault(name, []).append(number)
        self._outputs = [item.name for item in graph.output]
        weights = {item.name for item in graph.initializer}
        given = [item.name for item in graph.input if item.name not in weights]
        fed = self._led_to(name for name in given if name not in numbers)
        late = {number for number in fed if self._meets_network(number)}
        self.after = self._behind(late | self._leading_to_outputs())
        self.before = self._in_front_of(fed - self.after)
        self.after -= self.before
        every = {i for i, node in enumerate(graph.node) if not _is_constant(node)}
        self.numbers = every - self.before - self.after

    def last_of(self, chosen: Collection[int]) -> list[str]:
        """Return the values of some nodes that others read, or that the graph gives."""
        return [
            name
            for number in sorted(chosen)
            for name in self._nodes[number].output
            if name in self._outputs or set(self._read_by.get(name, ())) - set(chosen)
        ]

    def _led_to(self, names: Iterable[str]) -> set[int]:
        """Return the nodes that values reach, through others that are no numbers."""
        found: set[int] = set()
        waiting = list(names)
        while waiting:
            for number in set(self._read_by.get(waiting.pop(), ())) - found:
                found.add(number)
                waiting += [n for n in self._nodes[number].output if n not in self._is_number]
        return found

    def _leading_to_outputs(self) -> set[int]:
        """Return the nodes behind the graph's outputs that are no numbers, up to numbers."""
        ends = [name for name in self._outputs if name not in self._is_number]
        nodes = {name: self._nodes[number] for name, number in self._made_by.items()}
        others = behind_numbers(ends, nodes, self._is_number.__contains__).others
        found = {self._made_by[name] for name in others if name in self._made_by}
        return {number for number in found if not _is_constant(self._nodes[number])}

    def _behind(self, chosen: Collection[int]) -> set[int]:
        """Return nodes and all that their results reach."""
        found, waiting = set(chosen), list(chosen)
        while waiting:
            for name in self._nodes[waiting.pop()].output:
                new = set(self._read_by.get(name, ())) - found
                found |= new
                waiting += new
        return found

    def _in_front_of(self, chosen: Collection[int]) -> set[int]:
        """Return nodes and all that they are made from, but for constants."""
        found, waiting = set(chosen), list(chosen)
        while waiting:
            for name in reads(self._nodes[waiting.pop()]):
                number = self._made_by.get(name)
                if number is None or number in found or _is_constant(self._nodes[number]):
                    continue
                found.add(number)
                waiting.append(number)
        return found

    def _meets_network(self, number: int) -> bool:
        return any(self._nodes[i].op_type in _NETWORK for i in self._in_front_of({number}))


def _is_constant(node: onnx.NodeProto) -> bool:
    """Tell whether a node is one that every part may have for itself."""
    return node.op_type == "Constant"


def _values(model: onnx.ModelProto, session_options: Any) -> dict[str, Any]:
    """Return what onnxruntime says of each value of a graph, its inputs too, by name."""
    asked = onnx.ModelProto()
    asked.CopyFrom(model)
    known = {item.name for item in asked.graph.output}
    for node in asked.graph.node:
        for name in node.output:
            if name and name not in known:
                asked.graph.output.add(name=name)
    options = session_options or onnxruntime.SessionOptions()
    before = options.graph_optimization_level, options.log_severity_level
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            asked.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime's errors have no common base
        raise ModelFormatError(f"onnxruntime does not open the model: {error}") from None
    finally:
        options.graph_optimization_level, options.log_severity_level = before
    return {one.name: one for one in (*session.get_inputs(), *session.get_outputs())}


def _part(
    model: onnx.ModelProto, values: Mapping[str, Any], chosen: Collection[int], last: Sequence[str]
) -> onnx.ModelProto | None:
    """Return some nodes of a model as one of its own, with the weights that they read."""
    if not chosen:
        return None
    graph = model.graph
    read = {name for number in chosen for name in reads(graph.node[number])}
    nodes = [
        node
        for number, node in enumerate(graph.node)
        if number in chosen or (_is_constant(node) and read & set(node.output))
    ]
    made = {name for node in nodes for name in node.output}
    weights = [item for item in graph.initializer if item.name in read]
    sparse = [item for item in graph.sparse_initializer if item.values.name in read]
    inside = made | {item.name for item in weights} | {item.values.name for item in sparse}
    own = {item.name: item for item in (*graph.input, *graph.output)}
    found = helper.make_graph(
        nodes,
        graph.name or "graph",
        [own.get(n) or _info(values[n]) for n in values if n in read - inside],
        [own[n] if n in own and own[n].HasField("type") else _info(values[n]) for n in last],
        weights,
        sparse_initializer=sparse,
    )
    made_model = helper.make_model(
        found, opset_imports=list(model.opset_import), ir_version=model.ir_version,
        functions=list(model.functions),
    )  # fmt: skip
    made_model.metadata_props.extend(model.metadata_props)
    return made_model


def _info(declared: Any) -> onnx.ValueInfoProto:
    """Return a value of a graph with the type, and shape if it is known, that onnxruntime says."""
    if not is_numbers(declared):
        return helper.make_value_info(declared.name, _type(str(declared.type)))
    shape = declared.shape or None  # none is known, or it is a number
    return helper.make_tensor_value_info(declared.name, _element(declared.type), shape)


def _type(kind: str) -> onnx.TypeProto:
    """Return the type that onnxruntime's name says."""
    found = _WRAPPED.fullmatch(kind)
    if not found:
        raise ModelFormatError(f"{kind!r} is no type of a value that parts can hand on")
    outer, inner = found.groups()
    if outer == "tensor":
        return helper.make_tensor_type_proto(_element(kind), None)
    if outer == "seq":
        return helper.make_sequence_type_proto(_type(inner))
    if outer == "optional":
        return helper.make_optional_type_proto(_type(inner))
    key, _, value = inner.partition(",")
    return helper.make_map_type_proto(_element(f"tensor({key})"), _type(value))


def _element(kind: str) -> int:
    if kind == "tensor(string)":
        return int(TensorProto.STRING)
    return int(helper.np_dtype_to_tensor_dtype(kind_of(kind)))
