# SPDX-License-Identifier: Apache-2.0
"""Float ops on each element, and those that normalize or reduce along axes."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opendpu.runtime.cpu.registry import Array, register
from xir import Op


def _unary(op_type: str, function: Callable[[Array], Any]) -> None:
    """Register a function, which is computed in float64: others get the same float32."""

    def compute(_op: Op, inputs: Sequence[Array]) -> Array:
        x = inputs[0]
        return np.asarray(function(np.asarray(x, np.float64)), x.dtype)

    register(op_type)(compute)


def sigmoid(x: Array) -> Array:
    """Return the logistic function, exact to the last digits on both sides."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


def hard_sigmoid(x: Array) -> Array:
    """Return ``relu6(x + 3) / 6``."""
    return np.asarray(np.clip(x + 3, 0, 6) / 6)


def _softplus(x: Array) -> Array:
    return np.asarray(np.logaddexp(0, x))


_erf = np.vectorize(math.erf, otypes=[np.float64])


_unary("relu", lambda x: np.maximum(x, 0))
_unary("relu6", lambda x: np.clip(x, 0, 6))
_unary("sigmoid", sigmoid)
_unary("tanh", np.tanh)
_unary("exp", np.exp)
_unary("neg", np.negative)
_unary("swish", lambda x: x * sigmoid(x))
_unary("hard-sigmoid", hard_sigmoid)
_unary("hard-swish", lambda x: x * hard_sigmoid(x))
_unary("hard-tanh", lambda x: np.clip(x, -1, 1))
_unary("mish", lambda x: x * np.tanh(_softplus(x)))
_unary("gelu", lambda x: 0.5 * x * (1 + _erf(x / np.sqrt(2))))
_unary(
    "selu",
    lambda x: (
        1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))
    ),
)


@register("leaky-relu")
def leaky_relu(op: Op, inputs: Sequence[Array]) -> Array:
    """Multiply negative elements by ``alpha``."""
    x = inputs[0]
    return np.where(x > 0, x, x * x.dtype.type(op.get_attr("alpha")))


@register("prelu")
def prelu(_op: Op, inputs: Sequence[Array]) -> Array:
    """Multiply negative elements by the second input."""
    return np.where(inputs[0] > 0, inputs[0], inputs[0] * inputs[1])


@register("elu", "celu")
def elu(op: Op, inputs: Sequence[Array]) -> Array:
    """Bend negative elements to an exponential that ends at ``-alpha``."""
    x, alpha = inputs[0], op.get_attr("alpha")
    scale = alpha if op.get_type() == "celu" else 1.0
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / scale))


def _fold(function: Callable[[Array, Array], Array]) -> Callable[[Op, Sequence[Array]], Array]:
    return lambda _op, inputs: functools.reduce(function, inputs)


for _name, _function in {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}.items():
    register(_name)(_fold(_function))


@register("softmax")
def softmax(op: Op, inputs: Sequence[Array]) -> Array:
    """Return exponentials that add up to one along ``axis``."""
    x, axis = inputs[0], op.get_attr("axis")
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


@register("hard-softmax")
def hard_softmax(op: Op, inputs: Sequence[Array]) -> Array:
    """Return powers of two that add up to one along ``axis``."""
    x, axis = inputs[0], op.get_attr("axis")
    powers = np.exp2(x - x.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


@register("batchnorm")
def batchnorm(op: Op, inputs: Sequence[Array]) -> Array:
    """Normalize with given mean and variance along ``axis``."""
    x, axis = inputs[0], op.get_attr("axis")
    shape = [1] * x.ndim
    shape[axis] = -1
    gamma, beta, mean, variance = (values.reshape(shape) for values in inputs[1:])
    return np.asarray((x - mean) / np.sqrt(variance + op.get_attr("epsilon")) * gamma + beta)


@register("scale")
def scale(op: Op, inputs: Sequence[Array]) -> Array:
    """Multiply by the second input along ``axis`` and add the third."""
    x, axis = inputs[0], op.get_attr("axis")
    shape = [1] * x.ndim
    shape[axis] = -1
    result = x * inputs[1].reshape(shape)
    return np.asarray(result + inputs[2].reshape(shape) if len(inputs) > 2 else result)


def _normalize(op: Op, groups: Array, inputs: Sequence[Array]) -> Array:
    """Bring [n, pixels, groups, channels of a group] to mean 0 and variance 1, then scale."""
    mean = groups.mean(axis=(1, 3), keepdims=True)
    variance = groups.var(axis=(1, 3), keepdims=True)
    result = ((groups - mean) / np.sqrt(variance + op.get_attr("eps"))).reshape(inputs[0].shape)
    if op.get_attr("affine"):
        result = result * inputs[1] + inputs[2]
    return np.asarray(result)


@register("instancenorm")
def instancenorm(op: Op, inputs: Sequence[Array]) -> Array:
    """Normalize each channel of each image."""
    x = inputs[0]
    return _normalize(op, x.reshape(x.shape[0], -1, x.shape[-1], 1), inputs)


@register("groupnorm")
def groupnorm(op: Op, inputs: Sequence[Array]) -> Array:
    """Normalize groups of channels of each image."""
    x, groups = inputs[0], op.get_attr("num_groups")
    return _normalize(op, x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups), inputs)


@register("l2_normalize")
def l2_normalize(op: Op, inputs: Sequence[Array]) -> Array:
    """Divide by the length of the vectors along ``axis``."""
    x, axes = inputs[0], tuple(op.get_attr("axis")) or None
    squares = np.sum(x * x, axis=axes, keepdims=True)
    return np.asarray(x / np.sqrt(np.maximum(squares, op.get_attr("epsilon"))))


@register("lrn")
def lrn(op: Op, inputs: Sequence[Array]) -> Array:
    """Normalize by the squares of ``size`` channels around each one, as ONNX's LRN does."""
    x = inputs[0].astype(np.float64)
    size = op.get_attr("size")
    frame = np.zeros((*x.shape[:-1], x.shape[-1] + size - 1))
    frame[..., (size - 1) // 2 : (size - 1) // 2 + x.shape[-1]] = x * x
    squares = np.lib.stride_tricks.sliding_window_view(frame, size, axis=-1).sum(axis=-1)
    base = op.get_attr("bias") + op.get_attr("alpha") / size * squares
    return np.asarray(x / base ** op.get_attr("beta"), np.float32)


def reduction(function: Callable[..., Array]) -> Callable[[Op, Sequence[Array]], Array]:
    """Return the op that applies a numpy reduction along ``axis``."""

    def compute(op: Op, inputs: Sequence[Array]) -> Array:
        axes = tuple(op.get_attr("axis"))
        result = function(inputs[0], axis=axes, keepdims=op.get_attr("keep_dims"))
        return np.asarray(result).reshape(op.get_output_tensor().dims)

    return compute


register("reduction_max")(reduction(np.max))
register("reduction_mean")(reduction(np.mean))
register("reduction_sum")(reduction(np.sum))
register("reduction_product")(reduction(np.prod))


@register("argmax", "argmax-fix")
def argmax(op: Op, inputs: Sequence[Array]) -> Array:
    """Return the index of the first largest element along ``axis``."""
    index = np.argmax(inputs[0], axis=op.get_attr("axis"))
    return np.asarray(index).reshape(op.get_output_tensor().dims)


@register("matmul")
def matmul(op: Op, inputs: Sequence[Array]) -> Array:
    """Multiply matrices, after transposing them where asked to."""
    left, right = inputs[0], inputs[1]
    left = left.swapaxes(-1, -2) if op.get_attr("transpose_a") else left
    right = right.swapaxes(-1, -2) if op.get_attr("transpose_b") else right
    product = left @ right
    return np.asarray(product + inputs[2] if len(inputs) > 2 else product)


@register("inner-product")
def inner_product(op: Op, inputs: Sequence[Array]) -> Array:
    """Multiply everything from ``axis`` on with each row of the weights."""
    x, weights = inputs[0], inputs[1]
    axis = op.get_attr("axis") % x.ndim
    flat = x.reshape(*x.shape[:axis], -1) @ weights.reshape(weights.shape[0], -1).T
    return np.asarray(flat + inputs[2] if len(inputs) > 2 else flat)
