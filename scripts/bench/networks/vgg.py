# SPDX-License-Identifier: Apache-2.0
"""VGG (Simonyan and Zisserman, arXiv 1409.1556), configuration D."""

import onnx

from networks.builder import Builder

STAGES = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))
"""Convolutions and their channels in front of each pooling."""


def vgg16(size: int = 224) -> onnx.ModelProto:
    """Return VGG-16."""
    net = Builder("vgg16", size)
    x = "image"
    for count, channels in STAGES:
        for _ in range(count):
            x = net.conv(x, channels, 3)
        x = net.pool(x, "MaxPool", 2, 2)
    x = net.dense(net.dense(x, 4096, "Relu"), 4096, "Relu")
    return net.model(net.dense(x, 1000))
