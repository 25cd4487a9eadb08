# SPDX-License-Identifier: Apache-2.0
"""Sizes of pooled feature maps where ``ceil_mode`` rounds up.

By ONNX's definition, and for onnxruntime's kernels, no window starts behind the feature map and the
padding before it; shape inference counts such windows.
"""

import onnx
from onnx import TypeProto

from opendpu.frontend.def_use import attributes_of

POOLS = ("AveragePool", "LpPool", "MaxPool")


def corrected(node: onnx.NodeProto, source: TypeProto | None, made: TypeProto) -> TypeProto:
    """Return the type of a pool's result, given that of its input and what onnx infers."""
    attrs = attributes_of(node)
    if (
        node.op_type not in POOLS
        or not attrs.get("ceil_mode", 0)
        or attrs.get("auto_pad", b"NOTSET") != b"NOTSET"
        or source is None
    ):
        return made
    result = TypeProto()
    result.CopyFrom(made)
    kernel = attrs["kernel_shape"]
    rank = len(kernel)
    sizes, found = source.tensor_type.shape.dim[2:], result.tensor_type.shape.dim[2:]
    if len(sizes) != rank or len(found) != rank:
        return made
    strides, dilations = attrs.get("strides", [1] * rank), attrs.get("dilations", [1] * rank)
    pads = attrs.get("pads", [0] * 2 * rank)
    for axis, (size, dim) in enumerate(zip(sizes, found, strict=True)):
        room = size.dim_value + pads[axis] + pads[rank + axis]
        room -= dilations[axis] * (kernel[axis] - 1) + 1
        steps = -(-room // strides[axis])
        if steps * strides[axis] >= size.dim_value + pads[axis]:
            steps -= 1
        if size.dim_value and steps >= 0:
            dim.dim_value = steps + 1
    return result
