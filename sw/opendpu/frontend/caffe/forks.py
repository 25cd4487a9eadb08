# SPDX-License-Identifier: Apache-2.0
"""Layers of Caffe's forks, and of its last version: what segmentation and mobile networks use."""

import numpy as np

from opendpu.frontend.caffe.registry import Call, handles
from opendpu.frontend.refusal import FaultError, Refusal

_GATES = {
    "HardSigmoid": "HardSigmoid", "HSigmoid": "HardSigmoid", "Hsigmoid": "HardSigmoid",
    "HardSwish": "HardSwish", "HSwish": "HardSwish", "Hswish": "HardSwish",
}  # fmt: skip
_SIXTH = 1 / 6
"""Slope of a hard sigmoid, which forks define by ReLU6: ``relu6(x + 3) / 6``."""


@handles(*_GATES)
def gate(call: Call) -> str:
    """Gates of mobile networks."""
    kind = _GATES[call.layer.type]
    attrs = {"alpha": _SIXTH, "beta": 0.5} if kind == "HardSigmoid" else {}
    return call.emit(kind, call.x, **attrs)


@handles("Swish")
def swish(call: Call) -> str:
    """``x * sigmoid(beta * x)``."""
    b, beta = call.b, call.layer.swish_param.beta
    scaled = call.x if beta == 1 else b.node("Mul", [call.x, b.constant(np.float32(beta))])
    return call.emit("Mul", call.x, b.node("Sigmoid", [scaled]))


@handles("Mish")
def mish(call: Call) -> str:
    """``x * tanh(softplus(x))``."""
    b = call.b
    return call.emit("Mul", call.x, b.node("Tanh", [b.node("Softplus", [call.x])]))


@handles("Clip")
def clip(call: Call) -> str:
    """Limit to two numbers."""
    given = call.layer.clip_param
    if not given.HasField("min") or not given.HasField("max"):
        raise FaultError("its clip_param lacks min or max")
    bounds = (call.b.constant(np.float32(bound)) for bound in (given.min, given.max))
    return call.emit("Clip", call.x, *bounds)


@handles("Axpy")
def axpy(call: Call) -> str:
    """A factor a channel times one map, plus another: the end of a squeeze and excitation."""
    if len(call.inputs) != 3:
        raise FaultError(f"it has {len(call.inputs)} bottoms, but needs factors, x and y")
    b, (factors, x, y) = call.b, call.inputs
    shape = (*call.shape[:2], *[1] * (len(b.shape(x) or ()) - 2))
    return call.emit("Add", b.node("Mul", [x, b.node("Reshape", [factors, b.integers(*shape)])]), y)


@handles("ShuffleChannel")
def shuffle_channel(call: Call) -> str:
    """The first channel of every group, then the second of every group, and so on."""
    b, (batch, channels, *rest) = call.b, call.shape
    group = call.layer.shuffle_channel_param.group
    if not group or channels % group:
        raise FaultError(f"{group} groups do not divide {channels} channels")
    split = b.node("Reshape", [call.x, b.integers(batch, group, channels // group, *rest)])
    order = [0, 2, 1, *range(3, 3 + len(rest))]
    turned = b.node("Transpose", [split], perm=order)
    return call.emit("Reshape", turned, b.integers(batch, channels, *rest))


@handles("Interp")
def interp(call: Call) -> str:
    """Bilinear, with corners on corners, of the map less what negative paddings cut."""
    given, b, x = call.layer.interp_param, call.b, call.x
    begin, end = given.pad_beg, given.pad_end
    if begin > 0 or end > 0:
        raise Refusal("positive paddings are not supported")
    rows, columns = (size + begin + end for size in call.shape[2:])
    if begin or end:
        stops = (rows - begin, columns - begin)
        x = b.node("Slice", [x, b.integers(-begin, -begin), b.integers(*stops), b.integers(2, 3)])
    sizes: tuple[int, ...] = (given.height, given.width)
    if not all(sizes):
        sizes = tuple(_zoomed(n, given.shrink_factor, given.zoom_factor) for n in (rows, columns))
    if len(call.inputs) > 1:
        sizes = (b.shape(call.inputs[1]) or sizes)[-2:]
    if min(*sizes, rows, columns) < 1:
        raise FaultError(f"from {rows}x{columns} it makes {sizes[0]}x{sizes[1]} pixels")
    return call.emit(
        "Resize", x, "", "", b.integers(*call.shape[:2], *sizes), mode="linear",
        coordinate_transformation_mode="align_corners",
    )  # fmt: skip


def _zoomed(size: int, shrink: int, zoom: int) -> int:
    """Return how many pixels are left with ``shrink - 1`` between two, and made between those."""
    if shrink < 1 or zoom < 1:
        raise FaultError(f"its factors {shrink} and {zoom} are not positive")
    left = (size - 1) // shrink + 1
    return left + (left - 1) * (zoom - 1)


@handles("Upsample")
def upsample(call: Call) -> str:
    """Repeat every pixel."""
    given, b = call.layer.upsample_param, call.b
    if len(call.inputs) > 1:
        raise Refusal("the places of another layer's maxima are not supported")
    factors = (given.scale_h or given.scale, given.scale_w or given.scale)
    if min(factors) < 1:
        raise FaultError("its upsample_param has no scale")
    scales = b.constant(np.array([1, 1, *factors], np.float32))
    return call.emit(
        "Resize", call.x, "", scales, mode="nearest", nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip


@handles("ArgMax")
def argmax(call: Call) -> str:
    """The place of the largest element along an axis, or the element."""
    given = call.layer.argmax_param
    if not given.HasField("axis") or given.top_k != 1:
        raise Refusal("only one maximum along an axis is supported")
    axis = call.axis(given.axis)
    if given.out_max_val:
        return call.emit("ReduceMax", call.x, call.b.integers(axis), keepdims=1)
    return call.emit("Cast", call.b.node("ArgMax", [call.x], axis=axis, keepdims=1), to=1)
