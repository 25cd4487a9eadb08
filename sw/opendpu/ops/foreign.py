# SPDX-License-Identifier: Apache-2.0
"""Operators that we do not know: they stay ONNX, and onnxruntime computes them.

An op of kind ``onnx`` is one output of a call of an ONNX model. Its attributes are ``model``, the
model as bytes, whose inputs are those of the op in order; ``call``, a name that all outputs of the
same call have; and ``output``, the number of the output. ``libraries`` are paths of libraries for
onnxruntime with operators of other domains. ``dynamic_axes`` lists the axes whose size is only
known at run time: in the graph it is 1; ``[-1]`` where not even the rank is known.
"""

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opendpu.ir import Graph, Node
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Operator, register
from opendpu_arch.errors import GraphError

KIND = "onnx"
"""Type of the op, in files too."""
LIBRARIES = "libraries"
DYNAMIC_AXES = "dynamic_axes"
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
    return model_opset(node.attrs["model"]) if node.kind == KIND else None


def model_opset(data: bytes) -> int | None:
    """Return the version of the default operator set of a call's model; none if it uses none."""
    for item in parsed(data).opset_import:
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
    number = int(node.attrs["output"])
    builder.bind(node, _cast(builder, made[number], model.graph.output[number], node.type.dtype))


def _cast(builder: OnnxBuilder, name: str, said: onnx.ValueInfoProto, wanted: np.dtype[Any]) -> str:
    """Return a value in the element type that a graph has for it: XIR has no bool."""
    kind = helper.np_dtype_to_tensor_dtype(wanted)
    if said.type.tensor_type.elem_type in (onnx.TensorProto.UNDEFINED, kind):
        return name
    return builder.op("Cast", [name], to=kind)


def _inline(builder: OnnxBuilder, node: Node, model: onnx.ModelProto) -> list[str]:
    """Add the nodes of a model under names of their own; return those of its outputs."""
    prefix = f"{builder.unique(node.attrs['call'])}/"
    builder.libraries.update(dict.fromkeys(node.attrs.get(LIBRARIES, ())))
    given = [item.name for item in model.graph.input]
    sources = node.inputs.get("input", [])
    if len(given) != len(sources):
        raise GraphError(
            f"op {node.name!r} has {len(sources)} inputs, but its ONNX model has {len(given)}"
        )
    known = {}
    for item, source in zip(model.graph.input, sources, strict=True):
        kind = item.type.tensor_type.elem_type or onnx.TensorProto.FLOAT
        has = helper.np_dtype_to_tensor_dtype(builder.graph[source].type.dtype)
        value = builder.plain(source)
        known[item.name] = value if kind == has else builder.op("Cast", [value], to=kind)

    def rename(name: str) -> str:
        return known.get(name, prefix + name) if name else ""

    for used in model.opset_import:
        if used.domain not in DEFAULT_DOMAINS:
            builder.opsets[used.domain] = max(used.version, builder.opsets.get(used.domain, 0))
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
            inner = [attribute.g] if attribute.HasField("g") else []
            for graph in (*inner, *attribute.graphs):
                _rename_graph(graph, rename, prefix)
        made.append(copy)
    return made


def _rename_graph(graph: onnx.GraphProto, rename: Callable[[str], str], prefix: str) -> None:
    for item in (*graph.input, *graph.output, *graph.value_info):
        item.name = rename(item.name)
    for tensor in graph.initializer:
        tensor.name = rename(tensor.name)
    nodes = _renamed(graph.node, rename, prefix)
    del graph.node[:]
    graph.node.extend(nodes)


def opsets_of(graph: Graph, names: Iterable[str]) -> set[int]:
    """Return the versions of the default operator set that some ops need."""
    found = (opset_of(graph[name]) for name in names)
    return {version for version in found if version is not None}


ELEMENTWISE = frozenset({
    "Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Clip", "Cos",
    "Cosh", "Div", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity",
    "LeakyRelu", "Log", "Max", "Min", "Mish", "Mul", "Neg", "Pow", "Reciprocal", "Relu", "Round",
    "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub",
    "Swish", "Tan", "Tanh", "ThresholdedRelu",
})  # fmt: skip
"""ONNX operators whose results depend, element by element, on operands of the same shape."""


LAYER_NORM = "LayerNormalization"
RMS_NORM = "SimplifiedLayerNormalization"
"""RMSNorm, as onnxruntime calls it."""


def only_operator(node: Node) -> onnx.NodeProto | None:
    """Return the operator of a call that consists of one of ONNX's own; none of other ops."""
    if node.kind != KIND:
        return None
    graph = parsed(node.attrs["model"]).graph
    if len(graph.node) != 1 or graph.node[0].domain not in DEFAULT_DOMAINS:
        return None
    return graph.node[0]


def is_normalization(node: Node, rank: int) -> bool:
    """Return whether an op normalizes the last of ``rank`` axes, by constants."""
    operator = only_operator(node)
    if operator is None or len(operator.output) != 1 or len(node.sources()) != 1:
        return False
    axis = next((int(a.i) for a in operator.attribute if a.name == "axis"), -1)
    return operator.op_type in (LAYER_NORM, RMS_NORM) and axis % rank == rank - 1


def _is_elementwise(node: Node) -> bool:
    """Return whether a call is made of such operators, with constants of one element."""
    model = parsed(node.attrs["model"])
    return (
        node.attrs.get(DYNAMIC_AXES) is None
        and len(model.graph.output) == 1
        and all(n.op_type in ELEMENTWISE and n.domain in DEFAULT_DOMAINS for n in model.graph.node)
        and all(math.prod(tensor.dims) == 1 for tensor in model.graph.initializer)
    )


register(Operator(kind=KIND, emit=_emit, elementwise=_is_elementwise))
