# SPDX-License-Identifier: Apache-2.0
"""Layers with weights: convolutions, transposed ones, inner products."""

import math

import numpy as np

from opendpu.ir import Array, Node
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Operator, Parameters, register
from opendpu.ops.window import explicit_pad, onnx_window, pair, transposed_pad
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.isa import Engine

ACTIVATIONS = ("relu", "relu6", "leaky-relu")
"""What both engines with weights apply to a sum before they round it."""


def _weights(builder: OnnxBuilder, node: Node) -> Array:
    value = builder.constant(node.inputs["weights"][0])
    if value is None:
        raise UnsupportedError(
            f"op {node.name!r} ({node.kind}) has computed weights {node.inputs['weights'][0]!r}, "
            "but they must be constant"
        )
    return value


def _conv(builder: OnnxBuilder, node: Node) -> None:
    (source,), weights = node.inputs["input"], _weights(builder, node)
    group = int(node.attrs.get("group") or 1)
    if node.kind == "depthwise-conv2d":  # 1HWC, or MHWC with a multiplier
        group = weights.shape[3]
        weights = weights.transpose(3, 0, 1, 2).reshape(-1, 1, *weights.shape[1:3])
    else:
        weights = weights.transpose(0, 3, 1, 2)
    window = onnx_window(
        (weights.shape[3], weights.shape[2]), pair(node, "stride"),
        explicit_pad(node, builder.graph[source].shape), pair(node, "dilation"),
    )  # fmt: skip
    given = [builder.channels_first(source), builder.initializer(weights)]
    given += [builder.plain(name) for name in node.inputs.get("bias", ())]
    builder.bind(node, builder.op("Conv", given, group=group, **window), channels_first=True)


def _transposed(builder: OnnxBuilder, node: Node) -> None:
    """Emit ConvTranspose, whose kernel is XIR's rotated by half a turn."""
    (source,) = node.inputs["input"]
    weights = _weights(builder, node)[:, ::-1, ::-1, :]
    group, channels = int(node.attrs.get("group") or 1), builder.graph[source].shape[3]
    if node.kind == "transposed-depthwise-conv2d":
        group, weights = channels, weights.transpose(3, 0, 1, 2)
    else:
        parts = np.split(weights, group)
        weights = np.concatenate([part.transpose(3, 0, 1, 2) for part in parts])
    kernel, pad = (weights.shape[3], weights.shape[2]), transposed_pad(node)
    window = onnx_window(kernel, pair(node, "stride"), [max(0, p) for p in pad],
                         pair(node, "dilation"))  # fmt: skip
    given = [builder.channels_first(source), builder.initializer(weights)]
    given += [builder.plain(name) for name in node.inputs.get("bias", ())]
    name = builder.op("ConvTranspose", given, group=group, **window)
    builder.bind(node, name, channels_first=True)


def _inner_product(builder: OnnxBuilder, node: Node) -> None:
    (source,), weights = node.inputs["input"], _weights(builder, node)
    shape = builder.graph[source].shape
    axis = int(node.attrs["axis"]) % len(shape)
    rows = builder.plain(source)
    if axis != len(shape) - 1:
        flat = (*shape[:axis], math.prod(shape[axis:]))
        rows = builder.reshape(rows, builder.graph[source].type, flat)
    matrix = builder.initializer(weights.reshape(weights.shape[0], -1).T)
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


_DENSE, _DEPTHWISE = Parameters(outputs=0, inputs=-1), Parameters(outputs=-1, inputs=None)
NO_DEPTH = "the DPU has no depth axis; two-dimensional convolutions would lift it"

register(
    Operator(
        kind="conv2d", emit=_conv, parameters=_DENSE, fuses=ACTIVATIONS, fixed="conv2d-fix",
    ),
    Operator(
        kind="depthwise-conv2d", emit=_conv, parameters=_DEPTHWISE, fuses=ACTIVATIONS,
        fixed="depthwise-conv2d-fix",
    ),
    Operator(
        kind="transposed-conv2d", emit=_transposed, parameters=_DENSE, fuses=ACTIVATIONS,
        fixed="transposed-conv2d-fix",
    ),
    Operator(
        kind="transposed-depthwise-conv2d", emit=_transposed, parameters=_DEPTHWISE,
        fuses=ACTIVATIONS, fixed="transposed-depthwise-conv2d-fix",
    ),
    Operator(
        kind="inner-product", emit=_inner_product, parameters=_DENSE, fuses=ACTIVATIONS,
        fixed="conv2d-fix",
    ),
    Operator(
        kind="matmul", emit=_matmul, fuses=ACTIVATIONS, fixed="conv2d-fix", constant_operand=1,
        lift="the weights of the engines are constants; a constant right side would lift it",
    ),
    Operator(kind="conv2d-fix", engine=Engine.CONV, multiplies=True, parameters=_DENSE),
    Operator(
        kind="transposed-conv2d-fix", engine=Engine.CONV, multiplies=True, parameters=_DENSE
    ),
    Operator(
        kind="depthwise-conv2d-fix", engine=Engine.MISC, multiplies=True, parameters=_DEPTHWISE
    ),
    Operator(
        kind="transposed-depthwise-conv2d-fix", engine=Engine.MISC, multiplies=True,
        parameters=_DEPTHWISE,
    ),
    *(
        Operator(kind=kind, lift=NO_DEPTH)
        for kind in (
            "conv3d", "depthwise-conv3d", "transposed-conv3d", "transposed-depthwise-conv3d",
        )
    ),
)  # fmt: skip
