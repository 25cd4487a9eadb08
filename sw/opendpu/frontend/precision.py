# SPDX-License-Identifier: Apache-2.0
"""Networks in half or double precision as ones in single precision.

The DPU's integers come from real numbers of any precision, but XIR's real numbers are float32, and
onnxruntime has many operators for float32 alone. A network with layers in another precision is
read as if its file had been written in float32; its inputs and outputs keep their types for who
calls it, in the graph attribute ``onnx_dtype``.
"""

import contextlib
import dataclasses
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, TypeProto, helper, numpy_helper

from opendpu.frontend.unfused import MICROSOFT
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS
from opendpu.ops.quantizing import DOMAINS

OTHERS = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
"""Element types that become float32."""
LAYERS = frozenset((
    "Conv", "ConvTranspose", "Einsum", "FusedConv", "FusedGemm", "FusedMatMul", "GRU", "Gemm",
    "LSTM", "MatMul", "RNN",
))  # fmt: skip
"""Operators with weights, without which a model keeps its types."""
KNOWN = frozenset((*DEFAULT_DOMAINS, *DOMAINS, MICROSOFT))
"""Domains of operators that compute in float32 what they compute in other precisions."""
TYPES = ("dtype", "output_datatype", "output_dtype", "precision", "to")
"""Attributes that are an element type."""
_DTYPES = tuple(helper.tensor_dtype_to_np_dtype(kind) for kind in OTHERS)


@dataclasses.dataclass(frozen=True)
class Precision:
    """A model in single precision, and the element types that its ports had."""

    model: onnx.ModelProto
    """All of it but the weights that lie outside its nodes: see :func:`single`."""
    declared: dict[str, str]
    """Names of numpy's types by input or output, where that is not what it is now."""


def in_single_precision(model: onnx.ModelProto) -> Precision | None:
    """Return a model with layers in half or double precision as one in single precision.

    Nothing where it is so already, has no layers, or has operators whose types are not known here.
    """
    graphs = list(_graphs(model.graph))
    nodes = [node for graph in graphs for node in graph.node]
    if not any(node.op_type in LAYERS for node in nodes):
        return None
    if any(node.domain not in KNOWN for node in nodes) or not any(map(_has_others, graphs)):
        return None
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    weights = {item.name for item in copy.graph.initializer}
    declared = {
        item.name: helper.tensor_dtype_to_np_dtype(item.type.tensor_type.elem_type).name
        for item in (*copy.graph.input, *copy.graph.output)
        if _is_other(item.type) and item.name not in weights
    }
    for graph in _graphs(copy.graph):
        for item in (*graph.input, *graph.output, *graph.value_info):
            _retype(item.type)
        for node in graph.node:
            for attribute in node.attribute:
                _convert(attribute)
        if graph is not copy.graph:
            for tensor in graph.initializer:
                _convert_tensor(tensor)
    return Precision(copy, declared)


def single(array: Array) -> Array:
    """Return weights in single precision; those of other types as they are."""
    return array.astype(np.float32) if array.dtype in _DTYPES else array


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and the bodies in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs) if _holds_graphs(attribute) else ():
                yield from _graphs(body)


def _holds_graphs(attribute: AttributeProto) -> bool:
    return attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def _has_others(graph: onnx.GraphProto) -> bool:
    if any(tensor.data_type in OTHERS for tensor in graph.initializer):
        return True
    if any(_is_other(item.type) for item in graph.input):
        return True
    return any(
        (attribute.name in TYPES and attribute.i in OTHERS)
        or (attribute.type == AttributeProto.TENSOR and attribute.t.data_type in OTHERS)
        for node in graph.node
        for attribute in node.attribute
    )


def _is_other(kind: TypeProto) -> bool:
    return kind.HasField("tensor_type") and kind.tensor_type.elem_type in OTHERS


def _retype(kind: TypeProto) -> None:
    """Make what is of another precision float32, in lists and options too."""
    which = kind.WhichOneof("value")
    if which == "tensor_type" and kind.tensor_type.elem_type in OTHERS:
        kind.tensor_type.elem_type = TensorProto.FLOAT
    elif which in ("sequence_type", "optional_type"):
        _retype(getattr(kind, which).elem_type)


def _convert(attribute: AttributeProto) -> None:
    if attribute.name in TYPES and attribute.i in OTHERS:
        attribute.i = TensorProto.FLOAT
    elif attribute.type == AttributeProto.TENSOR:
        _convert_tensor(attribute.t)
    elif attribute.type == AttributeProto.TYPE_PROTO:
        _retype(attribute.tp)


def _convert_tensor(tensor: TensorProto) -> None:
    """Make a tensor float32; one that is damaged stays, for who reads it to say so."""
    if tensor.data_type in OTHERS:
        with contextlib.suppress(Exception):  # onnx checks nothing before it reads
            values = single(numpy_helper.to_array(tensor))
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
