# SPDX-License-Identifier: Apache-2.0
"""Products of matrices, reductions, resizing, activations with parameters."""

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from opendpu.frontend.building import Builder
from opendpu.frontend.channels_last.axes import (
    channels_first,
    channels_last,
    feature_map,
    known_shape,
    ordered,
    reshaped,
)
from opendpu.frontend.refusal import Refusal


def scalar(b: Builder, number: float, like: str) -> str:
    """Return a constant of the element type of a value."""
    return b.constant(np.array(number, b.dtype(like)))


def clip(b: Builder, x: str, low: float, high: float, *, name: str) -> str:
    """Limit every element."""
    return b.node("Clip", [x, scalar(b, low, x), scalar(b, high, x)], name)


def matrix(b: Builder, value: str, *, transpose: bool) -> str:
    """Return matrices, transposed if wanted."""
    if not transpose:
        return value
    rank = len(known_shape(b, value))
    return ordered(b, value, (*range(rank - 2), rank - 1, rank - 2))


def reduce(
    b: Builder, kind: str, x: str, axes: Sequence[int], *, keep: bool, name: str
) -> str:  # fmt: skip
    """Reduce with ``ReduceMean`` and the like; over rows and columns of a feature map as a pool."""
    shape = known_shape(b, x)
    axes = sorted(axis % len(shape) for axis in axes)
    if not axes:
        return b.node("Identity", [x], name)
    if kind in ("ReduceMean", "ReduceMax") and len(shape) == 4 and axes == [1, 2]:
        made = b.node(kind, [channels_first(b, x)], name, axes=[2, 3], keepdims=1)
        made = channels_last(b, made)
        return made if keep else reshaped(b, made, (shape[0], shape[3]))
    if kind == "ReduceSum":
        return b.node(kind, [x, b.integers(*axes)], name, keepdims=int(keep))
    return b.node(kind, [x], name, axes=axes, keepdims=int(keep))


def resize(
    b: Builder, x: str, size: Sequence[int], *, linear: bool, align_corners: bool,
    half_pixel: bool, name: str,
) -> str:  # fmt: skip
    """Resize a feature map to ``size`` (height, width)."""
    batch, _, _, channels = feature_map(b, x)
    where = "align_corners" if align_corners else "half_pixel" if half_pixel else "asymmetric"
    attrs = {"mode": "linear"}
    if not linear:
        rule = "floor" if where == "asymmetric" else "round_prefer_ceil"
        attrs = {"mode": "nearest", "nearest_mode": rule}
    sizes = b.integers(batch, channels, *size)
    made = b.node(
        "Resize", [channels_first(b, x), "", "", sizes], name,
        coordinate_transformation_mode=where, **attrs,
    )  # fmt: skip
    return channels_last(b, made)


def prelu(b: Builder, x: str, slope: str, *, name: str) -> str:
    """Scale negative elements; one slope a channel of a feature map becomes ONNX's form."""
    shape, slopes = known_shape(b, x), known_shape(b, slope)
    if len(shape) != 4 or slopes[-1] != shape[3] or int(np.prod(slopes)) != shape[3]:
        scaled = b.node("Mul", [b.node("Min", [x, scalar(b, 0.0, x)]), slope])
        return b.node("Add", [b.node("Relu", [x]), scaled], name)
    flat = reshaped(b, slope, (shape[3], 1, 1))
    return channels_last(b, b.node("PRelu", [channels_first(b, x), flat], name))


def gelu(b: Builder, x: str, *, approximate: bool, name: str) -> str:
    """Return ``x * P(X <= x)`` of the normal distribution, or its approximation with tanh."""
    half, one = scalar(b, 0.5, x), scalar(b, 1.0, x)
    if approximate:
        cube = b.node("Mul", [b.node("Mul", [x, x]), x])
        inner = b.node("Add", [x, b.node("Mul", [cube, scalar(b, 0.044715, x)])])
        curve = b.node("Tanh", [b.node("Mul", [inner, scalar(b, np.sqrt(2 / np.pi), x)])])
    else:
        curve = b.node("Erf", [b.node("Div", [x, scalar(b, np.sqrt(2.0), x)])])
    return b.node("Mul", [b.node("Mul", [x, b.node("Add", [curve, one])]), half], name)


def batch_normalization(
    b: Builder, x: str, parameters: Sequence[str], epsilon: float, *, name: str
) -> str:  # fmt: skip
    """Normalize the channels of a feature map; parameters are scale, offset, mean, variance."""
    feature_map(b, x)
    if any(b.value(value) is None for value in parameters):
        raise Refusal("its statistics are computed: export the model for inference")
    made = b.node("BatchNormalization", [channels_first(b, x), *parameters], name, epsilon=epsilon)
    return channels_last(b, made)


def l2_normalize(b: Builder, x: str, epsilon: float, *, name: str) -> str:
    """Divide by the length of the vectors along the last axis."""
    squares = b.node("ReduceSum", [b.node("Mul", [x, x]), b.integers(-1)], keepdims=1)
    floor = b.node("Max", [squares, scalar(b, epsilon, x)])
    return b.node("Div", [x, b.node("Sqrt", [floor])], name)


def one_hot(
    b: Builder, indices: str, depth: int, on: str, off: str, axis: int, *, name: str
) -> str:
    """Return vectors with one element ``on``."""
    values = b.node("Concat", [reshaped(b, off, (1,)), reshaped(b, on, (1,))], axis=0)
    indices = b.node("Cast", [indices], to=TensorProto.INT64)  # what onnxruntime has it for
    return b.node("OneHot", [indices, b.integers(depth), values], name, axis=axis)


def local_response(
    b: Builder, x: str, size: int, bias: float, alpha: float, beta: float, *, name: str
) -> str:  # fmt: skip
    """Divide by the energy of neighbouring channels; ONNX divides alpha by their number."""
    feature_map(b, x)
    made = b.node(
        "LRN", [channels_first(b, x)], name, size=size, bias=bias, alpha=alpha * size, beta=beta
    )
    return channels_last(b, made)
