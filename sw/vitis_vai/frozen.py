# SPDX-License-Identifier: Apache-2.0
"""Quantized frozen graphs: a GraphDef of TensorFlow in which one operator is a quantized network.

It computes bit by bit as the DPU does, so the graph is what accuracy is measured with; and
:func:`vitis_vai.create_wego_graph` compiles it.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from opendpu.frontend.tensorflow.runtime import tf
from opendpu_arch.errors import UnsupportedError
from vai_q_tensorflow2.network import ExactNetwork
from vitis_vai import operator

FORM = "quantized"


def _read(content: bytes, header: Mapping[str, Any]) -> ExactNetwork:
    return ExactNetwork(onnx.load_model_from_string(content))


operator.readers[FORM] = _read


@dataclasses.dataclass(frozen=True)
class Cut:
    """A graph, cut in front of a network and behind it.

    Parameters
    ----------
    before
        Nodes that make the network's inputs, these among them.
    behind
        All others outside.
    shared
        Constants inside that nodes behind need, too.
    """

    before: set[str]
    behind: set[str]
    shared: set[str]


def cut(graph_def: Any, inputs: Sequence[str], outputs: Sequence[str]) -> Cut:
    """Return what is outside of the network between two sets of nodes.

    Raises
    ------
    UnsupportedError
        The graph has no such node, the outputs do not depend on an input, or nodes behind the
        outputs need what is inside.
    """
    nodes = {node.name: node for node in graph_def.node}
    inside = _between(nodes, inputs, outputs)
    before = set(inputs) | _all_before(nodes, inputs)
    behind = {name for name in nodes if name not in inside and name not in before}
    needed = _all_before(nodes, behind, stop=set(outputs) | before) & inside - set(outputs)
    shared = {name for name in needed if before.isdisjoint({name} | _all_before(nodes, [name]))}
    read = {source for name in behind for source in _sources(nodes[name])}
    if stuck := sorted(read & needed - shared):
        raise UnsupportedError(
            f"node {stuck[0]!r} is needed outside of what is quantized: make it an output node"
        )
    return Cut(before, behind, shared)


def _between(nodes: Mapping[str, Any], inputs: Sequence[str], outputs: Sequence[str]) -> set[str]:
    """Return the nodes that compute ``outputs`` out of ``inputs``, these not among them."""
    for name in (*inputs, *outputs):
        if name not in nodes:
            raise UnsupportedError(f"the graph has no node {name!r}")
    found: set[str] = set()
    waiting = [name for name in outputs if name not in inputs]
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for before in _sources(nodes[name]):
            (reached.add if before in inputs else waiting.append)(before)
    missing = sorted(set(inputs) - reached)
    if missing:
        raise UnsupportedError(
            f"{', '.join(outputs)} of the graph do not depend on input {missing[0]!r}"
        )
    return found


def quantized_graph(
    graph_def: Any, inputs: Sequence[str], outputs: Sequence[str], model: onnx.ModelProto
) -> Any:
    """Return a graph in which a quantized network takes the place of what it was made from.

    Parameters
    ----------
    graph_def
        The float graph.
    inputs, outputs
        The nodes that it is between, which keep their names; in the network's order.
    model
        The network, ONNX with quantizing operators.

    Raises
    ------
    UnsupportedError
        As of :func:`cut`.
    """
    parts = cut(graph_def, inputs, outputs)
    sizes = [[d.dim_value for d in item.type.tensor_type.shape.dim] for item in model.graph.output]
    shapes = [[None, *size[1:]] if size else [] for size in sizes]
    with tf.Graph().as_default() as made:
        tf.import_graph_def(_part(graph_def, parts.before), name="")
        tensors = [made.get_tensor_by_name(f"{name}:0") for name in inputs]
        results = operator.place({"form": FORM}, model.SerializeToString(), tensors, shapes)
        renamed = {
            f"{name}:0": tf.identity(tensor, name=name)
            for name, tensor in zip(outputs, results, strict=True)
        }
        part = _part(graph_def, parts.behind | parts.shared)
        used = {f"{name}:0" for node in part.node for name in _sources(node)}
        tf.import_graph_def(
            part, name="",
            input_map={
                **{key: value for key, value in renamed.items() if key in used},
                **{f"{name}:0": made.get_tensor_by_name(f"{name}:0") for name in parts.before
                   if f"{name}:0" in used},
            },
        )  # fmt: skip
    return made.as_graph_def()


def network_in(graph_def: Any) -> ExactNetwork | None:
    """Return the quantized network in a graph, if it has one."""
    for node in graph_def.node:
        if node.op == "PyFunc" and node.attr["token"].s.decode() == operator.TOKEN:
            text, content = _constants(graph_def, node)
            header = json.loads(text.attr["value"].tensor.string_val[0])
            if header["form"] == FORM:
                found = tf.make_ndarray(content.attr["value"].tensor)
                return _read(found.tobytes(), header)
    return None


def with_network(graph_def: Any, header: Mapping[str, Any], content: bytes) -> Any:
    """Return a copy of a graph with another network in its operator."""
    made = type(graph_def)()
    made.CopyFrom(graph_def)
    for node in made.node:
        if node.op == "PyFunc" and node.attr["token"].s.decode() == operator.TOKEN:
            text, data = _constants(made, node)
            text.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(operator.head(header, content)))
            data.attr["value"].tensor.CopyFrom(
                tf.make_tensor_proto(np.frombuffer(content, np.uint8))
            )
    return made


def _constants(graph_def: Any, node: Any) -> tuple[Any, Any]:
    """Return the nodes that hold the header and the network of an operator."""
    nodes = {item.name: item for item in graph_def.node}
    first, second = (nodes[name.partition(":")[0]] for name in node.input[:2])
    return first, second


def _sources(node: Any) -> list[str]:
    return [name.lstrip("^").partition(":")[0] for name in node.input]


def _all_before(
    nodes: Mapping[str, Any], names: Iterable[str], stop: set[str] | None = None
) -> set[str]:
    """Return what nodes depend on; what is in ``stop`` is not looked behind."""
    found: set[str] = set()
    waiting = [before for name in names for before in _sources(nodes[name])]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            if not stop or name not in stop:
                waiting.extend(_sources(nodes[name]))
    return found


def _part(graph_def: Any, names: set[str]) -> Any:
    """Return a graph of some nodes only."""
    made = tf.compat.v1.GraphDef()
    made.versions.CopyFrom(graph_def.versions)
    made.node.extend(node for node in graph_def.node if node.name in names)
    return made
