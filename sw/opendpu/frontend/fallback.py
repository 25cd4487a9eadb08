# SPDX-License-Identifier: Apache-2.0
"""Nodes that stay ONNX: ops of kind ``onnx``, one for each output of a call.

A call is an ONNX model with the nodes, and constants that they read. Its inputs and outputs are
tensors of numbers in ONNX's order of axes; an operator on each element works in the order that its
inputs have. Tensors of rank 0 are vectors of one element outside.
"""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, version_converter

from opendpu.frontend.context import Array, Context
from opendpu.frontend.layout import Value, plain
from opendpu.frontend.model_file import label_of, reads
from opendpu.frontend.ops.registry import ELEMENTWISE
from opendpu.frontend.opsets import is_defined, means_the_same, own_opset, with_opset
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.single_node import Dialect, RefusedError, is_native, known_dims
from opendpu.ir import Node
from opendpu.ir.types import FLOAT32
from opendpu.ops import operator_of
from opendpu.ops.foreign import (
    DEFAULT_DOMAINS,
    DYNAMIC_AXES,
    KIND,
    LAYER_NORM,
    LIBRARIES,
    RMS_NORM,
)
from opendpu.ops.onnx_builder import OPSET
from opendpu.ops.session import LEAST_OPSET

LARGEST_INSIDE = 1 << 24
"""Bytes of the largest constant in a call's model; larger ones are ops of the graph."""
NAMED = 5
"""Nodes that a message names at most."""


def keep_onnx(context: Context, nodes: Sequence[onnx.NodeProto], reason: str) -> None:
    """Append the ops of a call and bind the outputs that somebody reads.

    Raises
    ------
    Refusal
        onnxruntime does not compute the nodes either, or a value that is no tensor of numbers is an
        output of the model.
    """
    nodes = _with_producers(context, nodes)
    wanted = _wanted(context, nodes)
    if not wanted:
        return
    perm = _elementwise_order(context, nodes)
    call = _Call(context, perm)
    model = call.model(nodes, wanted)
    shapes = {name: call.output_shape(name) for name in wanted}
    title = context.graph.unique(wanted[0])
    attrs = {"model": model.SerializeToString(), "call": title}
    libraries = context.source.dialect.libraries
    if libraries and any(node.domain not in DEFAULT_DOMAINS for node in nodes):
        attrs[LIBRARIES] = list(libraries)
    for number, name in enumerate(wanted):
        shape, dynamic = shapes[name]
        made = context.emit(
            name, KIND, shape, {"input": list(call.inputs)},
            attrs | {"output": number} | ({DYNAMIC_AXES: dynamic} if dynamic else {}),
            context.source.dtype(name) or FLOAT32,
        )  # fmt: skip
        node = context.graph[made]
        node.reason = "" if _may_be_table(context, node) else reason
        order = plain(len(shape)) if perm is None else perm
        straight = context.source.shape(name)
        if straight is None or len(straight) != len(order):
            straight, order = shape, plain(len(shape))
        context.values[name] = Value(made, straight, order)


def _may_be_table(context: Context, node: Node) -> bool:
    """Tell whether an op is one of real numbers, element by element: that has no reason to be the
    CPU's before a target is known."""
    types = {found.type.dtype for found in (node, *(context.graph[n] for n in node.sources()))}
    return types == {FLOAT32} and operator_of(node).is_elementwise(node)


def _with_producers(context: Context, nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return the nodes behind those whose results are real numbers here, but integers in ONNX."""
    every, made = list(nodes), {name for node in nodes for name in node.output}
    waiting = [name for node in nodes for name in reads(node)]
    while waiting:
        name = waiting.pop()
        producer = context.source.producers.get(name)
        if name in made or producer is None:
            continue
        if name in context.constants:
            found = context.constants[name].dtype
        else:
            found = context.graph[context.values[name].node].type.dtype
        wanted = context.source.dtype(name)
        if wanted is not None and wanted != found:
            every.insert(0, producer)
            made.update(producer.output)
            waiting += reads(producer)
    return every


def _wanted(context: Context, nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """Return the results that are read outside."""
    inside: dict[str, int] = {}
    for node in nodes:
        for name in reads(node):
            inside[name] = inside.get(name, 0) + 1
    return [
        name
        for node in nodes
        for name in node.output
        if name
        and name not in context.values
        and name not in context.constants
        and context.source.uses[name] > inside.get(name, 0)
    ]


def _elementwise_order(context: Context, nodes: Sequence[onnx.NodeProto]) -> tuple[int, ...] | None:
    """Return the order of axes for an operator on each element; nothing for other nodes."""
    if len(nodes) != 1 or nodes[0].domain not in DEFAULT_DOMAINS:
        return None
    (node,) = nodes
    shape = context.source.shape(node.output[0])
    if node.op_type not in ELEMENTWISE or not shape:
        return None
    for name in node.input:
        value = context.values.get(name)
        if value is not None and len(value.shape) == len(shape):
            return context.straight(value).perm
    return plain(len(shape))


class _Call:
    """Inputs of a call, and the model around its nodes."""

    def __init__(self, context: Context, perm: tuple[int, ...] | None) -> None:
        self.context = context
        self.perm = perm
        self.inputs: list[str] = []
        self._kinds: dict[str, onnx.TypeProto] = {}
        self._constants: dict[str, Array] = {}
        self._before: list[onnx.NodeProto] = []

    def model(self, nodes: Sequence[onnx.NodeProto], wanted: Sequence[str]) -> onnx.ModelProto:
        """Return the model; Refusal if onnxruntime does not take it."""
        made = {name for node in nodes for name in node.output}
        for name in dict.fromkeys(name for node in nodes for name in reads(node)):
            if name not in made:
                self._read(name)
        inner = [_bare(node) for node in nodes]
        outputs, behind = [], []
        for name in wanted:
            outputs.append(name)
            if self.context.source.shape(name) == ():
                outputs[-1] = f"{name}/vector"
                behind.append(self._reshape(name, outputs[-1], (1,)))
        dialect = self.context.source.dialect
        every = [*self._before, *inner, *behind]
        model = dialect.model(every, self._kinds, self._constants, outputs)
        model = _only_used(model, every)
        for item, name in zip(model.graph.output, wanted, strict=True):
            found = self.context.source.dtype(name)
            if found is not None:
                item.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(found)
        try:
            dialect.session(model)
        except RefusedError as error:
            label = _named(nodes, dialect)
            raise Refusal(f"onnxruntime does not compute {label}: {error}") from None
        for name in wanted:
            if self.context.source.dtype(name) is None:
                raise Refusal(f"output {name!r} is no tensor of integers, floats or bools")
        return _newer(model, dialect)

    def output_shape(self, name: str) -> tuple[tuple[int, ...], list[int]]:
        """Return the shape of a result in the graph, and the axes whose size is not known."""
        dims = known_dims(self.context.source.types[name])
        if dims is None:
            return (1,), [-1]
        if self.perm is not None and len(self.perm) == len(dims):
            dims = [dims[axis] for axis in self.perm]
        unknown = [axis for axis, size in enumerate(dims) if size is None]
        return tuple(1 if size is None else size for size in dims) or (1,), unknown

    def _read(self, name: str) -> None:
        array = self.context.constants.get(name)
        if array is not None and not (array.nbytes > LARGEST_INSIDE and is_native(array.dtype)):
            self._constants[name] = self._laid_out(array, name)
            return
        value = self.context.values.get(name)
        if value is None and array is not None:
            node = self.context.constant_node(name, array)
            value = Value(node, array.shape, plain(array.ndim))
            self.context.values[name] = value
        assert value is not None, name
        wanted = self.context.source.shape(name) if array is None else array.shape
        if self.perm is not None and wanted != ():
            value = self.context.straight(value)
            missing = len(self.perm) - len(value.shape)
            order = (*range(missing), *(axis + missing for axis in value.perm))
            value = Value(value.node, (1,) * missing + value.shape, order)
            node = self.context.ordered(value, self.perm)
        else:
            node = self.context.ordered(value, plain(len(value.shape)))
            if wanted is not None and wanted:
                node = self.context.view(node, wanted)
        if node in self.inputs:  # two tensors in one place
            self._before.append(helper.make_node("Identity", [self._name_of(node)], [name]))
            return
        self.inputs.append(node)
        made = self.context.graph[node].type
        inner = name
        if wanted == ():
            inner = f"{name}/vector"
            self._before.append(self._reshape(inner, name, ()))
        element = helper.np_dtype_to_tensor_dtype(made.dtype)
        self._kinds[inner] = helper.make_tensor_type_proto(element, made.shape)

    def _name_of(self, node: str) -> str:
        return list(self._kinds)[self.inputs.index(node)]

    def _laid_out(self, array: Array, name: str) -> Array:
        """Return a constant in the order of axes of the call."""
        if self.perm is None or array.size == 1:
            return array
        if array.ndim > len(self.perm):
            raise Refusal(
                f"constant {name!r} has {array.ndim} axes, but must have {len(self.perm)} at most"
            )
        lifted = array.reshape((1,) * (len(self.perm) - array.ndim) + array.shape)
        return lifted.transpose(self.perm)

    def _reshape(self, name: str, output: str, shape: tuple[int, ...]) -> onnx.NodeProto:
        target = f"{output}/shape"
        self._constants[target] = np.array(shape, np.int64)
        return helper.make_node("Reshape", [name, target], [output])


def _named(nodes: Sequence[onnx.NodeProto], dialect: Dialect) -> str:
    """Return names of nodes for a message: of those that are no operators of ONNX, if there are."""
    unknown = [node for node in nodes if not is_defined(node, dialect.opset)]
    labels = [label_of(node) for node in unknown or nodes]
    more = [f"{len(labels) - NAMED} more"] if len(labels) > NAMED else []
    return ", ".join([*labels[:NAMED], *more])


def _bare(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return a copy of a node without what exporters noted about it."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.ClearField("doc_string")
    copy.ClearField("metadata_props")
    return copy


def _only_used(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    """Drop imports of operator sets that no node is of."""
    used = {node.domain for node in nodes} | {""}
    nested = any(attribute.g.node for node in nodes for attribute in node.attribute)
    keep = [item for item in model.opset_import if item.domain in used or nested]
    del model.opset_import[:]
    model.opset_import.extend(keep)
    return model


def _converted(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model for our operator set; what onnx raises where it does not convert it passes."""
    made = (LAYER_NORM, RMS_NORM)  # by the front end, of operators of older sets
    opset = own_opset(model)
    early = all(  # operators on trial, which a later set has
        n.op_type in made or (not is_defined(n, opset) and is_defined(n, OPSET))
        for n in model.graph.node
        if n.domain in DEFAULT_DOMAINS
    )
    if early or means_the_same(model.graph.node, opset, OPSET):
        return with_opset(model, OPSET)
    return version_converter.convert_version(model, OPSET)


def _newer(model: onnx.ModelProto, dialect: Dialect) -> onnx.ModelProto:
    """Return the model for an operator set that our own kernels know, where onnx converts it.

    A call for which it does not has a session of its own.
    """
    if dialect.opset >= LEAST_OPSET:
        return model
    try:
        newer = _converted(model)
        dialect.session(newer)
    except (RefusedError, RuntimeError, ValueError):
        return model
    # Scan of old has batches, which onnx takes away from the inputs.
    before, after = ([item.type for item in m.graph.input] for m in (model, newer))
    return newer if before == after else model
