# SPDX-License-Identifier: Apache-2.0
"""A network as ONNX with other numbers of channels, without tracing it again."""

from collections.abc import Mapping, Sequence

import onnx
from onnx import helper, numpy_helper
from onnxscript import ir, optimizer

from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph
from opendpu.optimize.surgery import Axes

FLAT = 2
"""Axes of what a flatten makes."""


def narrowed(model: onnx.ModelProto, axes: Axes) -> FloatGraph:
    """Return the float graph of a model without some channels.

    Parameters
    ----------
    model
        As :func:`opendpu.frontend.pytorch.as_onnx` makes it; stays as it is.
    axes
        What is removed of which parameter.

    Raises
    ------
    ModelFormatError, UnsupportedError
        The source fixes a number of channels, for example in a reshape.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for value in made.graph.value_info:
        value.type.tensor_type.ClearField("shape")
    for tensor in made.graph.initializer:
        if tensor.name in axes:
            tensor.CopyFrom(_cut(tensor, axes[tensor.name]))
    for node in made.graph.node:
        if node.op_type in ("Conv", "ConvTranspose"):
            _regroup(node, made.graph.initializer, axes)
    _free_flattens(made.graph)
    graph = ir.from_proto(made)
    optimizer.fold_constants(graph)
    optimizer.remove_unused_nodes(graph)
    return load_onnx(ir.to_proto(graph))


def _cut(tensor: onnx.TensorProto, axes: Mapping[int, Sequence[int]]) -> onnx.TensorProto:
    values = numpy_helper.to_array(tensor)
    for axis, indices in axes.items():
        gone = set(indices)
        values = values.take([i for i in range(values.shape[axis]) if i not in gone], axis)
    return numpy_helper.from_array(values, tensor.name)


def _regroup(node: onnx.NodeProto, initializers: Sequence[onnx.TensorProto], axes: Axes) -> None:
    """Give a depthwise convolution as many groups as it has channels now."""
    weight = node.input[1]
    if weight not in axes:
        return
    shape = next(tuple(t.dims) for t in initializers if t.name == weight)
    for attribute in node.attribute:
        if attribute.name == "group" and attribute.i > 1 and shape[1] == 1:
            before = shape[0] + len(axes[weight].get(0, ()))
            if attribute.i == before:
                attribute.i = shape[0]


def _free_flattens(graph: onnx.GraphProto) -> None:
    """Let reshapes to a batch of vectors find the length of these themselves."""
    makers = {name: node for node in graph.node for name in node.output}
    constants = {tensor.name: tensor for tensor in graph.initializer}

    def length(name: str) -> int | None:
        if name in constants:
            return constants[name].dims[0] if constants[name].dims else 1
        node = makers.get(name)
        if node is None:
            return None
        if node.op_type == "Concat":
            parts = [length(part) for part in node.input]
            return None if None in parts else sum(part or 0 for part in parts)
        if node.op_type == "Constant":
            attribute = node.attribute[0]
            if attribute.name == "value_ints":
                return len(attribute.ints)
            return attribute.t.dims[0] if attribute.t.dims else 1
        return None

    free = helper.make_tensor("flat_shape", onnx.TensorProto.INT64, [FLAT], [1, -1])
    used = False
    for node in graph.node:
        if node.op_type == "Reshape" and length(node.input[1]) == FLAT:
            node.input[1] = free.name
            used = True
    if used:
        graph.initializer.append(free)
