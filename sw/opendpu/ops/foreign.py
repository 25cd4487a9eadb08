# SPDX-License-Identifier: Apache-2.0
"""Operators that we do not know: they stay ONNX, and onnxruntime computes them.

An op of kind ``onnx`` is one output of a call of an ONNX model. Its attributes are ``model``, the
model as bytes, whose inputs are those of the op in order; ``call``, a name that all outputs of the
same call have; and ``output``, the number of the output.
"""

import functools
from collections.abc import Callable, Iterable

import onnx

from opendpu.ir import Graph, Node
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Operator, register
from opendpu_arch.errors import GraphError

KIND = "onnx"
"""Type of the op, in files too."""
DEFAULT_DOMAINS = ("", "ai.onnx")


@functools.lru_cache(maxsize=256)
def parsed(data: bytes) -> onnx.ModelProto:
    """Return the model of a call.

    Raises
    ------
    GraphError
        The bytes are no ONNX model.
    """
    try:
        return onnx.load_model_from_string(data)
    except Exception as error:
        raise GraphError(f"attribute 'model' of an op {KIND!r} is no ONNX model: {error}") from None


def opset_of(node: Node) -> int | None:
    """Return the version of the default operator set that an op needs; none for ours."""
    if node.kind != KIND:
        return None
    for item in parsed(node.attrs["model"]).opset_import:
        if item.domain in DEFAULT_DOMAINS:
            return int(item.version)
    return None


def label_of(node: Node) -> str:
    """Return the ONNX operators of a call, for people: ``LSTM``, or ``Erf + Sqrt``."""
    types = dict.fromkeys(n.op_type for n in parsed(node.attrs["model"]).graph.node)
    return " + ".join(types)


def _emit(builder: OnnxBuilder, node: Node) -> None:
    """Inline the model of the call, once for all its outputs, and bind the op's own."""
    model = parsed(node.attrs["model"])
    made = builder.calls.get(node.attrs["call"])
    if made is None:
        made = _inline(builder, node, model)
        builder.calls[node.attrs["call"]] = made
    builder.bind(node, made[int(node.attrs["output"])])


def _inline(builder: OnnxBuilder, node: Node, model: onnx.ModelProto) -> list[str]:
    """Add the nodes of a model under names of their own; return those of its outputs."""
    prefix = f"{builder.unique(node.attrs['call'])}/"
    given = [item.name for item in model.graph.input]
    sources = node.inputs.get("input", [])
    if len(given) != len(sources):
        raise GraphError(
            f"op {node.name!r} has {len(sources)} inputs, but its ONNX model has {len(given)}"
        )
    known = {name: builder.plain(s) for name, s in zip(given, sources, strict=True)}

    def rename(name: str) -> str:
        return known.get(name, prefix + name) if name else ""

    for item in model.opset_import:
        if item.domain not in DEFAULT_DOMAINS:
            builder.opsets[item.domain] = max(item.version, builder.opsets.get(item.domain, 0))
    for tensor in model.graph.initializer:
        copy = onnx.TensorProto()
        copy.CopyFrom(tensor)
        copy.name = rename(tensor.name)
        builder.initializers[copy.name] = copy
    builder.functions.update({(f.domain, f.name): f for f in model.functions})
    builder.nodes += _renamed(model.graph.node, rename, prefix)
    return [rename(item.name) for item in model.graph.output]


def _renamed(
    nodes: Iterable[onnx.NodeProto], rename: Callable[[str], str], prefix: str
) -> list[onnx.NodeProto]:
    """Return nodes, and those of graphs inside them, that work on renamed values."""
    made = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{prefix}{node.name}" if node.name else ""
        copy.input[:] = [rename(name) for name in node.input]
        copy.output[:] = [rename(name) for name in node.output]
        for attribute in copy.attribute:
            if attribute.HasField("g"):  # looking at it otherwise would give it one
                _rename_graph(attribute.g, rename, prefix)
            for graph in attribute.graphs:
                _rename_graph(graph, rename, prefix)
        made.append(copy)
    return made


def _rename_graph(graph: onnx.GraphProto, rename: Callable[[str], str], prefix: str) -> None:
    for item in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        item.name = rename(item.name)
    nodes = _renamed(graph.node, rename, prefix)
    del graph.node[:]
    graph.node.extend(nodes)


def opsets_of(graph: Graph, names: Iterable[str]) -> set[int]:
    """Return the versions of the default operator set that some ops need."""
    found = (opset_of(graph[name]) for name in names)
    return {version for version in found if version is not None}


register(Operator(kind=KIND, emit=_emit))
