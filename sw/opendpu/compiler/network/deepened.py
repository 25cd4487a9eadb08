# SPDX-License-Identifier: Apache-2.0
"""Layers on feature maps whose neighbouring pixels have become channels of one pixel.

Every function returns a layer with the same results, bit for bit, or none where no instruction has
them. Single pixels have no neighbours: where their readers are deeper, they stand side by side
with themselves.
"""

import dataclasses
from collections.abc import Collection
from typing import Any

import numpy as np

from opendpu.compiler.layers import (
    AluLayer,
    BlockwiseConvLayer,
    BroadcastLayer,
    ComputeLayer,
    ConvLayer,
    EltwiseLayer,
    Feature,
    Features,
    Layer,
    ScaleLayer,
    Window,
    fields_of,
    kernel_parts,
)
from opendpu.compiler.limits import MAX_CONV_KERNEL, MAX_CONV_STRIDE, MAX_STRIDE_OUT
from opendpu_arch.isa import AluMode
from opendpu_arch.target import Target

POINT = Window()
HALVES = 8
"""What ``shift_cut`` of an average has more than its sum is shifted by to the right."""


def is_pixel(feature: Feature) -> bool:
    """Tell whether a feature map is a single pixel."""
    return feature.height == feature.width == 1


def deepened(
    layer: Layer, features: Features, deep: Collection[str], pixels: int, target: Target
) -> ComputeLayer | None:
    """Return ``layer`` where those operands and results that are ``deep`` have ``pixels`` in one.

    ``features`` are as they were. None where the layer cannot be so.
    """
    if type(layer) is ConvLayer:
        return _conv(layer, features, deep, pixels, target)
    if type(layer) is AluLayer and layer.mode == AluMode.AVEPOOL:
        return _average(layer, features, deep, pixels, target)
    if (
        type(layer) is AluLayer
        and layer.window == POINT
        and {layer.source, layer.output} <= {*deep}
    ):
        weights = None if layer.weights is None else np.tile(layer.weights, pixels)
        return dataclasses.replace(layer, weights=weights, **_per_channel(layer, pixels))
    if type(layer) is ScaleLayer and {*layer.operands, layer.output} <= {*deep}:
        return layer
    if type(layer) in (EltwiseLayer, BroadcastLayer) and {*layer.operands, layer.output} <= {*deep}:
        assert isinstance(layer, EltwiseLayer)
        bias = None if layer.bias is None else np.tile(layer.bias, pixels)
        return dataclasses.replace(layer, bias=bias)
    return None


def _per_channel(layer: ComputeLayer, pixels: int) -> dict[str, Any]:
    """Return what the channels of ``pixels`` have."""
    return {name: np.tile(values, pixels) for name, values in layer.per_channel.items()}


def _conv(
    layer: ConvLayer, features: Features, deep: Collection[str], pixels: int, target: Target
) -> ConvLayer | None:
    """Return a convolution that makes several pixels in one, from such ones if it has no window."""
    if layer.depthwise or layer.epilogue is not None or layer.output not in deep:
        return None
    if is_pixel(features[layer.output]):
        if layer.source in deep:
            return None
        weights = np.tile(layer.weights, (pixels, 1, 1, 1))
        return dataclasses.replace(layer, weights=weights, **_per_channel(layer, pixels))
    if layer.source in deep:
        if layer.window != POINT:
            return None
        return _blockwise(layer, _diagonal(layer.weights, pixels),
                          _diagonal(np.ones(layer.weights.shape, bool), pixels),
                          POINT, pixels, target)  # fmt: skip
    stride = layer.window.stride_w
    window = dataclasses.replace(
        layer.window, kernel_w=layer.window.kernel_w + (pixels - 1) * stride,
        stride_w=pixels * stride,
    )  # fmt: skip
    if window.kernel_w > MAX_CONV_KERNEL or window.stride_w > MAX_CONV_STRIDE:
        return None
    return _blockwise(layer, _shifted(layer.weights, pixels, stride),
                      _shifted(np.ones(layer.weights.shape, bool), pixels, stride),
                      window, pixels, target)  # fmt: skip


def _blockwise(
    layer: ConvLayer, weights: np.ndarray[Any, Any], met: np.ndarray[Any, Any], window: Window,
    pixels: int, target: Target,
) -> BlockwiseConvLayer:  # fmt: skip
    """Return a convolution with other weights, of which those exist that are ``met``."""
    fields = fields_of(layer, ConvLayer) | _per_channel(layer, pixels)
    parallel = target.channel_parallel
    fields |= {"weights": weights, "window": window}
    return BlockwiseConvLayer(
        **fields, parallel=parallel, parts=kernel_parts(met, window, parallel)
    )


def _shifted(weights: np.ndarray[Any, Any], pixels: int, stride: int) -> np.ndarray[Any, Any]:
    """Return OHWI weights of neighbouring outputs, each at its own columns of a wider kernel."""
    outputs, height, width, inputs = weights.shape
    wide = width + (pixels - 1) * stride
    made = np.zeros((pixels, outputs, height, wide, inputs), weights.dtype)
    for pixel in range(pixels):
        made[pixel, :, :, pixel * stride : pixel * stride + width] = weights
    return made.reshape(pixels * outputs, height, wide, inputs)


def _diagonal(weights: np.ndarray[Any, Any], pixels: int) -> np.ndarray[Any, Any]:
    """Return weights OHWI of as many pixels, each of which meets its own channels only."""
    outputs, height, width, inputs = weights.shape
    made = np.zeros((pixels, outputs, height, width, pixels, inputs), weights.dtype)
    for pixel in range(pixels):
        made[pixel, :, :, :, pixel] = weights
    return made.reshape(pixels * outputs, height, width, pixels * inputs)


def _average(
    layer: AluLayer, features: Features, deep: Collection[str], pixels: int, target: Target
) -> ConvLayer | None:
    """Return an average over whole groups of pixels, as a convolution whose weights are equal.

    Both engines round the same sum once, after the same shift.
    """
    window, shift = layer.window, layer.shift_cut - HALVES
    whole = window.kernel_w % pixels == window.stride_w % pixels == window.pad_left == 0
    if layer.source not in deep or layer.output in deep or not whole or shift < 0:
        return None
    if layer.requantization is not None or layer.multi_factor > 127 or layer.table is not None:
        return None
    window = dataclasses.replace(
        window, kernel_w=window.kernel_w // pixels, stride_w=window.stride_w // pixels
    )
    if max(window.kernel_h, window.kernel_w) > MAX_CONV_KERNEL:
        return None
    if window.stride_h > MAX_STRIDE_OUT or window.stride_w > MAX_CONV_STRIDE:
        return None
    channels, parallel = features[layer.output].channels, target.channel_parallel
    one = np.tile(np.eye(channels, dtype=np.int8), pixels)[:, None, None, :]
    weights = np.tile(layer.multi_factor * one, (1, window.kernel_h, window.kernel_w, 1))
    return BlockwiseConvLayer(
        name=layer.name, output=layer.output, op=layer.op, source=layer.source, window=window,
        weights=weights.astype(np.int8), bias=np.zeros(channels, np.int8), shift_cut=shift,
        shift_bias=0, act_type=layer.act_type, parallel=parallel,
        parts=kernel_parts(weights != 0, window, parallel),
    )  # fmt: skip
