# SPDX-License-Identifier: Apache-2.0
"""Shapes of elementwise ops, reductions and matrix products."""

import math

from opendpu_arch.errors import GraphError
from xir.shapes.rule import Node, Rule, axis_of, broadcast, first_dims


def _elementwise(op: Node) -> list[int]:
    return broadcast([tensor.dims for tensor in op.get_input_tensors()])


def _reduction(op: Node) -> list[int]:
    dims = first_dims(op)
    axes = {axis_of(axis, len(dims)) for axis in op.get_attr("axis")}
    if op.get_attr("keep_dims"):
        return [1 if i in axes else size for i, size in enumerate(dims)]
    return [size for i, size in enumerate(dims) if i not in axes] or [1]


def _argmax(op: Node) -> list[int]:
    dims = first_dims(op)
    axis = axis_of(op.get_attr("axis"), len(dims))
    return [*dims[:axis], *dims[axis + 1 :]] or [1]


def _inner_product(op: Node) -> list[int]:
    dims, weights = first_dims(op), op.get_input_tensor("weights").dims
    axis = axis_of(op.get_attr("axis"), len(dims))
    size = math.prod(dims[axis:])
    if math.prod(weights[1:]) != size:
        raise GraphError(f"weights have dimensions {weights}, but must be [k, {size}]")
    return [*dims[:axis], weights[0]]


def _matmul(op: Node) -> list[int]:
    shapes = [tensor.dims for tensor in op.get_input_tensors_by_name("input")]
    if len(shapes) != 2 or any(len(shape) < 2 for shape in shapes):
        raise GraphError(f"inputs are {shapes}, but must be two of at least two dimensions")
    for i, name in enumerate(("transpose_a", "transpose_b")):
        if op.get_attr(name):
            shapes[i] = [*shapes[i][:-2], shapes[i][-1], shapes[i][-2]]
    left, right = shapes
    if left[-1] != right[-2]:
        raise GraphError(f"inner dimensions are {left[-1]} and {right[-2]}, but must be equal")
    return [*broadcast([left[:-2], right[:-2]]), left[-2], right[-1]]


RULES: dict[str, Rule] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "min", "max"), _elementwise),
    "eltwise-fix": _elementwise,
    "depthwise-fix": _elementwise,
    **{f"reduction_{name}": _reduction for name in ("max", "mean", "product", "sum")},
    "reduction_max-fix": _reduction,
    "argmax": _argmax,
    "argmax-fix": _argmax,
    "shape": lambda op: [len(first_dims(op))],
    "inner-product": _inner_product,
    "matmul": _matmul,
}
