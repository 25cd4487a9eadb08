# SPDX-License-Identifier: Apache-2.0
"""Conv and ConvTranspose, and batch normalization as a per-channel scale."""

import dataclasses

import numpy as np

from opendpu.frontend.context import Array, Call
from opendpu.frontend.ops.registry import Layout, handles
from opendpu.frontend.ops.window import Window, transposed_window, window_of
from opendpu.frontend.refusal import FaultError, Refusal
from opendpu.frontend.source import as_float


@handles("Conv", layout=Layout.SPATIAL)
def conv(call: Call) -> None:
    """Convert to ``conv2d``, with its groups, or to ``depthwise-conv2d``."""
    rank = len(call.value(0).shape)
    node, shape = call.feature_map()
    weights = _four_axes(as_float(call.weights(1, "weights")))
    kernel = weights.shape[2:] if rank == 4 else weights.shape[3:]
    window = window_of(call, tuple(kernel), (shape[1], shape[2]))
    group = int(call.attrs.get("group", 1))
    channels, out_channels = shape[3], weights.shape[0]
    if weights.shape[1] * group != channels or out_channels % group:
        raise FaultError(
            f"weights {list(weights.shape)} with group {group} do not fit {channels} input channels"
        )
    if group == channels == out_channels and group > 1:
        kind, ordered = "depthwise-conv2d", weights.transpose(1, 2, 3, 0)
    else:
        kind, ordered = "conv2d", weights.transpose(0, 2, 3, 1)
    size = window.output((shape[1], shape[2]))
    _emit(call, kind, node, ordered, window, size, rank, group if kind == "conv2d" else 1)


@handles("ConvTranspose", layout=Layout.SPATIAL)
def conv_transpose(call: Call) -> None:
    """Convert to ``transposed-conv2d`` or ``transposed-depthwise-conv2d``.

    XIR wants the kernel rotated by half a turn.
    """
    rank = len(call.value(0).shape)
    node, shape = call.feature_map()
    weights = _four_axes(as_float(call.weights(1, "weights")))
    kernel = weights.shape[2:] if rank == 4 else weights.shape[3:]
    window = transposed_window(call, tuple(kernel), (shape[1], shape[2]))
    group = int(call.attrs.get("group", 1))
    if weights.shape[0] != shape[3] or shape[3] % group:
        raise Refusal(
            f"weights {list(weights.shape)} with group {group} do not fit {shape[3]} input channels"
        )
    per_group = shape[3] // group
    straight = np.concatenate(
        [weights[g * per_group : (g + 1) * per_group].transpose(1, 0, 2, 3) for g in range(group)]
    )
    spread = _spread(straight, window.dilation)
    missing = [[max(0, -pad) for pad in pair] for pair in window.pads]
    rotated = np.pad(spread, [(0, 0), (0, 0), *missing])[:, :, ::-1, ::-1]
    (top, bottom), (left, right) = window.pads
    window = dataclasses.replace(
        window, kernel=rotated.shape[2:], dilation=(1, 1),
        pads=((max(0, top), max(0, bottom)), (max(0, left), max(0, right))),
    )  # fmt: skip
    kind, ordered = "transposed-conv2d", _ungroup(rotated, group).transpose(0, 2, 3, 1)
    if group == shape[3] == rotated.shape[0] and group > 1:
        kind, ordered = "transposed-depthwise-conv2d", rotated.transpose(1, 2, 3, 0)
    size = [
        (shape[1 + axis] - 1) * window.stride[axis] + window.extent(axis) - sum(window.pads[axis])
        for axis in (0, 1)
    ]
    if min(size) < 1:
        raise Refusal(f"pads {call.attrs.get('pads')} leave nothing of the result")
    _emit(call, kind, node, ordered, window, (size[0], size[1]), rank)


def _spread(weights: Array, dilation: tuple[int, int]) -> Array:
    """Return OIHW weights with zeros between them instead of a dilation."""
    rows, columns = weights.shape[2:]
    size = ((rows - 1) * dilation[0] + 1, (columns - 1) * dilation[1] + 1)
    result = np.zeros((*weights.shape[:2], *size), weights.dtype)
    result[:, :, :: dilation[0], :: dilation[1]] = weights
    return result


def _emit(
    call: Call,
    kind: str,
    node: str,
    weights: Array,
    window: Window,
    size: tuple[int, int],
    rank: int,
    group: int = 1,
) -> None:
    depthwise, transposed = "depthwise" in kind, kind.startswith("transposed")
    channels = weights.shape[3] if depthwise else weights.shape[0]
    outputs = (0 if depthwise or not transposed else 1, 3 if depthwise else 0)
    inputs = {"input": [node], "weights": [call.parameter(1, "weights", weights, outputs)]}
    if call.has(2):
        bias = as_float(call.weights(2, "bias"))
        if bias.shape != (channels,):
            raise Refusal(f"bias has shape {list(bias.shape)}, but must be [{channels}]")
        inputs["bias"] = [call.parameter(2, "bias", bias, (0, 0))]
    batch = call.context.graph[node].shape[0]
    attrs = window.attrs() | {"dilation": [window.dilation[1], window.dilation[0]]}
    if group > 1:
        attrs["group"] = group
    name = call.context.emit(call.output, kind, (batch, *size, channels), inputs, attrs)
    call.set_feature_map(name, rank)


@handles("BatchNormalization", layout=Layout.SPATIAL)
def batch_normalization(call: Call) -> None:
    """Convert to ``scale`` over the channels; the quantizer folds it into a convolution."""
    if call.attrs.get("training_mode", 0) or len(call.proto.output) > 1:
        raise Refusal("training mode is not supported; export the model for inference")
    if not call.attrs.get("spatial", 1):
        raise Refusal("spatial is 0, but statistics must be those of channels")
    gamma, beta, mean, variance = (
        as_float(call.weights(i, what)).astype(np.float64)
        for i, what in enumerate(("scale", "bias", "mean", "variance"), start=1)
    )
    for index, array in enumerate((gamma, beta, mean, variance), start=1):
        call.finite(index, array)
    factor = gamma / np.sqrt(variance + float(call.attrs.get("epsilon", 1e-5)))
    value = call.value(0)
    if len(value.shape) == 2:
        node, rank = call.context.ordered(value, (0, 1)), 2
    else:
        node, rank = call.feature_map()[0], len(value.shape)
    channels = call.context.graph[node].shape[-1]
    if any(array.shape != (channels,) for array in (gamma, beta, mean, variance)):
        raise Refusal(f"parameters have shape {list(gamma.shape)}, but must be [{channels}]")
    name = scale(call, node, factor, beta - mean * factor)
    if rank == 2:
        call.bind(value.on(name))
    else:
        call.set_feature_map(name, rank)


def scale(call: Call, node: str, factor: Array, offset: Array) -> str:
    """Emit ``node * factor + offset`` over the last axis; return the new node's name."""
    inputs = {
        "input": [node],
        "scale": [call.context.const(f"{call.output}_scale", factor)],
        "bias": [call.context.const(f"{call.output}_offset", offset)],
    }
    shape = call.context.graph[node].shape
    return call.context.emit(call.output, "scale", shape, inputs, {"axis": -1})


def _four_axes(weights: Array) -> Array:
    if weights.ndim == 3:
        return weights[:, :, None, :]
    if weights.ndim != 4:
        raise Refusal(f"weights have {weights.ndim} dimensions, but 3 and 4 are supported")
    return weights


def _ungroup(weights: Array, group: int) -> Array:
    """Return grouped OIHW weights as dense ones, zero between groups."""
    if group == 1:
        return weights
    out_channels, per_group = weights.shape[:2]
    dense = np.zeros((out_channels, per_group * group, *weights.shape[2:]), weights.dtype)
    step = out_channels // group
    for index in range(group):
        dense[index * step : (index + 1) * step, index * per_group : (index + 1) * per_group] = (
            weights[index * step : (index + 1) * step]
        )
    return dense
