# SPDX-License-Identifier: Apache-2.0
"""Ops on each element or along axes that onnxruntime has no operator for, and parts of them."""

from collections.abc import Callable, Sequence

import numpy as np

from opendpu.runtime.cpu.registry import Array, register
from xir import Op


def hard_sigmoid(x: Array) -> Array:
    """Return ``relu6(x + 3) / 6``."""
    return np.asarray(np.clip(x + 3, 0, 6) / 6)


@register("hard-softmax")
def hard_softmax(op: Op, inputs: Sequence[Array]) -> Array:
    """Return powers of two that add up to one along ``axis``."""
    x, axis = inputs[0], op.get_attr("axis")
    powers = np.exp2(x - x.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


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


def reduction(function: Callable[..., Array]) -> Callable[[Op, Sequence[Array]], Array]:
    """Return the op that applies a numpy reduction along ``axis``."""

    def compute(op: Op, inputs: Sequence[Array]) -> Array:
        axes = tuple(op.get_attr("axis"))
        result = function(inputs[0], axis=axes, keepdims=op.get_attr("keep_dims"))
        return np.asarray(result).reshape(op.get_output_tensor().dims)

    return compute


@register("argmax-fix")
def argmax(op: Op, inputs: Sequence[Array]) -> Array:
    """Return the index of the first largest element along ``axis``."""
    index = np.argmax(inputs[0], axis=op.get_attr("axis"))
    return np.asarray(index).reshape(op.get_output_tensor().dims)
