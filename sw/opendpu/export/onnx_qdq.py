# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs as ONNX models with quantizing operators, in the layout of the user's model."""

import json

import onnx
from onnx import helper

from opendpu.export.bodies import shielded
from opendpu.export.forms import form_of
from opendpu.export.functions import CAST_LIKE
from opendpu.export.naming import name_nodes, value_names
from opendpu.export.quantized_builder import STORAGE, WIDE_OPSET, QuantizedBuilder
from opendpu.frontend.instances import renamed
from opendpu.ir import SCALARS, Graph, Node, QuantizedGraph
from opendpu.ops import SOURCES
from opendpu.ops.foreign import DYNAMIC_AXES, opsets_of
from opendpu.ops.onnx_builder import OPSET, TO_NHWC
from opendpu.quantize.placement.insert import fix_name
from opendpu_arch.errors import UnsupportedError

PRODUCER = "opendpu"

CHANNELS_FIRST = "opendpu.channels_first"
"""Metadata of a model: which tensors are NCHW, as a JSON list, because sizes do not always tell."""

ORDER = "onnx_order"
"""Attribute of a graph: the ONNX axis of each axis, by input or output."""


def to_onnx(
    graph: QuantizedGraph,
    form: str = "native",
    *,
    exact: bool = True,
    pairs: bool | None = None,
    simulate: bool = True,
    dynamic_batch: bool = False,
    opset: int | None = None,
) -> onnx.ModelProto:
    """Return a quantized graph as ONNX model: float operators, quantizing ones between them.

    Inputs and outputs have the names, types and order of axes of the ONNX model that the graph
    comes from; tensors between them have the names of the ops.

    Parameters
    ----------
    graph
        What a quantizer made: a ``fix`` behind every tensor that is quantized.
    form
        One of :data:`opendpu.export.FORMS`. ``native`` is ONNX's QuantizeLinear and
        DequantizeLinear.
    exact
        Whether the model rounds as the DPU does. ONNX's QuantizeLinear rounds halves to even, the
        DPU up; so the native form has a function ``RoundHalfUp`` in front of each QuantizeLinear
        that may see a half. Without, there is nothing but ONNX's own operators.
    pairs
        Whether constants are kept as floats with the quantizing operators behind (the guide's
        ``AddQDQPairToWeight``), or as integers; by default as the form's own tools write them.
    simulate
        Whether average pools and hard-sigmoids get the factor by which the DPU's differ.
    dynamic_batch
        Whether the first axis of inputs is free, where it is 1.
    opset
        Version of ONNX's operator set; by default the one that the graph needs.

    Raises
    ------
    UnsupportedError
        An op that ONNX has no nodes for, an unknown form, quantization that the form cannot say,
        or an operator set that does not fit.
    """
    chosen = form_of(form)
    builder = QuantizedBuilder(
        graph, chosen, opset=_opset(graph, form, opset), batched=dynamic_batch, exact=exact,
        pairs=chosen.pairs if pairs is None else pairs, simulate=simulate,
    )  # fmt: skip
    for node in graph:
        if node.kind in SOURCES:
            _add_input(builder, node)
        else:
            builder.add(node)
    outputs = {name: output_name(graph, name) for name in graph.outputs}
    infos = [_add_output(builder, name, shown) for name, shown in outputs.items()]
    return _model(builder, infos)


def output_name(graph: Graph, name: str) -> str:
    """Return what the user calls the output that an op makes: a ``fix`` has its source's name."""
    node = graph[name]
    if node.kind == "fix" and node.name == fix_name(node.inputs["input"][0]):
        return node.inputs["input"][0]
    return name


def _opset(graph: Graph, form: str, wanted: int | None) -> int:
    found = opsets_of(graph, graph.nodes)
    if len(found) > 1:
        raise UnsupportedError(
            f"ops of graph {graph.name!r} need the ONNX operator sets "
            f"{', '.join(map(str, sorted(found)))} in one model, which is one too many"
        )
    narrow = min(STORAGE)
    wide = any(
        n.kind == "fix" and n.quantization.bits > narrow and graph[n.sources()[0]].value is None
        for n in graph
    )
    oldest = (WIDE_OPSET if form == "native" else CAST_LIKE) if wide else 13
    opset = wanted or next(iter(found), max(oldest, OPSET))
    if found and opset not in found:
        raise UnsupportedError(
            f"graph {graph.name!r} has operators of the ONNX operator set {found.pop()}, so that "
            f"it cannot be written in set {opset}"
        )
    if opset < oldest:
        raise UnsupportedError(f"the ONNX operator set is {opset}, but must be {oldest} or newer")
    return opset


def _add_input(builder: QuantizedBuilder, node: Node) -> None:
    """Make an input in the user's order of axes."""
    builder.add_input(node.name)
    order = tuple(builder.graph.attrs.get(ORDER, {}).get(node.name, ()))
    builder.values[node.name] = node.name
    if node.name in builder.graph.attrs.get(SCALARS, ()):
        del builder.inputs[-1].type.tensor_type.shape.dim[:]
        builder.rebind(node, builder.op("Reshape", [node.name, builder.integers([1])]))
        return
    if not order:
        return
    dims = builder.inputs[-1].type.tensor_type.shape.dim
    stored = [type(dim).FromString(dim.SerializeToString()) for dim in dims]
    for axis, dim in zip(order, stored, strict=True):
        dims[axis].CopyFrom(dim)
    if order == TO_NHWC:
        builder.rebind(node, node.name, channels_first=True)
    else:
        builder.rebind(node, builder.op("Transpose", [node.name], perm=list(order)))


def _add_output(builder: QuantizedBuilder, name: str, shown: str) -> onnx.ValueInfoProto:
    """Make an output in the user's order of axes, under a name of its own."""
    node, order = builder.graph[name], builder.graph.attrs.get(ORDER, {})
    axes = tuple(order.get(shown, order.get(name, range(len(node.shape)))))
    if axes == TO_NHWC:
        value = builder.channels_first(name)
    else:
        value = builder.plain(name)
        if axes != tuple(range(len(axes))):
            value = builder.op("Transpose", [value], perm=[axes.index(a) for a in range(len(axes))])
    shape: list[int | str] = [node.shape[axes.index(axis)] for axis in range(len(axes))]
    if {name, shown} & set(builder.graph.attrs.get(SCALARS, ())):
        value, shape = builder.op("Reshape", [value, builder.integers([])]), []
    builder.nodes.append(helper.make_node("Identity", [value], [shown]))
    if builder.batched and shape and shape[0] == 1:
        shape[0] = "N"
    kind = helper.np_dtype_to_tensor_dtype(node.type.dtype)
    dynamic = node.attrs.get(DYNAMIC_AXES, ())
    for axis in dynamic:
        shape[axis] = f"{shown}_{axis}"
    return helper.make_tensor_value_info(shown, kind, None if -1 in dynamic else shape)


def _model(builder: QuantizedBuilder, outputs: list[onnx.ValueInfoProto]) -> onnx.ModelProto:
    shown = [item.name for item in outputs]
    made = _without_identities(builder, set(shown))
    name_nodes(builder)
    names = value_names(builder, made, shown)
    model = builder.model(shown)
    nodes = shielded(renamed(node, names) for node in model.graph.node)
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.extend(nodes)
    model.graph.output.extend(outputs)
    model.producer_name = PRODUCER
    first = {names.get(value, value) for value in builder.first_values()}
    helper.set_model_props(model, {CHANNELS_FIRST: json.dumps(sorted(first))})
    return model


def channels_first(model: onnx.ModelProto) -> frozenset[str]:
    """Return the tensors of a model that :func:`to_onnx` made that are NCHW and NHWC in XIR."""
    for item in model.metadata_props:
        if item.key == CHANNELS_FIRST:
            return frozenset(json.loads(item.value))
    return frozenset()


def _without_identities(builder: QuantizedBuilder, outputs: set[str]) -> dict[str, str]:
    """Let nodes make outputs themselves where they can; return these by what they made before."""
    fixed = {item.name for item in builder.inputs} | set(builder.initializers)
    found: dict[str, str] = {}
    for last in [n for n in builder.nodes if n.op_type == "Identity" and n.output[0] in outputs]:
        value, shown = last.input[0], last.output[0]
        if value not in fixed and value not in found:
            builder.nodes.remove(last)
            found[value] = shown
    return found
