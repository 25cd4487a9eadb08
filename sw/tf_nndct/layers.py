# SPDX-License-Identifier: Apache-2.0
"""What each layer of Keras does with channels."""

from collections.abc import Callable
from typing import Any

import numpy as np

from opendpu.ir import Array
from opendpu.pruning import IN, OUT
from opendpu_arch.errors import UnsupportedError
from tf_nndct.channels import Channels
from tf_nndct.network import Call

ALIKE = frozenset({
    "Activation", "AlphaDropout", "AveragePooling1D", "AveragePooling2D", "Cropping1D",
    "Cropping2D", "Dropout", "ELU", "GaussianDropout", "GaussianNoise", "GlobalAveragePooling1D",
    "GlobalAveragePooling2D", "GlobalMaxPooling1D", "GlobalMaxPooling2D", "Identity", "InputLayer",
    "LeakyReLU", "MaxPooling1D", "MaxPooling2D", "ReLU", "Relu", "Relu6", "Rescaling", "Resizing",
    "Sigmoid", "Silu", "SpatialDropout1D", "SpatialDropout2D", "Tanh", "ThresholdedReLU",
    "UpSampling1D", "UpSampling2D", "ZeroPadding1D", "ZeroPadding2D",
})  # fmt: skip
"""Layers and operations that make each channel out of one."""
TOGETHER = frozenset({"Add", "Average", "Maximum", "Minimum", "Multiply", "Subtract"})
"""Those that make each channel out of one of every input."""


def _positions(shape: tuple[Any, ...]) -> int:
    return int(np.prod([size or 1 for size in shape[1:-1]], dtype=np.int64))


def _dense(a: Channels, call: Call, given: list[Array]) -> Array:
    made = a.produce(call, int(call.layer.units))
    a.weigh(call, "kernel", 0, IN, given[0])
    a.weigh(call, "kernel", 1, OUT, made)
    a.work.append((call.path, _positions(call.results[0]), made, given[0]))
    return made


def _convolution(a: Channels, call: Call, given: list[Array]) -> Array:
    made = a.produce(call, int(call.layer.filters))
    window = int(np.prod(call.layer.kernel_size))
    if getattr(call.layer, "groups", 1) != 1:
        a.pin(given[0], f"{call.path} has groups")
        a.pin(made, "it has groups")
    else:
        rank = len(call.layer.kernel_size)
        a.weigh(call, "kernel", rank, IN, given[0])
        a.weigh(call, "kernel", rank + 1, OUT, made)
    each = window * _positions(call.results[0]) // int(getattr(call.layer, "groups", 1))
    a.work.append((call.path, each, made, given[0]))
    return made


def _transposed(a: Channels, call: Call, given: list[Array]) -> Array:
    made = a.produce(call, int(call.layer.filters))
    rank = len(call.layer.kernel_size)
    a.weigh(call, "kernel", rank, OUT, made)
    a.weigh(call, "kernel", rank + 1, IN, given[0])
    each = int(np.prod(call.layer.kernel_size)) * _positions(call.shapes[0])
    a.work.append((call.path, each, made, given[0]))
    return made


def _depthwise(a: Channels, call: Call, given: list[Array]) -> Array:
    made = np.repeat(given[0], int(call.layer.depth_multiplier))
    weight = "kernel" if hasattr(call.layer, "kernel") else "depthwise_kernel"
    a.depthwise.add(call.path)
    a.weigh(call, weight, len(call.layer.kernel_size), OUT, given[0])
    a.weigh(call, "bias", 0, OUT, made)
    each = int(np.prod(call.layer.kernel_size)) * _positions(call.results[0])
    a.work.append((call.path, each, made, None))
    return made


def _separable(a: Channels, call: Call, given: list[Array]) -> Array:
    made = a.produce(call, int(call.layer.filters))
    between = np.repeat(given[0], int(call.layer.depth_multiplier))
    rank = len(call.layer.kernel_size)
    a.weigh(call, "depthwise_kernel", rank, OUT, given[0])
    a.weigh(call, "pointwise_kernel", rank, IN, between)
    a.weigh(call, "pointwise_kernel", rank + 1, OUT, made)
    positions = _positions(call.results[0])
    a.work.append((call.path, int(np.prod(call.layer.kernel_size)) * positions, between, None))
    a.work.append((call.path, positions, made, between))
    return made


def _normalization(a: Channels, call: Call, given: list[Array]) -> Array:
    axis = call.layer.axis
    axis = axis if isinstance(axis, int) else axis[0]
    if axis not in (-1, len(call.shapes[0]) - 1):
        return _unknown(a, call, given)
    for weight in ("gamma", "beta", "moving_mean", "moving_variance"):
        a.weigh(call, weight, 0, OUT, given[0])
    return given[0]


def _prelu(a: Channels, call: Call, given: list[Array]) -> Array:
    a.weigh(call, "alpha", len(call.shapes[0]) - 2, OUT, given[0])
    return given[0]


def _concatenate(a: Channels, call: Call, given: list[Array]) -> Array:
    axis = int(getattr(call.layer, "axis", -1))
    if axis in (-1, len(call.shapes[0]) - 1):
        return np.concatenate(given)
    for other in given[1:]:
        a.join(given[0], other)
    return given[0]


def _flatten(a: Channels, call: Call, given: list[Array]) -> Array:
    if any(size is None for size in call.shapes[0][1:]):
        return _unknown(a, call, given)
    return np.tile(given[0], _positions(call.shapes[0]))


def _reshape(a: Channels, call: Call, given: list[Array]) -> Array:
    if call.results[0][-1] != len(given[0]):
        return _unknown(a, call, given)
    a.sizes[call.path] = given[0]
    return given[0]


def _together(a: Channels, call: Call, given: list[Array]) -> Array:
    widest = max(given, key=len)
    for other in given:
        if len(other) == len(widest):
            a.join(widest, other)
        else:
            a.pin(other, f"{call.path} spreads it over other channels")
    return widest


def _unknown(a: Channels, call: Call, given: list[Array]) -> Array:
    kind = type(call.layer).__name__
    for ids in given:
        a.pin(ids, f"{call.path} ({kind}) reads it")
    return a.stay(call.results[0][-1] if len(call.results[0]) > 1 else 1, f"{kind} makes it")


RULES: dict[str, Callable[[Channels, Call, list[Array]], Array]] = {
    "BatchNormalization": _normalization, "Concatenate": _concatenate, "Conv1D": _convolution,
    "Conv2D": _convolution, "Conv2DTranspose": _transposed, "Dense": _dense,
    "DepthwiseConv1D": _depthwise, "DepthwiseConv2D": _depthwise, "Flatten": _flatten,
    "PReLU": _prelu, "Reshape": _reshape, "SeparableConv1D": _separable,
    "SeparableConv2D": _separable,
}  # fmt: skip


def number(channels: Channels, call: Call) -> Array:
    """Return the channels that a call makes.

    Raises
    ------
    UnsupportedError
        The layer has its channels first.
    """
    kind = type(call.layer).__name__
    given = [channels.ids[tensor] for tensor in call.inputs]
    if getattr(call.layer, "data_format", "channels_last") == "channels_first":
        raise UnsupportedError(
            f"layer {call.path!r} has its channels first; models must have them last",
            code="OPTIMIZER_UNSUPPORTED_OP_ERROR",
        )
    if kind in ALIKE:
        channels.apart(call, given[0])
        return given[0]
    if kind in TOGETHER:
        return _together(channels, call, given)
    return RULES.get(kind, _unknown)(channels, call, given)
