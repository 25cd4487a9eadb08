# SPDX-License-Identifier: Apache-2.0
"""Shapes and types of all tensors, as onnx infers them: what conversion is checked against."""

from collections.abc import Mapping

import onnx
from onnx import shape_inference

from opendpu_arch.errors import ModelFormatError

LARGEST = 4096
"""Bytes of the largest constant whose values take part; shapes and axes are smaller."""


def infer_shapes(
    path: object, model: onnx.ModelProto, inputs: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Return the shapes that onnx infers, by tensor, where all dimensions are known.

    ``inputs`` are the shapes that the inputs will have; ``path`` is named in errors.

    Raises
    ------
    ModelFormatError
        Types of the nodes contradict each other.
    """
    skeleton = onnx.ModelProto(ir_version=model.ir_version)
    skeleton.opset_import.extend(model.opset_import)
    imported = {item.domain for item in model.opset_import}
    for domain in {node.domain for node in model.graph.node} - imported - {"", "ai.onnx"}:
        skeleton.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    skeleton.functions.extend(model.functions)
    graph = skeleton.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node)
    graph.output.extend(model.graph.output)
    for item in model.graph.input:
        graph.input.append(item)
        if item.name in inputs:
            dims = graph.input[-1].type.tensor_type.shape.dim
            for dim, size in zip(dims, inputs[item.name], strict=True):
                dim.dim_value = size
    for tensor in model.graph.initializer:
        if tensor.ByteSize() <= LARGEST:
            graph.initializer.append(tensor)
        else:  # its values do not matter, and would be copied
            graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    for value in graph.output:  # the batch may be declared otherwise
        value.type.tensor_type.ClearField("shape")
    try:
        found = shape_inference.infer_shapes(skeleton, check_type=True, data_prop=True)
    except shape_inference.InferenceError as error:
        raise ModelFormatError(
            f"{path}: the types of its nodes contradict each other: {error}"
        ) from None
    shapes: dict[str, tuple[int, ...]] = {}
    if any(_is_ambiguous(node) for node in graph.node):
        return shapes
    for value in (*found.graph.value_info, *found.graph.output):
        tensor_type = value.type.tensor_type
        dims = tensor_type.shape.dim
        if tensor_type.HasField("shape") and all(dim.HasField("dim_value") for dim in dims):
            shapes[value.name] = tuple(dim.dim_value for dim in dims)
    return shapes


def _is_ambiguous(node: onnx.NodeProto) -> bool:
    """Return whether windows may start beyond the image, which onnx counts and onnxruntime not."""
    attrs = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    return bool(attrs.get("ceil_mode", 0)) and any(attrs.get("pads", ()))
