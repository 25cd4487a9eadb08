# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pools, products of matrices, normalization, resizing."""

import numpy as np

from opendpu.frontend.channels_last import arithmetic, convolution, shaping
from opendpu.frontend.channels_last.axes import known_shape, ordered, reshaped
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.tensorflow.registry import Call, handles


@handles("Conv2D", "Conv3D")
def conv(call: Call) -> str:
    """Weights are HWIO, or DHWIO."""
    return call.back(convolution.conv(
        call.b, call.feature(), _weights(call, call.input(1)), name=call.name,
        padding=call.padding(), stride=call.spatial("strides"), dilation=call.spatial("dilations"),
    ))  # fmt: skip


@handles("DepthwiseConv2dNative")
def depthwise_conv(call: Call) -> str:
    """Weights are ``[H, W, C, M]``."""
    return call.back(convolution.conv(
        call.b, call.feature(), convolution.depthwise_weights(call.b, call.input(1)),
        name=call.name, padding=call.padding(), stride=call.spatial("strides"),
        dilation=call.spatial("dilations"),
    ))  # fmt: skip


@handles("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def transposed_conv(call: Call) -> str:
    """Inputs are the shape of the result, weights HWOI or DHWOI, and the feature map."""
    size = call.integers(0, "sizes")
    made = convolution.transposed_conv(
        call.b, call.feature(2), _weights(call, call.input(1)), name=call.name,
        size=size[2:] if call.first else size[1:-1], padding=call.padding(),
        stride=call.spatial("strides"), dilation=call.spatial("dilations"),
    )  # fmt: skip
    return call.back(made)


def _weights(call: Call, weights: str) -> str:
    """Return weights with the axes in ONNX's order, the places of a kernel last."""
    rank = len(known_shape(call.b, weights))
    return ordered(call.b, weights, (rank - 1, rank - 2, *range(rank - 2)))


@handles("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D")
def pool(call: Call) -> str:
    """Padding does not count in means."""
    kind = "MaxPool" if call.node.op.startswith("MaxPool") else "AveragePool"
    return call.back(convolution.pool(
        call.b, kind, call.feature(), name=call.name, kernel=call.spatial("ksize"),
        stride=call.spatial("strides"), padding=call.padding(),
    ))  # fmt: skip


@handles("MatMul")
def matmul(call: Call) -> str:
    """Products of two matrices, either of which may be transposed."""
    one = arithmetic.matrix(call.b, call.input(0), transpose=call.attr("transpose_a", False))
    other = arithmetic.matrix(call.b, call.input(1), transpose=call.attr("transpose_b", False))
    return call.emit("MatMul", one, other)


@handles("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(call: Call) -> str:
    """Products of matrices, either of which may be transposed."""
    one = arithmetic.matrix(call.b, call.input(0), transpose=call.attr("adj_x", False))
    other = arithmetic.matrix(call.b, call.input(1), transpose=call.attr("adj_y", False))
    return call.emit("MatMul", one, other)


@handles("BiasAdd", "BiasAddV1")
def bias_add(call: Call) -> str:
    """One number a channel."""
    bias, rank = call.input(1), len(known_shape(call.b, call.x))
    if call.first and rank > 2:
        bias = reshaped(call.b, bias, (-1, *[1] * (rank - 2)))
    return call.emit("Add", call.x, bias)


@handles("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_normalization(call: Call) -> list[str]:
    """With known statistics; other results are for training."""
    if call.attr("is_training", True):
        raise Refusal("it is in training mode: export the model for inference")
    made = arithmetic.batch_normalization(
        call.b, call.feature(), [call.input(i) for i in range(1, 5)],
        call.attr("epsilon", 1e-4), name=call.name,
    )  # fmt: skip
    return [call.back(made)]


@handles("LRN")
def local_response_normalization(call: Call) -> str:
    """Over neighbouring channels."""
    size = 2 * call.attr("depth_radius", 5) + 1
    return arithmetic.local_response(
        call.b, call.x, size, call.attr("bias", 1.0), call.attr("alpha", 1.0),
        call.attr("beta", 0.5), name=call.name,
    )  # fmt: skip


@handles("ResizeBilinear", "ResizeNearestNeighbor")
def resize(call: Call) -> str:
    """The second input is the size, rows first."""
    return arithmetic.resize(
        call.b, call.x, call.integers(1, "sizes"), linear=call.node.op == "ResizeBilinear",
        align_corners=call.attr("align_corners", False),
        half_pixel=call.attr("half_pixel_centers", False), name=call.name,
    )  # fmt: skip


@handles("DepthToSpace", "SpaceToDepth")
def blocks(call: Call) -> str:
    """Channels and blocks of pixels."""
    return call.back(
        shaping.blocks(
            call.b, call.node.op, call.feature(), call.attr("block_size"), name=call.name
        )
    )


@handles("SpaceToBatchND")
def space_to_batch(call: Call) -> str:
    """Blocks of pixels move into the batch."""
    block, pads = call.integers(1, "blocks"), call.constant(2, "pads")
    return shaping.space_to_batch(call.b, call.x, block, pads, name=call.name)


@handles("BatchToSpaceND")
def batch_to_space(call: Call) -> str:
    """The batch becomes blocks of pixels; around a convolution both mean a dilation."""
    block, crops = call.integers(1, "blocks"), call.constant(2, "crops")
    made = _dilated(call, block, crops.astype(np.int64))
    if made is not None:
        return made
    return shaping.batch_to_space(call.b, call.x, block, crops, name=call.name)


_CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")


def _dilated(call: Call, block: list[int], crops: np.ndarray) -> str | None:
    """Return a dilated convolution, where that is what three nodes are."""
    inner = call.producer(0)
    if inner is None or inner.op not in _CONVOLUTIONS or inner.attr("padding") != "VALID":
        return None
    before = call.nodes.get(inner.inputs[0].partition(":")[0])
    strides = inner.attr("strides")
    if before is None or before.op != "SpaceToBatchND" or set(strides) != {1} or len(block) != 2:
        return None
    given = [call.b.value(call.lookup(before.inputs[i])) for i in (1, 2)]
    if given[0] is None or given[1] is None or given[0].tolist() != block:
        return None
    pads = given[1].astype(np.int64) - crops
    if pads.min() < 0:
        return None
    weights = call.lookup(inner.inputs[1])
    if inner.op == "Conv2D":
        weights = _weights(call, weights)
    else:
        weights = convolution.depthwise_weights(call.b, weights)
    (top, bottom), (left, right) = pads.tolist()
    return convolution.conv(
        call.b, call.lookup(before.inputs[0]), weights, name=call.name,
        padding=((top, bottom), (left, right)), dilation=block,
    )  # fmt: skip
