# SPDX-License-Identifier: Apache-2.0
"""Kernels of pooling and reductions of integers."""

import numpy as np

from opendpu.ir import Node
from opendpu.ops.average import average_factor
from opendpu.ops.fixed import scaled
from opendpu.ops.fixed.exact import Exact, bind, carried
from opendpu.ops.fixed.requantize import is_scaled
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Operator, Result, register
from opendpu.ops.pooling import argmax
from opendpu.ops.window import onnx_window, pair, reaching_pad
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.isa import Engine


def pool(builder: OnnxBuilder, node: Node) -> None:
    """Emit the maximum of each window, or its sum times a factor; padding counts as zeros."""
    (source,) = node.inputs["input"]
    shape = builder.graph[source].shape
    kernel, stride = pair(node, "kernel"), pair(node, "stride")
    pad = [0, 0, 0, 0]
    if node.attrs.get("global"):
        kernel = stride = (shape[2], shape[1])
    else:
        pad = reaching_pad(node, kernel, shape)
    kind = str(node.attrs["type"]).upper()
    if is_scaled(node) and kind == "AVG":
        scaled.average(builder, node)
        return
    right = 0 if is_scaled(node) else builder.graph[source].fix_point - node.fix_point
    match kind:
        case "MAX":
            window = onnx_window(kernel, stride, pad, pair(node, "dilation"))
            name = builder.op("MaxPool", [builder.channels_first(source)], **window)
            if is_scaled(node):
                scaled.extreme(builder, node, name)
                return
            value = carried(builder, builder.graph[source], name)
            if any(p >= k for p, k in zip(pad, (kernel[0],) * 2 + (kernel[1],) * 2, strict=True)):
                value.reach = (-np.inf, value.reach[1])  # what is beside the map is below all
        case "AVG":
            factor, shift = average_factor(kernel_h=kernel[1], kernel_w=kernel[0])
            value = _window_sums(builder, source, kernel, stride, pad).times(factor)
            right += shift
        case kind:
            raise UnsupportedError(f"op {node.name!r}: type is {kind!r}, but must be MAX or AVG")
    bind(builder, node, value.shifted(right), channels_first=True)


def _window_sums(
    builder: OnnxBuilder, source: str, kernel: tuple[int, int], stride: tuple[int, int],
    pad: list[int],
) -> Exact:  # fmt: skip
    """Return the sums of windows: below 2**24, because an instruction's have 256 by 256 elements.

    Raises
    ------
    UnsupportedError
        A window has more.
    """
    shape = builder.graph[source].shape
    low, high = builder.limits(source)
    pixels = kernel[0] * kernel[1]
    made = Exact(builder, "", (min(0, low) * pixels, max(0, high) * pixels))
    if not made.fits(made.reach, 0):
        raise UnsupportedError(
            f"the average of {source!r} is over {pixels} elements, whose sum is too large for "
            "float32"
        )
    value = builder.channels_first(source)
    if kernel == (shape[2], shape[1]) and not any(pad):
        made.name = builder.op("ReduceSum", [value, builder.integers([2, 3])], keepdims=1)
        return made
    channels = shape[3]
    ones = builder.initializer(np.ones((channels, 1, kernel[1], kernel[0]), np.float32))
    window = onnx_window(kernel, stride, pad, (1, 1))
    made.name = builder.op("Conv", [value, ones], group=channels, **window)
    return made


def reduction_max(builder: OnnxBuilder, node: Node) -> None:
    """Emit the maximum along axes."""
    (source,) = node.inputs["input"]
    axes = [int(a) for a in node.attrs["axis"]]
    keep = int(bool(node.attrs["keep_dims"]))
    name = builder.reduced("ReduceMax", builder.plain(source), axes, keep)
    right = builder.graph[source].fix_point - node.fix_point
    value = carried(builder, builder.graph[source], name).shifted(right)
    bind(builder, node, value, channels_first=False)


register(
    Operator(kind="pool-fix", emit=pool, engine=Engine.MISC),
    Operator(kind="reduction_max-fix", emit=reduction_max, result=Result.SELECTED),
    Operator(kind="argmax-fix", emit=argmax, element_bytes=4),
)
