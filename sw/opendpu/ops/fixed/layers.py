# SPDX-License-Identifier: Apache-2.0
"""Kernels of layers with weights in integers: sums of products that are exact, rounded once.

``y = floor(act(sum / 2**cut + bias) + 1/2)``, where ``cut`` is the fractional bits that a product
has more than the result; every channel has its own where weights have fix points of their own. The
bias and the half are joined before, in units of the last bit of a product, where bits below it
decide nothing; only the slope of LEAKYRELU needs them.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from opendpu.ir import Node
from opendpu.ops.convolution import DENSE, DEPTHWISE
from opendpu.ops.fixed import scaled
from opendpu.ops.fixed.exact import Exact, bind, nonlinear
from opendpu.ops.fixed.requantize import bound, centred, is_scaled, multiplied, zero_point
from opendpu.ops.fixed.weights import Weights, Wide
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Operator, register
from opendpu.ops.window import onnx_window, pair, reaching_pad, transposed_pad
from opendpu_arch.isa import Engine

Shifts = npt.NDArray[np.int64]
"""One for each output channel."""

LEAKY_FACTOR, LEAKY_BITS = 13, 7
"""The slope of LEAKYRELU, 26/256, as an odd factor and a right shift."""


def layer(builder: OnnxBuilder, node: Node) -> None:
    """Emit a convolution of any kind on integers."""
    if is_scaled(node):
        _scaled(builder, node)
        return
    source, kernel = (builder.graph[node.inputs[arg][0]] for arg in ("input", "weights"))
    point = node.fix_point
    cut = np.array(kernel.fix_points) + source.fix_point - point
    cut = np.broadcast_to(cut, node.shape[-1:])
    weights = Weights.of(builder, node, 2.0 ** np.maximum(-cut, 0))
    cut = np.maximum(cut, 0)
    bias = _bias_of(builder, node)
    if nonlinear(node) == "LEAKYRELU":
        total = _sum(builder, node, weights, cut)
        value = total.widened().plus_constant(
            _a_channel(np.ldexp(bias, point)), max(_bias_bits(builder, node) - point, 0)
        )
        bind(builder, node, _leaky(value), "LEAKYRELU", channels_first=True)
        return
    offset = np.floor(np.ldexp(bias, point + cut) + 2.0 ** (cut - 1.0))
    total = _sum(builder, node, weights, cut, offset)
    bind(builder, node, total, "RELU", "RELU6", channels_first=True, half_added=True)


def _scaled(builder: OnnxBuilder, node: Node) -> None:
    """Emit a convolution that multiplies its sums, with the input's zero point taken off."""
    (source,) = node.inputs["input"]
    zero = zero_point(builder, source)
    low, high = builder.limits(source)
    value = centred(builder, builder.channels_first(source), zero)
    reach = (min(low - zero, 0), max(high - zero, 0))
    weights = Weights.of(builder, node, np.ones(node.shape[-1]))
    weights = dataclasses.replace(weights, operand=value, reach=reach)
    none = np.zeros(node.shape[-1], np.int64)
    total = _sum(builder, node, weights, none, scaled.bias_of(builder, node))
    made = multiplied(builder, node, total.name, along=(-1, 1, 1))
    bound(builder, node, made, channels_first=True)


def _bias_of(builder: OnnxBuilder, node: Node) -> Wide:
    """Return the bias of every output channel as a real number."""
    for name in node.inputs.get("bias", ()):
        values = builder.constant(name)
        assert values is not None, name
        points = np.array(builder.graph[name].fix_points)
        return np.asarray(np.ldexp(values.astype(np.float64).ravel(), -points))
    return np.zeros(node.shape[-1])


def _bias_bits(builder: OnnxBuilder, node: Node) -> int:
    names = node.inputs.get("bias", ())
    return max((point for name in names for point in builder.graph[name].fix_points), default=0)


def _a_channel(values: Wide) -> Wide:
    return values.reshape(1, -1, 1, 1)


def _sum(
    builder: OnnxBuilder, node: Node, weights: Weights, cut: Shifts, offset: Wide | None = None
) -> Exact:
    """Return the sums of products and the offset, in last bits of a product, over ``2**cut``."""
    limits = weights.reach or builder.limits(node.inputs["input"][0])
    scale = 2.0 ** -cut.astype(np.float64)
    bits = int(cut.max())
    added = 0.0 if offset is None else offset
    sums = weights.sums(limits)
    if sums.exact(added):
        name = _emitted(builder, weights, (0, weights.channels), scale, offset)
        reach = (((sums.low + added) * scale).min(), ((sums.high + added) * scale).max())
        return Exact(builder, name, reach, bits)
    made: Exact | None = None
    for part in weights.parts(limits):
        name = _emitted(builder, weights, part, scale)
        few = weights.sums(limits, *part)
        reach = ((few.low * scale).min(), (few.high * scale).max())
        one = Exact(builder, name, reach, bits).widened()
        made = one if made is None else made.plus(one)
    assert made is not None
    return made if offset is None else made.plus_constant(_a_channel(offset * scale), bits)


def _slice(builder: OnnxBuilder, weights: Weights, start: int, stop: int) -> str:
    """Return some input channels of every group, NCHW."""
    (source,) = weights.node.inputs["input"]
    value = weights.operand or builder.channels_first(source)
    if (start, stop) == (0, weights.channels):
        return value
    first, last = builder.integers([start]), builder.integers([stop])
    if weights.group == 1:
        return builder.op("Slice", [value, first, last, builder.integers([1])])
    _, height, width, _ = builder.graph[source].shape
    split = [0, weights.group, weights.channels, height, width]
    value = builder.op("Reshape", [value, builder.integers(split)])
    value = builder.op("Slice", [value, first, last, builder.integers([2])])
    joined = [0, weights.group * (stop - start), height, width]
    return builder.op("Reshape", [value, builder.integers(joined)])


def _emitted(
    builder: OnnxBuilder, weights: Weights, part: tuple[int, int], scale: Wide,
    offset: Wide | None = None,
) -> str:  # fmt: skip
    """Add the operator for some input channels; ``scale`` and ``offset`` are one a channel."""
    node = weights.node
    kernel = (weights.values.shape[2], weights.values.shape[1])
    if weights.transposed:
        pad = transposed_pad(node)
    else:
        pad = reaching_pad(node, kernel, builder.graph[node.inputs["input"][0]].shape)
    window = onnx_window(kernel, pair(node, "stride"), pad, pair(node, "dilation"))
    given = [_slice(builder, weights, *part), builder.initializer(weights.tensor(scale, *part))]
    if offset is not None:
        given.append(builder.initializer((offset * scale).astype(np.float32)))
    kind = "ConvTranspose" if weights.transposed else "Conv"
    return builder.op(kind, given, group=weights.group, **window)


def _leaky(value: Exact) -> Exact:
    """Return negative numbers times the slope, exactly."""
    slope = LEAKY_FACTOR / 2.0**LEAKY_BITS
    steep = value.builder.op("Mul", [value.name, value.number(slope)])
    name = value.builder.op("Max", [value.name, steep])
    low, high = (max(limit, limit * slope) for limit in value.reach)
    return Exact(value.builder, name, (low, high), value.bits + LEAKY_BITS, wide=value.wide)


register(
    Operator(
        kind="conv2d-fix", emit=layer, engine=Engine.CONV, multiplies=True, parameters=DENSE
    ),
    Operator(
        kind="transposed-conv2d-fix", emit=layer, engine=Engine.CONV, multiplies=True,
        parameters=DENSE,
    ),
    Operator(
        kind="depthwise-conv2d-fix", emit=layer, engine=Engine.MISC, multiplies=True,
        parameters=DEPTHWISE,
    ),
    Operator(
        kind="transposed-depthwise-conv2d-fix", emit=layer, engine=Engine.MISC, multiplies=True,
        parameters=DEPTHWISE,
    ),
)  # fmt: skip
