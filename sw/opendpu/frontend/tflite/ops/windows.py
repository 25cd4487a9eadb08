# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pools, fully connected layers, resizing."""

from typing import Any

import tflite

from opendpu.frontend.channels_last import arithmetic, convolution
from opendpu.frontend.channels_last.axes import known_shape, ordered, reshaped
from opendpu.frontend.channels_last.convolution import Padding
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.tflite.registry import PADDINGS, Call, handles


@handles("CONV_2D")
def conv(call: Call) -> str:
    """Weights are OHWI."""
    return _conv(call, call.options(tflite.Conv2DOptions), (0, 3, 1, 2))


@handles("DEPTHWISE_CONV_2D")
def depthwise_conv(call: Call) -> str:
    """Weights are ``[1, H, W, C * M]``."""
    return _conv(call, call.options(tflite.DepthwiseConv2DOptions), (3, 0, 1, 2))


def _conv(call: Call, given: Any, order: tuple[int, ...]) -> str:
    """Convert a convolution; ``order`` makes its weights OIHW."""
    fused, around = given.FusedActivationFunction(), call.operator.dilation
    x, padding = call.x, _padding(given)
    dilation: tuple[int, ...] = (given.DilationHFactor(), given.DilationWFactor())
    if around is not None:
        padding, dilation = around.padding, around.factors
    shape = known_shape(call.b, x)
    at = None if around is None else around.sequence
    if at is not None:
        length = (1, shape[1]) if at == 2 else (shape[1], 1)
        x = reshaped(call.b, x, (shape[0], *length, shape[2]))
    made = convolution.conv(
        call.b, x, ordered(call.b, call.input(1), order), name=call.inner(fused),
        bias=call.optional(2), padding=padding, stride=(given.StrideH(), given.StrideW()),
        dilation=dilation,
    )  # fmt: skip
    return call.activated(made, fused)


@handles("TRANSPOSE_CONV")
def transpose_conv(call: Call) -> str:
    """Inputs are the size of the result, weights OHWI, the feature map, and maybe a bias."""
    given = call.options(tflite.TransposeConvOptions)
    fused = given.FusedActivationFunction()
    size = call.integers(0, "sizes")
    made = convolution.transposed_conv(
        call.b, call.input(2), ordered(call.b, call.input(1), (3, 0, 1, 2)),
        name=call.inner(fused), size=size[1:3], bias=call.optional(3), padding=_padding(given),
        stride=(given.StrideH(), given.StrideW()),
    )  # fmt: skip
    return call.activated(made, fused)


@handles("FULLY_CONNECTED")
def fully_connected(call: Call) -> str:
    """Weights are ``[outputs, inputs]``; the input is taken as rows of their length."""
    given = call.options(tflite.FullyConnectedOptions)
    if given.WeightsFormat() != tflite.FullyConnectedOptionsWeightsFormat.DEFAULT:
        raise Refusal("its weights are shuffled")
    fused = given.FusedActivationFunction()
    b, x = call.b, call.x
    size = known_shape(b, call.input(1))[1]
    shape = known_shape(b, x)
    if not given.KeepNumDims() and len(shape) != 2:
        x = reshaped(b, x, (-1, size))
    bias = call.optional(2)
    name = call.inner(fused)
    weights = ordered(b, call.input(1), (1, 0))
    made = b.node("MatMul", [x, weights], f"{name}/MatMul" if bias else name)
    made = b.node("Add", [made, bias], name) if bias else made
    return call.activated(made, fused)


@handles("AVERAGE_POOL_2D", "MAX_POOL_2D")
def pool(call: Call) -> str:
    """Padding does not count in means."""
    given = call.options(tflite.Pool2DOptions)
    fused = given.FusedActivationFunction()
    kind = "MaxPool" if call.operator.kind == "MAX_POOL_2D" else "AveragePool"
    made = convolution.pool(
        call.b, kind, call.x, name=call.inner(fused),
        kernel=(given.FilterHeight(), given.FilterWidth()),
        stride=(given.StrideH(), given.StrideW()), padding=_padding(given),
    )  # fmt: skip
    return call.activated(made, fused)


@handles("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def resize(call: Call) -> str:
    """The second input is the size, rows first."""
    linear = call.operator.kind == "RESIZE_BILINEAR"
    kind = tflite.ResizeBilinearOptions if linear else tflite.ResizeNearestNeighborOptions
    given = call.options(kind)
    return arithmetic.resize(
        call.b, call.x, call.integers(1, "sizes"), linear=linear,
        align_corners=given.AlignCorners(), half_pixel=given.HalfPixelCenters(), name=call.name,
    )  # fmt: skip


def _padding(given: object) -> Padding:
    code = given.Padding()  # type: ignore[attr-defined]
    if code not in PADDINGS:
        raise Refusal(f"padding {code} is not supported")
    return PADDINGS[code]
