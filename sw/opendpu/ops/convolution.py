# SPDX-License-Identifier: Apache-2.0
"""Layers with weights: convolutions, transposed ones, inner products."""

import math

import numpy as np

from opendpu.ir import Node
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Operator, Parameters, register
from opendpu.ops.window import explicit_pad, onnx_window, pair, transposed_pad

ACTIVATIONS = ("relu", "relu6", "leaky-relu")
"""What both engines with weights apply to a sum before they round it."""


def _ordered(
    builder: OnnxBuilder, node: Node, order: tuple[int, ...], *, rotated: bool = False
) -> str:
    """Return the weights of a layer with their axes in another order, perhaps rotated by 180°."""
    (name,) = node.inputs["weights"]
    if builder.constant(name) is not None:
        return builder.parameter(
            name, lambda value: (value[:, ::-1, ::-1] if rotated else value).transpose(order)
        )
    made = builder.plain(name)
    if rotated:
        ends = builder.integers([np.iinfo(np.int64).min] * 2)
        ones = builder.integers([-1, -1])
        made = builder.op("Slice", [made, ones, ends, builder.integers([1, 2]), ones])
    return builder.op("Transpose", [made], perm=list(order))


def _biased(builder: OnnxBuilder, node: Node, weights: str) -> list[str]:
    """Return the inputs of an ONNX convolution."""
    source = builder.channels_first(node.inputs["input"][0])
    return [source, weights, *(builder.plain(name) for name in node.inputs.get("bias", ()))]


def _conv(builder: OnnxBuilder, node: Node) -> None:
    (source,), (weights,) = node.inputs["input"], node.inputs["weights"]
    shape, group = builder.graph[weights].shape, int(node.attrs.get("group") or 1)
    if node.kind == "depthwise-conv2d":  # MHWC, where M is one but for a multiplier
        group = shape[3]
        made = _depthwise(builder, weights)
    else:
        made = _ordered(builder, node, (0, 3, 1, 2))
    window = onnx_window(
        (shape[2], shape[1]), pair(node, "stride"),
        explicit_pad(node, builder.graph[source].shape), pair(node, "dilation"),
    )  # fmt: skip
    name = builder.op("Conv", _biased(builder, node, made), group=group, **window)
    builder.bind(node, name, channels_first=True)


def _depthwise(builder: OnnxBuilder, weights: str) -> str:
    """Return the weights [multiplier, h, w, channels] as ONNX has them: a group a channel."""
    shape = (-1, 1, *builder.graph[weights].shape[1:3])
    if builder.constant(weights) is not None:
        return builder.parameter(weights, lambda value: value.transpose(3, 0, 1, 2).reshape(shape))
    made = builder.op("Transpose", [builder.plain(weights)], perm=[3, 0, 1, 2])
    return builder.op("Reshape", [made, builder.integers(shape)])


def _transposed(builder: OnnxBuilder, node: Node) -> None:
    """Emit ConvTranspose, whose kernel is XIR's rotated by half a turn."""
    (source,), (weights,) = node.inputs["input"], node.inputs["weights"]
    shape, group = builder.graph[weights].shape, int(node.attrs.get("group") or 1)
    if node.kind == "transposed-depthwise-conv2d":
        group = builder.graph[source].shape[3]
    made = _ordered(builder, node, (3, 0, 1, 2), rotated=True)
    if group > 1 and node.kind == "transposed-conv2d":  # [I/g, O] to [I, O/g], group by group
        made = _grouped(builder, made, shape, group)
    window = onnx_window(
        (shape[2], shape[1]), pair(node, "stride"), transposed_pad(node), pair(node, "dilation")
    )
    name = builder.op("ConvTranspose", _biased(builder, node, made), group=group, **window)
    builder.bind(node, name, channels_first=True)


def _grouped(builder: OnnxBuilder, weights: str, shape: tuple[int, ...], group: int) -> str:
    """Return [inputs of a group, outputs, h, w] as [inputs, outputs of a group, h, w]."""
    outputs, height, width, inputs = shape
    split = builder.integers([inputs, group, outputs // group, height, width])
    made = builder.op("Reshape", [weights, split])
    made = builder.op("Transpose", [made], perm=[1, 0, 2, 3, 4])
    joined = builder.integers([group * inputs, outputs // group, height, width])
    return builder.op("Reshape", [made, joined])


def _inner_product(builder: OnnxBuilder, node: Node) -> None:
    (source,), (weights,) = node.inputs["input"], node.inputs["weights"]
    shape = builder.graph[source].shape
    axis = int(node.attrs["axis"]) % len(shape)
    rows = builder.plain(source)
    if axis != len(shape) - 1:
        flat = (*shape[:axis], math.prod(shape[axis:]))
        rows = builder.reshape(rows, builder.graph[source].type, flat)
    if builder.constant(weights) is not None:
        matrix = builder.parameter(weights, lambda value: value.reshape(value.shape[0], -1).T)
    else:
        count = builder.graph[weights].shape[0]
        matrix = builder.op("Reshape", [builder.plain(weights), builder.integers([count, -1])])
        matrix = builder.op("Transpose", [matrix], perm=[1, 0])
    made = builder.op("MatMul", [rows, matrix])
    for name in node.inputs.get("bias", ()):
        made = builder.op("Add", [made, builder.plain(name)])
    builder.bind(node, made)


def _matmul(builder: OnnxBuilder, node: Node) -> None:
    given = []
    for name, key in zip(node.inputs["input"], ("transpose_a", "transpose_b"), strict=True):
        value = builder.plain(name)
        if node.attrs.get(key):
            rank = len(builder.graph[name].shape)
            order = [*range(rank - 2), rank - 1, rank - 2]
            value = builder.op("Transpose", [value], perm=order)
        given.append(value)
    made = builder.op("MatMul", given)
    for name in node.inputs.get("bias", ()):
        made = builder.op("Add", [made, builder.plain(name)])
    builder.bind(node, made)


DENSE, DEPTHWISE = Parameters(outputs=0, inputs=-1), Parameters(outputs=-1, inputs=None)
"""Axes of the weights of convolutions, and of those with a kernel a channel."""
NO_DEPTH = "the DPU has no depth axis; two-dimensional convolutions would lift it"

register(
    Operator(
        kind="conv2d", emit=_conv, parameters=DENSE, fuses=ACTIVATIONS, fixed="conv2d-fix",
    ),
    Operator(
        kind="depthwise-conv2d", emit=_conv, parameters=DEPTHWISE, fuses=ACTIVATIONS,
        fixed="depthwise-conv2d-fix",
    ),
    Operator(
        kind="transposed-conv2d", emit=_transposed, parameters=DENSE, fuses=ACTIVATIONS,
        fixed="transposed-conv2d-fix",
    ),
    Operator(
        kind="transposed-depthwise-conv2d", emit=_transposed, parameters=DEPTHWISE,
        fuses=ACTIVATIONS, fixed="transposed-depthwise-conv2d-fix",
    ),
    Operator(
        kind="inner-product", emit=_inner_product, parameters=DENSE, fuses=ACTIVATIONS,
        fixed="conv2d-fix",
    ),
    Operator(
        kind="matmul", emit=_matmul, fuses=ACTIVATIONS, fixed="conv2d-fix",
    ),
    *(
        Operator(kind=kind, lift=NO_DEPTH)
        for kind in (
            "conv3d", "depthwise-conv3d", "transposed-conv3d", "transposed-depthwise-conv3d",
        )
    ),
)  # fmt: skip
