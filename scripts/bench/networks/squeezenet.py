# SPDX-License-Identifier: Apache-2.0
"""SqueezeNet (Iandola et al., arXiv 1602.07360), version 1.1."""

import onnx

from networks.builder import Builder

FIRES = (((16, 64), (16, 64)), ((32, 128), (32, 128)),
         ((48, 192), (48, 192), (64, 256), (64, 256)))  # fmt: skip
"""Channels of squeeze and of each expand convolution; a pooling in front of each group."""


def squeezenet(size: int = 224) -> onnx.ModelProto:
    """Return SqueezeNet 1.1."""
    net = Builder("squeezenet", size)
    x = net.conv("image", 64, 3, stride=2, pad=0)
    for group in FIRES:
        x = net.pool(x, "MaxPool", 3, 2, ceil=True)
        for squeeze, expand in group:
            x = net.conv(x, squeeze, 1)
            x = net.concat(net.conv(x, expand, 1), net.conv(x, expand, 3))
    return net.model(net.global_average(net.conv(x, 1000, 1)))
