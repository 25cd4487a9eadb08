# SPDX-License-Identifier: Apache-2.0
"""Blocks of transformers in the form in which torch exports them: tokens are [n, channels]."""

import math

import numpy as np

from networks.builder import BIAS, GAINS, Builder, Shape

EPSILON = 1e-6
LAYER_NORMALIZATION = 17
"""Operator set since which ONNX has it as one operator."""


def layer_norm(net: Builder, x: str) -> str:
    """Normalize the last axis; in nine operators before operator set 17."""
    shape = net.shapes[x]
    width = shape[-1]
    scale = net.constant(1 + 0.1 * net.random.standard_normal(width, np.float32))
    shift = net.draw((width,), BIAS)
    if net.opset >= LAYER_NORMALIZATION:
        return net.node("LayerNormalization", [x, scale, shift], shape, axis=-1, epsilon=EPSILON)
    one = (*shape[:-1], 1)
    mean = net.node("ReduceMean", [x], one, axes=[-1])
    centered = net.node("Sub", [x, mean], shape)
    squares = net.with_scalar("Pow", centered, 2.0)
    variance = net.node("ReduceMean", [squares], one, axes=[-1])
    deviation = net.node("Sqrt", [net.with_scalar("Add", variance, EPSILON)], one)
    y = net.node("Div", [centered, deviation], shape)
    return net.add(net.node("Mul", [y, scale], shape), shift)


def linear(net: Builder, x: str, outputs: int, act: str = "", gain: float = 1.0) -> str:
    """Add a fully connected layer of every token: MatMul and Add."""
    *front, width = net.shapes[x]
    weights = net.draw((width, outputs), gain * GAINS.get(act, 1.0) * math.sqrt(1 / width))
    y = net.node("MatMul", [x, weights], (*front, outputs))
    return net.activation(net.add(y, net.draw((outputs,), BIAS)), act)


def attention(net: Builder, x: str, heads: int, bias: np.ndarray | None = None) -> str:
    """Add self-attention of tokens [..., n, channels].

    ``bias``, which broadcasts to [..., heads, n, n], is added before the softmax.
    """
    *front, count, width = net.shapes[x]
    rank = len(front)
    axes = list(range(1, rank + 1))
    each = width // heads
    qkv = net.reshape(linear(net, x, 3 * width), (*front, count, 3, heads, each))
    # first the three of them, then heads in front of tokens
    order = (*axes, rank + 2, rank + 3, rank + 1, rank + 4)
    qkv = net.transpose(qkv, *order)
    parts = [_taken(net, qkv, part, rank + 1) for part in range(3)]
    query = net.with_scalar("Mul", parts[0], each**-0.5)
    key = net.transpose(parts[1], *axes, rank + 1, rank + 3, rank + 2)
    scores = net.node("MatMul", [query, key], (*front, heads, count, count))
    if bias is not None:
        scores = net.node("Add", [scores, net.constant(bias)], net.shapes[scores])
    weights = net.node("Softmax", [scores], net.shapes[scores], axis=-1)
    y = net.node("MatMul", [weights, parts[2]], (*front, heads, count, each))
    y = net.reshape(net.transpose(y, *axes, rank + 2, rank + 1, rank + 3), (*front, count, width))
    return linear(net, y, width, gain=0.5)


def mlp(net: Builder, x: str, expansion: int = 4) -> str:
    """Add two fully connected layers with GELU between."""
    width = net.shapes[x][-1]
    return linear(net, linear(net, x, expansion * width, "Gelu"), width, gain=0.7)


def _taken(net: Builder, x: str, index: int, axis: int) -> str:
    """Take one index of an axis, as torch exports ``x[:, index]``."""
    shape: Shape = tuple(n for place, n in enumerate(net.shapes[x], 1) if place != axis)
    return net.node("Gather", [x, net.constant(np.array(index, np.int64))], shape, axis=axis)
