# SPDX-License-Identifier: Apache-2.0
"""Shapes of ops that move, cut, join or resize data."""

import math

from opendpu_arch.errors import GraphError
from xir.shapes.rule import Node, Rule, axis_of, first_dims, given_numbers, nhwc


def _concat(op: Node) -> list[int]:
    shapes = [tensor.dims for tensor in op.get_input_tensors()]
    axis = axis_of(op.get_attr("axis"), len(shapes[0]))
    others = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(others) > 1 or len({len(shape) for shape in shapes}) > 1:
        raise GraphError(f"inputs {', '.join(map(str, shapes))} differ in other axes than {axis}")
    total = sum(shape[axis] for shape in shapes)
    return [*shapes[0][:axis], total, *shapes[0][axis + 1 :]]


def _stack(op: Node) -> list[int]:
    shapes = [tensor.dims for tensor in op.get_input_tensors()]
    if any(shape != shapes[0] for shape in shapes):
        raise GraphError(f"inputs {', '.join(map(str, shapes))} must have the same dimensions")
    axis = axis_of(op.get_attr("axis"), len(shapes[0]) + 1)
    return [*shapes[0][:axis], len(shapes), *shapes[0][axis:]]


def _reshape(op: Node) -> list[int]:
    dims, shape = first_dims(op), given_numbers(op, "shape") or op.get_attr("shape")
    target = [dims[i] if size == 0 and i < len(dims) else size for i, size in enumerate(shape)]
    total, known = math.prod(dims), math.prod(size for size in target if size != -1)
    if target.count(-1) == 1 and known and total % known == 0:
        target[target.index(-1)] = total // known
    if -1 in target or math.prod(target) != total:
        raise GraphError(f"shape is {shape}, but must hold the {total} elements of {dims}")
    return target


def _flatten(op: Node) -> list[int]:
    dims = first_dims(op)
    start = axis_of(op.get_attr("start_axis"), len(dims))
    end = axis_of(op.get_attr("end_axis"), len(dims))
    return [*dims[:start], math.prod(dims[start : end + 1]), *dims[end + 1 :]]


def _squeeze(op: Node) -> list[int]:
    dims = first_dims(op)
    axes = {axis_of(axis, len(dims)) for axis in op.get_attr("axis")}
    if any(dims[axis] != 1 for axis in axes):
        raise GraphError(f"axis is {sorted(axes)}, but {dims} is not 1 there")
    drop = axes or {i for i, size in enumerate(dims) if size == 1}
    return [size for i, size in enumerate(dims) if i not in drop]


def _transpose(op: Node) -> list[int]:
    dims, order = first_dims(op), op.get_attr("order")
    if sorted(order) != list(range(len(dims))):
        raise GraphError(f"order is {order}, but must permute 0..{len(dims) - 1}")
    return [dims[axis] for axis in order]


def _strided_slice(op: Node) -> list[int]:
    dims = first_dims(op)
    limits = [op.get_attr(name) for name in ("begin", "end", "strides")]
    if any(len(limit) != len(dims) or 0 in limits[2] for limit in limits):
        raise GraphError(f"begin, end, strides are {limits}, but must be {len(dims)} integers each")
    return [
        len(range(*slice(begin, end, step).indices(size)))
        for begin, end, step, size in zip(*limits, dims, strict=True)
    ]


def _pad(op: Node) -> list[int]:
    dims, paddings = first_dims(op), op.get_attr("paddings")
    if len(paddings) != 2 * len(dims):
        raise GraphError(f"paddings are {paddings}, but must be {2 * len(dims)} integers")
    return [size + paddings[2 * i] + paddings[2 * i + 1] for i, size in enumerate(dims)]


def _resize(op: Node) -> list[int]:
    dims = first_dims(op)
    if size := given_numbers(op, "size"):
        if len(size) != len(dims) - 2 or any(number <= 0 for number in size):
            raise GraphError(f"size is {size}, but must be {len(dims) - 2} positive numbers")
        return [dims[0], *size, dims[-1]]
    scale = op.get_attr("scale") if op.has_attr("scale") else []
    if len(scale) != len(dims) - 2 or any(factor <= 0 for factor in scale):
        raise GraphError(f"scale is {scale}, but must be {len(dims) - 2} positive factors")
    spatial = [int(size * factor) for size, factor in zip(dims[1:-1], reversed(scale), strict=True)]
    return [dims[0], *spatial, dims[-1]]


def _downsample(op: Node) -> list[int]:
    dims, scale = first_dims(op), op.get_attr("scale")
    if len(dims) != 4 or any(factor <= 0 for factor in scale):
        raise GraphError(f"scale is {scale} for {dims}, but must be 2 positive factors for NHWC")
    spatial = [int(size / factor) for size, factor in zip(dims[1:-1], reversed(scale), strict=True)]
    return [dims[0], *spatial, dims[-1]]


def _blocks(attribute: str, inverse: str) -> Rule:
    """Return the rule that trades spatial size for channels, or back where ``inverse`` is set."""

    def rule(op: Node) -> list[int]:
        batch, height, width, channels = nhwc(op)
        scale = op.get_attr(attribute)
        if scale < 1:
            raise GraphError(f"{attribute} is {scale}, but must be at least 1")
        if op.get_attr(inverse):
            if channels % scale**2:
                raise GraphError(f"channels are {channels}, but must be a multiple of {scale**2}")
            return [batch, height * scale, width * scale, channels // scale**2]
        if height % scale or width % scale:
            raise GraphError(f"input is {height}x{width}, but must divide by {attribute} {scale}")
        return [batch, height // scale, width // scale, channels * scale**2]

    return rule


RULES: dict[str, Rule] = {
    "concat": _concat,
    "concat-fix": _concat,
    "stack": _stack,
    "reshape": _reshape,
    "reshape-fix": _reshape,
    "flatten": _flatten,
    "squeeze": _squeeze,
    "transpose": _transpose,
    "strided_slice": _strided_slice,
    "strided_slice-fix": _strided_slice,
    "pad": _pad,
    "pad-fix": _pad,
    "resize": _resize,
    "upsample-fix": _resize,
    "downsample-fix": _downsample,
    "reorg": _blocks("scale", "reverse"),
    "reorg-fix": _blocks("scale", "reverse"),
    "pixel-shuffle": _blocks("scale", "upscale"),
    "pixel-shuffle-fix": _blocks("scale", "reverse"),
    "gstiling": _blocks("stride", "reverse"),
    "tile-fix": _blocks("stride", "reverse"),
}
