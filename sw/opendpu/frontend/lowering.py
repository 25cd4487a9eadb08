# SPDX-License-Identifier: Apache-2.0
"""From an ONNX file to a float graph: inputs, nodes, outputs."""

import dataclasses
import os
import pathlib
from collections.abc import Sequence

import onnx

from opendpu.frontend import tidy
from opendpu.frontend.binding import Sizes
from opendpu.frontend.context import Call, Context
from opendpu.frontend.fallback import keep_onnx
from opendpu.frontend.float8 import is_float8
from opendpu.frontend.gates import join_gates
from opendpu.frontend.input_values import Values
from opendpu.frontend.layout import CHANNELS_LAST, Value, plain
from opendpu.frontend.model_file import AnyModel, label_of, operator_name, read_model, reads
from opendpu.frontend.ops import HANDLERS
from opendpu.frontend.ops.quantization import clips_integers
from opendpu.frontend.ops.registry import ANY_DTYPE, KEEPS_GRID, Layout, layout_of
from opendpu.frontend.origins import origin_of
from opendpu.frontend.outputs import bind_outputs
from opendpu.frontend.refusal import MALFORMED, FaultError, Refusal
from opendpu.frontend.requantizing import LEFT, Requantize, left_quantizers
from opendpu.frontend.single_node import evaluate
from opendpu.frontend.source import Source, attributes, read
from opendpu.ir import NOTES, SCALARS, FloatGraph, Quantization
from opendpu.ir.types import FLOAT32
from opendpu.ops.foreign import DEFAULT_DOMAINS
from opendpu.ops.quantizing import OPERATORS, QUANTIZERS, is_quantizing
from opendpu_arch.errors import ModelFormatError, UnsupportedError


def load_onnx(
    model: AnyModel,
    input_shapes: Sizes | None = None,
    *,
    input_values: Values | None = None,
    libraries: Sequence[str | pathlib.Path] = (),
    label: str = "",
    channels_last: bool = False,
    any_scale: bool = False,
    real_ports: bool = False,
    requantize: Requantize = Requantize.NO,
) -> FloatGraph:
    """Convert an ONNX model, a file or in memory, to a float graph.

    Feature maps are NHWC whatever the model uses; ops keep the names of the ONNX tensors they make,
    so inputs and outputs have their ONNX names, and their element types. Where an input or output
    has its axes in another order than in ONNX, the graph attribute ``onnx_order`` gives, by tensor
    name, the ONNX axis of each axis (``[0, 2, 3, 1]`` for NCHW). Scalars have shape [1]; the
    attribute ``onnx_scalars`` names those that are inputs or outputs. An output that is an input is
    a copy of it, ``NAME_copy``. A network in half or double precision is one in float32 here; the
    graph attribute ``onnx_dtype`` gives the types that its ports had.

    Operators that have no XIR op, or are in a form that it has not, stay ONNX (kind ``onnx``, see
    :mod:`opendpu.ops.foreign`), with the reason in ``Node.reason``.

    Parameters
    ----------
    model
        The file, the model, or what :func:`opendpu.frontend.model_file.read_model` made of either.
    input_shapes
        Shapes by input, or sizes by name of a dimension that the model leaves open; ``""`` stands
        for the only input. A batch that is open becomes 1 by itself. Shapes may have other sizes
        than the model fixes, where its constants allow it.
    input_values
        Inputs that always have one value, numbers or arrays by name: they become constants, and are
        no inputs of the graph.
    libraries
        Shared libraries with operators of other domains, for onnxruntime.
    label
        What the model is called in messages, where it is not the file's name.
    channels_last
        Inputs and outputs are NHWC in the model already, and keep the order of their axes.
    any_scale
        Quantized tensors keep whatever scales, for each channel too, and zero points they have, as
        the extension ``scaled`` computes with them; else these must be the DPU's.
    real_ports
        Inputs and outputs that the model has as integers with a scale become the real numbers that
        these stand for, where any scale is allowed or scales may be changed.
    requantize
        What becomes of a quantized model whose scales are not the DPU's.

    Raises
    ------
    ModelFormatError
        The file is missing, is no ONNX model, lacks weights, reads tensors nobody makes, or has
        nodes whose types do not fit together: every such fault.
    UnsupportedError
        The operator set, an input or output that is no tensor of numbers, free dimensions without a
        size, a value that is none of its input, or nodes that onnxruntime does not compute either:
        all of them, with the reason.
    """
    try:
        source = read(
            model, input_shapes, libraries, label, input_values=input_values,
            any_scale=any_scale, requantize=requantize, real_ports=real_ports,
        )  # fmt: skip
        with source.bound.checked():
            return lower(source, channels_last=channels_last, any_scale=any_scale)
    except UnicodeDecodeError as error:
        name = model
        if not isinstance(model, str | os.PathLike):
            name = read_model(model).proto.graph.name
        raise ModelFormatError(f"{label or name}: a name in it is no UTF-8 text: {error}") from None


def lower(source: Source, *, channels_last: bool = False, any_scale: bool = False) -> FloatGraph:
    """Return the tidy graph of a checked ONNX model; parameters as of :func:`load_onnx`."""
    context = Context(source, any_scale=any_scale)
    order: dict[str, list[int]] = {}
    for name, made in source.inputs.items():
        perm = plain(len(made.shape))
        if not channels_last and len(perm) in CHANNELS_LAST and _is_feature_map(source, name):
            perm = CHANNELS_LAST[len(perm)]
            order[name] = list(perm)
        stored = tuple(made.shape[axis] for axis in perm) or (1,)
        context.graph.add(name, "data", made.with_shape(stored))
        context.values[name] = Value(name, made.shape, perm)
    _convert_nodes(context)
    scalars = [name for name, made in source.inputs.items() if not made.shape]
    scalars += bind_outputs(context, order, channels_last=channels_last)
    if order:
        context.graph.attrs["onnx_order"] = order
    if scalars:
        context.graph.attrs[SCALARS] = scalars
    if source.declared:
        context.graph.attrs["onnx_dtype"] = dict(source.declared)
    notes = [*source.notes, *_left(context.graph)]
    if notes:
        context.graph.attrs[NOTES] = notes
    tidy.tidy(context.graph)
    join_gates(context.graph)
    return context.graph


def _left(graph: FloatGraph) -> list[str]:
    """Return what is said of quantizing operators that stay on the CPU."""
    left = left_quantizers(graph)
    return [LEFT.format(count=len(left), first=left[0].name)] if left else []


def _is_feature_map(source: Source, name: str) -> bool:
    """Return whether an input reaches a spatial operator without being rearranged before."""
    reached = {name}
    for cluster in source.clusters:
        for node in cluster:
            if not node.input or reached.isdisjoint(node.input):
                continue
            layout = layout_of(node.op_type)
            if layout is Layout.SPATIAL and node.input[0] in reached:
                return True
            if layout is Layout.NEUTRAL:
                reached.update(node.output)
    return False


def _convert_nodes(context: Context) -> None:
    """Convert all nodes, and tell of all that cannot be."""
    faults: list[str] = []
    refusals: list[str] = []
    lost: set[str] = set()
    for cluster in context.source.clusters:
        made = [name for node in cluster for name in node.output]
        if not lost.isdisjoint(name for node in cluster for name in reads(node)):
            lost.update(made)
            continue
        try:
            _convert(context, cluster)
        except Refusal as reason:
            refusals.append(f"node {label_of(cluster[0])}: {reason}")
            lost.update(made)
        except FaultError as fault:
            faults.append(f"node {label_of(cluster[0])}: {fault}")
            lost.update(made)
    label = context.source.label
    if faults:
        raise ModelFormatError(f"{label}: {'; '.join(faults)}")
    if refusals:
        count = f"{len(refusals)} node{'s' if len(refusals) > 1 else ''}"
        raise UnsupportedError(f"{label}: {count} cannot be converted:\n  " + "\n  ".join(refusals))


def _why_together(context: Context, cluster: Sequence[onnx.NodeProto]) -> str:
    """Return why several nodes are kept as they are, in one."""
    for node in cluster:
        zero = context.source.constants.get(node.input[2]) if len(node.input) > 2 else None
        if node.op_type in QUANTIZERS and zero is not None and is_float8(zero.dtype):
            return (
                f"tensor {node.input[0]!r} is quantized to {zero.dtype}, but the DPU has integers; "
                "--requantize gives it 8 bits"
            )
    return "between its nodes go values that are no tensors of known shape"


def _convert(context: Context, cluster: Sequence[onnx.NodeProto]) -> None:
    """Convert a node, or keep it and those that belong to it as ONNX."""
    context.origin = origin_of(cluster[0])
    if len(cluster) > 1:
        keep_onnx(context, cluster, _why_together(context, cluster))
        return
    (proto,) = cluster
    before = context.snapshot()
    try:
        _handle(context, proto)
    except Refusal as reason:
        context.restore(before)
        try:
            keep_onnx(context, cluster, str(reason))
        except Refusal as other:
            raise Refusal(f"{reason}; {other}") from None


def _handle(context: Context, proto: onnx.NodeProto) -> None:
    """Convert a node; Refusal if it has to stay ONNX."""
    own = is_quantizing(proto.domain, proto.op_type)
    known = own or proto.domain in DEFAULT_DOMAINS
    quantizing = own or proto.op_type in OPERATORS or clips_integers(context, proto)
    handler = HANDLERS.get(proto.op_type) if known else None
    if not quantizing and _fold(context, proto):
        return
    if handler is None:
        raise Refusal(f"XIR has no counterpart of ONNX's operator {operator_name(proto)}")
    _check_types(context, proto)
    try:
        call = Call.of(context, proto)
        handler(call)
    except MALFORMED as error:
        raise Refusal(f"its attributes make no sense: {error!r}") from None
    if call.output in context.constants:
        return
    for name in proto.output:
        if name in context.values:
            _check_shape(context, name)


def _check_types(context: Context, proto: onnx.NodeProto) -> None:
    """Refuse tensors of other types than float32, and integers that are real numbers here."""
    grid = proto.op_type in (*OPERATORS, *KEEPS_GRID) or clips_integers(context, proto)
    for name in proto.input:
        if name not in context.values:
            continue
        found = context.graph[context.values[name].node].type.dtype
        wanted = found if grid else context.source.dtype(name) or found
        if found != wanted or (found != FLOAT32 and proto.op_type not in ANY_DTYPE):
            raise Refusal(f"tensor {name!r} has type {wanted}, but XIR's op is of float32")


def _check_shape(context: Context, name: str) -> None:
    """Compare the shape of a converted tensor with that of ONNX."""
    shape = context.values[name].shape
    if min(shape, default=1) < 1:
        raise Refusal(f"the result has shape {list(shape)}")
    wanted = context.source.shape(name)
    if wanted is not None and shape not in (wanted, wanted or (1,)):
        raise Refusal(f"the result should have shape {list(wanted)}, but has {list(shape)}")


def _moved(grid: Quantization, proto: onnx.NodeProto) -> Quantization | None:
    """Return what a node that moves elements makes of a constant's quantization.

    None where scales do not run along an axis any more.
    """
    if grid.axis is None:
        return grid
    if proto.op_type != "Transpose":
        return None
    order = attributes(proto).get("perm")
    return order and dataclasses.replace(grid, axis=list(order).index(grid.axis))


def _fold(context: Context, proto: onnx.NodeProto) -> bool:
    """Evaluate a node whose inputs are known by now; return whether it was one."""
    if not proto.input or any(name not in context.constants for name in reads(proto)):
        return False
    found = evaluate(context.source.dialect, proto, context.constants)
    if found is None:
        return False
    context.constants.update(found)
    if proto.op_type in KEEPS_GRID and proto.input[0] in context.grids:
        moved = _moved(context.grids[proto.input[0]], proto)
        if moved is not None:
            context.grids[proto.output[0]] = moved
    return True
