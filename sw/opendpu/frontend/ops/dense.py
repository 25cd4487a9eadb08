# SPDX-License-Identifier: Apache-2.0
"""Gemm and MatMul: fully connected layers, and products of two computed tensors."""

import math

import numpy as np

from opendpu.frontend.context import Array, Call, broadcast_shape
from opendpu.frontend.layout import Value, plain, reshaped, source_positions
from opendpu.frontend.ops.along_axis import ROWS, map_axis, multiplied
from opendpu.frontend.ops.registry import handles
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.source import as_float
from opendpu.ops.window import pixel_window


@handles("Gemm")
def gemm(call: Call) -> None:
    """Convert to ``inner-product``; alpha and beta go into weights and bias."""
    if call.attrs.get("transA", 0):
        raise Refusal("transA is not supported")
    for index, key in ((1, "alpha"), (2, "beta")):
        if call.is_quantized(index) and call.attrs.get(key, 1.0) != 1:
            raise Refusal(f"{key} is {call.attrs[key]:g}, but must be 1 where it scales integers")
    weights = as_float(call.weights(1, "weights"))
    if not call.attrs.get("transB", 0):
        weights = weights.T
    weights = weights * np.float32(call.attrs.get("alpha", 1.0))
    bias = None
    if call.has(2):
        bias = as_float(call.weights(2, "bias")) * np.float32(call.attrs.get("beta", 1.0))
        if bias.size not in (1, weights.shape[0]) or bias.shape[-1:] != (bias.size,)[: bias.ndim]:
            raise Refusal(f"bias has shape {list(bias.shape)}, but must be [{weights.shape[0]}]")
        bias = np.broadcast_to(bias.ravel(), (weights.shape[0],))
    _dense(call, weights, bias, outputs=0 if call.attrs.get("transB", 0) else 1)


@handles("MatMul")
def matmul(call: Call) -> None:
    """Convert to ``inner-product`` if the right side is one constant matrix, else ``matmul``.

    Maps whose rows or columns are mixed with few neighbours stay as they are.
    """
    for constant in (0, 1):
        axis = map_axis(call, constant)
        if axis is not None:
            matrix = as_float(call.weights(constant, "matrix"))
            node, _ = call.feature_map(1 - constant)
            made = multiplied(call, call.output, node, axis, matrix if axis == ROWS else matrix.T)
            call.set_feature_map(made, len(call.value(1 - constant).shape))
            return
    right = _matrix(call)
    if right is not None:
        _dense(call, right.T, None, outputs=1)
        if call.weights(1, "matrix").ndim == 1:
            product = call.context.values[call.output]
            call.bind(reshaped(product, product.shape[:-1]))
        return
    one, other = call.value(0), call.value(1)
    if min(len(one.shape), len(other.shape)) < 2 or one.shape[-1] != other.shape[-2]:
        raise Refusal(f"shapes {list(one.shape)} and {list(other.shape)} cannot be multiplied")
    nodes = [call.context.ordered(value, plain(len(value.shape))) for value in (one, other)]
    batch = broadcast_shape(one.shape[:-2], other.shape[:-2])
    shape = (*batch, one.shape[-2], other.shape[-1])
    name = call.context.emit(
        call.output,
        "matmul",
        shape,
        {"input": nodes},
        {"transpose_a": False, "transpose_b": False},
    )
    call.bind(Value(name, shape, plain(len(shape))))


def _matrix(call: Call) -> Array | None:
    """Return the right side where it is one constant matrix for all samples, or a vector."""
    right = call.constant(1)
    if right is None or right.ndim == 0:
        return None
    if right.ndim == 1:
        return None if call.is_quantized(1) else as_float(right)[:, None]
    if right.ndim > 2:
        several = math.prod(right.shape[:-2]) > 1 or right.ndim > len(call.value(0).shape)
        if several or call.is_quantized(1):
            return None
    return as_float(right).reshape(right.shape[-2:])


def _dense(call: Call, weights: Array, bias: Array | None, *, outputs: int) -> None:
    """Emit a fully connected layer; ``weights`` are [outputs, inputs].

    ``outputs`` is the axis of the model's weights that the outputs are.
    """
    value = call.value(0)
    count, size = weights.shape
    if value.shape[-1] != size:
        raise Refusal(f"input has shape {list(value.shape)}, but weights want {size} in the end")
    rows = math.prod(value.shape[:-1])
    if value.flat is not None and rows == 1:
        weights = weights[:, source_positions(value)]
        node = value.node
    else:
        node = call.context.ordered(value, plain(len(value.shape)))
    inputs = {"weights": [call.parameter(1, "weights", _laid_out(weights, rows), (outputs, 0))]}
    if bias is not None:
        inputs["bias"] = [call.parameter(2, "bias", bias, (0, 0))]
    if rows == 1:
        inputs["input"] = [call.context.view(node, (1, size))]
        name = call.context.emit(call.output, "inner-product", (1, count), inputs, {"axis": 1})
    else:
        inputs["input"] = [call.context.view(node, (1, 1, rows, size))]
        attrs = pixel_window()
        name = call.context.emit(call.output, "conv2d", (1, 1, rows, count), inputs, attrs)
    shape = (*value.shape[:-1], count)
    call.bind(Value(name, shape, plain(len(shape))))


def _laid_out(weights: Array, rows: int) -> Array:
    return weights if rows == 1 else weights[:, None, None, :]
