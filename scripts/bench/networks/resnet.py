# SPDX-License-Identifier: Apache-2.0
"""ResNet (He et al., arXiv 1512.03385) in the form called v1.5: strides in 3x3 convolutions."""

import onnx

from networks.builder import Builder

STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
"""Blocks and channels inside them."""
EXPANSION = 4
BRANCH_GAIN = 0.4
"""Scale of what a block adds, so that sixteen additions do not overflow."""


def resnet50(size: int = 224) -> onnx.ModelProto:
    """Return ResNet-50 v1.5."""
    net = Builder("resnet50", size)
    x = net.conv("image", 64, 7, stride=2)
    x = net.pool(x, "MaxPool", 3, 2, 1)
    for stage, (blocks, channels) in enumerate(STAGES):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = net.conv(x, channels, 1)
            y = net.conv(y, channels, 3, stride=stride)
            y = net.conv(y, EXPANSION * channels, 1, act="", gain=BRANCH_GAIN)
            if not block:
                x = net.conv(x, EXPANSION * channels, 1, stride=stride, act="")
            x = net.add(x, y, "Relu")
    return net.model(net.dense(net.global_average(x), 1000))
