# SPDX-License-Identifier: Apache-2.0
"""Inner products and matrices: convolutions of one pixel, or as large as the feature map."""

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.compiler.legalize.along_axis import along_axis
from opendpu.compiler.legalize.context import Context, feature_shape
from opendpu.compiler.legalize.product import product
from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import Call, legalizes
from opendpu.ir import Node

Array = npt.NDArray[Any]

MATRIX = 2
"""Axes of a matrix."""
MAX_KERNEL = 16
"""Rows and columns of the largest CONV kernel."""


@legalizes("inner-product")
def inner_product(call: Call) -> str:
    """Make a convolution; where the input is a reshaped feature map, of that."""
    context, node = call.context, call.node
    weights = _constant(call, node.inputs["weights"][0])
    source = context.result[call.sources[0]]
    rank = len(source.shape)
    if rank < 2 or int(node.attrs["axis"]) % rank != rank - 1:
        raise Refusal(
            f"DPU only supports inner-product over the last axis, but the input has shape "
            f"{list(source.shape)} and axis {node.attrs['axis']}; a reshape would lift it",
            "XCOM_TENSOR_DIMENSION_UNMATCH",
        )
    values = weights.value
    assert values is not None
    return _dense(call, weights, values.reshape(values.shape[0], -1))


@legalizes("matmul")
def matmul(call: Call) -> str:
    """Make a convolution of one pixel if the right side is a constant matrix, else products.

    With such a matrix on the left side, convolutions along the axis that it is multiplied with.
    """
    node, graph = call.node, call.context.graph
    left, values = (graph[graph[n].inputs["input"][0]].value for n in node.inputs["input"])
    if _is_along_axis(call, left):
        return along_axis(call)
    if values is None or values.ndim != MATRIX or node.attrs.get("transpose_a"):
        return product(call)
    weights = _constant(call, node.inputs["input"][1])
    values = weights.value
    assert values is not None
    return _dense(call, weights, values if node.attrs.get("transpose_b") else values.T)


def _is_along_axis(call: Call, left: Array | None) -> bool:
    """Return whether a constant matrix is multiplied with the rows or columns of a feature map."""
    node = call.node
    plain = not any(node.attrs.get(key) for key in ("transpose_a", "transpose_b"))
    return (
        left is not None and left.ndim == MATRIX and plain and not node.inputs.get("bias")
        and call.shape(1)[0] == 1 and len(call.shape(1)) in (3, 4)
    )  # fmt: skip


def _constant(call: Call, name: str) -> Node:
    node = call.context.result[call.context.fixed(name)]
    if node.value is None:
        raise Refusal(
            f'DPU only supports constant "weights", but "{name}" is computed; weights that are '
            "known when compiling would lift it",
            "XCOM_UNEXPECTED_VALUE",
        )
    return node


def _dense(call: Call, weights: Node, matrix: Array) -> str:
    """Make a convolution; ``matrix`` is [outputs, inputs]."""
    context, name = call.context, call.sources[0]
    outputs, inputs = matrix.shape
    shape = _pixels(context, context.result[name], inputs)
    kernel = [shape[2], shape[1]] if shape[3] != inputs else [1, 1]
    size = (1, 1, 1, outputs) if shape[3] != inputs else (*shape[:3], outputs)
    taps = matrix.reshape(outputs, kernel[1], kernel[0], -1)
    found = weights.quantization
    if found.axis is not None:
        found = dataclasses.replace(found, axis=0)
    constant = context.result.add(
        context.result.unique(f"{weights.name}_reshaped"), "const-fix",
        weights.type.with_shape(taps.shape).with_quantization(found),
        value=np.ascontiguousarray(taps), origin=weights.origin, tensor=weights.tensor,
    )  # fmt: skip
    given = {"input": [context.view(name, shape)], "weights": [constant.name]}
    if call.node.inputs.get("bias"):
        given["bias"] = [context.fixed(call.node.inputs["bias"][0])]
    attrs = {
        "kernel": kernel, "stride": [1, 1], "dilation": [1, 1], "pad": [0, 0, 0, 0],
        "nonlinear": call.nonlinear, "group": 1, "pad_mode": "FLOOR",
    }  # fmt: skip
    return context.add(call.node, call.fix, "conv2d-fix", given, attrs, shape=size)


def _pixels(context: Context, source: Node, inputs: int) -> tuple[int, ...]:
    """Return the feature map as which a tensor of rows of ``inputs`` numbers is read.

    One row that is a reshaped feature map is taken as that, if a kernel can be so large; many rows
    are pixels.
    """
    rows = math.prod(source.shape) // inputs
    if rows > 1:
        before = source.shape[1:-1]
        first = math.prod(before[:-1]) if len(before) > 1 else 1
        return (1, first, rows // first, inputs)
    root = source
    while root.kind == "reshape-fix":
        root = context.result[root.inputs["input"][0]]
    shape = feature_shape(root.shape)
    if math.prod(shape[1:]) != inputs or max(shape[1:3]) > MAX_KERNEL:
        return (1, 1, 1, inputs)
    return shape
