# SPDX-License-Identifier: Apache-2.0
"""From an ONNX file to a float XIR graph: constants, inputs, nodes, outputs."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from opendpu.frontend import tidy
from opendpu.frontend.context import Call, Context
from opendpu.frontend.layout import CHANNELS_LAST, Value, plain
from opendpu.frontend.ops import HANDLERS, quantization
from opendpu.frontend.patterns import recognize
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.source import Source, read
from opendpu.ir import FloatGraph
from opendpu_arch.errors import GraphError, UnsupportedError

_SPATIAL = {
    "AveragePool",
    "BatchNormalization",
    "Conv",
    "ConvTranspose",
    "DepthToSpace",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "LRN",
    "MaxPool",
    "PRelu",
    "Resize",
    "SpaceToDepth",
    "Upsample",
}
_NEUTRAL = {
    *quantization.OPERATORS,
    "Add",
    "Clip",
    "Concat",
    "Div",
    "Dropout",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "LeakyRelu",
    "Mul",
    "Pad",
    "Relu",
    "Sigmoid",
    "Slice",
    "Split",
    "Sub",
    "Tanh",
}
_MOVING = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""What leaves constants on their grid."""


def load_onnx(model: str | Path | onnx.ModelProto) -> FloatGraph:
    """Convert an ONNX model, a file or in memory, to a float XIR graph.

    All tensors are float32 with batch 1. Feature maps are NHWC whatever the model uses; ops keep
    the names of the ONNX tensors they make, so inputs and outputs have their ONNX names. Where
    an input or output has its axes in another order than in ONNX, the graph attribute
    ``onnx_order`` gives, by tensor name, the ONNX axis of each XIR axis (``[0, 2, 3, 1]`` for
    NCHW). ``return_ops`` lists the outputs.

    Raises
    ------
    ModelFormatError
        The file is missing, is no ONNX model, lacks weights, or reads tensors nobody makes.
    UnsupportedError
        The operator set, an input's type, a dynamic dimension other than the batch, or nodes
        that cannot be converted: all of them, with name, type and reason.
    """
    return lower(read(model))


def lower(source: Source) -> FloatGraph:
    """Return the tidy graph of a checked ONNX model."""
    context = Context(source)
    order: dict[str, list[int]] = {}
    for name, shape in source.inputs.items():
        perm = plain(len(shape))
        if len(shape) in CHANNELS_LAST and _is_feature_map(source, name):
            perm = CHANNELS_LAST[len(shape)]
            order[name] = list(perm)
        context.graph.add(name, "data", tuple(shape[axis] for axis in perm))
        context.values[name] = Value(name, shape, perm)
    _convert_nodes(context)
    _bind_outputs(context, order)
    if order:
        context.graph.attrs["onnx_order"] = order
    recognize(context.graph)
    tidy.tidy(context.graph)
    return context.graph


def _is_feature_map(source: Source, name: str) -> bool:
    """Return whether an input reaches a spatial operator without being rearranged before."""
    reached = {name}
    for node in source.nodes:
        if reached.isdisjoint(node.input):
            continue
        if node.op_type in _SPATIAL and node.input[0] in reached:
            return True
        if node.op_type in _NEUTRAL:
            reached.update(node.output)
    return False


def _convert_nodes(context: Context) -> None:
    refusals: list[str] = []
    lost: set[str] = set()
    for proto in context.source.nodes:
        if any(name in lost for name in proto.input):
            lost.update(proto.output)
            continue
        try:
            _convert(context, proto)
        except Refusal as reason:
            label = proto.name or proto.output[0]
            refusals.append(f"node {label!r} ({proto.op_type}): {reason}")
            lost.update(proto.output)
    if refusals:
        count = f"{len(refusals)} node{'s' if len(refusals) > 1 else ''}"
        raise UnsupportedError(
            f"{context.source.path}: {count} cannot be converted:\n  " + "\n  ".join(refusals)
        )


def _convert(context: Context, proto: onnx.NodeProto) -> None:
    quantizing = proto.op_type in quantization.OPERATORS
    domains = ("", "ai.onnx", *(quantization.DOMAINS if quantizing else ()))
    if proto.domain not in domains:
        raise Refusal(f"operator domain {proto.domain!r} is not supported")
    if not quantizing and _fold_constant(context, proto):
        return
    handler = HANDLERS.get(proto.op_type)
    if handler is None:
        raise Refusal("the operator is not supported")
    call = Call.of(context, proto)
    handler(call)
    if call.output in context.constants:
        return
    for name in proto.output:
        if name in context.values:
            _check_shape(context, proto, name)


def _check_shape(context: Context, proto: onnx.NodeProto, name: str) -> None:
    """Compare the shape of a converted tensor with onnx's.

    Where a pooling rounds up, onnx counts windows that start behind the feature map; by ONNX's
    definition, and for onnxruntime, there are none.
    """
    shape = context.values[name].shape
    if min(shape, default=1) < 1:
        raise Refusal(f"the result has shape {list(shape)}")
    if not context.unchecked.isdisjoint(proto.input):
        context.unchecked.add(name)
        return
    wanted = context.source.shapes.get(name, shape)
    if shape != (wanted or (1,)):
        if any(a.name == "ceil_mode" and a.i for a in proto.attribute):
            context.unchecked.add(name)
            return
        raise Refusal(f"the result should have shape {list(wanted)}, but has {list(shape)}")


def _fold_constant(context: Context, proto: onnx.NodeProto) -> bool:
    """Evaluate a node whose inputs are all known; return whether it was one."""
    known: dict[str, Any] = {
        name: context.constants[name] for name in proto.input if name in context.constants
    }
    if proto.op_type == "Shape" and proto.input[0] in context.values:
        shape = context.values[proto.input[0]].shape
        attrs = {a.name: a.i for a in proto.attribute}
        part = shape[attrs.get("start", 0) : attrs.get("end", len(shape))]
        context.constants[proto.output[0]] = np.array(part, dtype=np.int64)
        return True
    if any(name and name not in known for name in proto.input) or any(
        attribute.type == onnx.AttributeProto.GRAPH for attribute in proto.attribute
    ):
        return False
    if not proto.input and not proto.op_type.startswith("Constant"):
        return False
    graph = onnx.helper.make_graph(
        [proto],
        "constant",
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in known.items()
        ],
        [onnx.helper.make_empty_tensor_value_info(name) for name in proto.output],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", context.opset)], ir_version=10
    )
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), _quiet())
        results = session.run(None, known)
    except Exception as error:  # onnxruntime has no common base class for its errors
        raise Refusal(f"its constant inputs cannot be evaluated: {error}") from None
    context.constants.update(zip(proto.output, results, strict=True))
    if proto.op_type in _MOVING and proto.input[0] in context.points:
        context.points[proto.output[0]] = context.points[proto.input[0]]
    return True


def _quiet() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def _bind_outputs(context: Context, order: dict[str, list[int]]) -> None:
    """Make a node for every output, with the output's name."""
    graph = context.graph
    taken: set[str] = set()
    for name, declared in context.source.outputs.items():
        if name not in context.values:
            raise UnsupportedError(f"{context.source.path}: output {name!r} is a constant")
        value = context.straight(context.values[name])
        rank = len(value.shape)
        doubtful = name in context.unchecked
        if declared is not None and not doubtful and not _agrees(declared, value.shape):
            raise GraphError(
                f"output {name!r} should have shape {list(declared)}, "
                f"but its nodes give {list(value.shape)}"
            )
        perm = CHANNELS_LAST.get(rank)
        if perm is not None and value.perm == perm:
            order[name] = list(perm)
        else:
            perm = plain(rank)
        node = context.ordered(value, perm)
        if (
            graph[node].kind in ("data", "const")
            or node in taken
            or (node != name and node in context.source.outputs)
        ):
            shape = graph[node].shape
            node = graph.add(
                graph.unique(f"{name}_copy"),
                "reshape",
                shape,
                {"input": [node]},
                {"shape": list(shape)},
            ).name
        if node != name:
            if name in graph.nodes:
                context.rename(name, graph.unique(f"{name}_inner"))
            context.rename(node, name)
        taken.add(name)
        graph.outputs.append(name)


def _agrees(declared: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    return len(declared) == len(shape) and all(
        size is None or size == found for size, found in zip(declared, shape, strict=True)
    )
