# SPDX-License-Identifier: Apache-2.0
"""MobileNetV1 (Howard et al., arXiv 1704.04861) and V2 (Sandler et al., arXiv 1801.04381)."""

import onnx

from networks.builder import Builder

V1 = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2),
      (1024, 1))  # fmt: skip
"""Channels and stride of each pair of a depthwise and a pointwise convolution."""

V2 = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
      (6, 320, 1, 1))  # fmt: skip
"""Expansion, channels, blocks and first stride of each stage."""


def mobilenetv1(size: int = 224) -> onnx.ModelProto:
    """Return MobileNetV1 with width 1.0."""
    net = Builder("mobilenetv1", size)
    x = net.conv("image", 32, 3, stride=2, act="Relu6")
    for channels, stride in V1:
        width = net.shapes[x][0]
        x = net.conv(x, width, 3, stride=stride, group=width, act="Relu6")
        x = net.conv(x, channels, 1, act="Relu6")
    return net.model(net.dense(net.global_average(x), 1000))


def mobilenetv2(size: int = 224) -> onnx.ModelProto:
    """Return MobileNetV2 with width 1.0."""
    net = Builder("mobilenetv2", size)
    x = net.conv("image", 32, 3, stride=2, act="Relu6")
    for expansion, channels, blocks, first in V2:
        for block in range(blocks):
            stride = first if not block else 1
            inputs = net.shapes[x][0]
            width = expansion * inputs
            y = net.conv(x, width, 1, act="Relu6", gain=0.7) if expansion > 1 else x
            y = net.conv(y, width, 3, stride=stride, group=width, act="Relu6")
            y = net.conv(y, channels, 1, act="", gain=0.7 if block else 1.0)
            x = net.add(x, y) if stride == 1 and inputs == channels else y
    x = net.conv(x, 1280, 1, act="Relu6", gain=0.7)
    return net.model(net.dense(net.global_average(x), 1000))
