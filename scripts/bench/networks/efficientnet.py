# SPDX-License-Identifier: Apache-2.0
"""EfficientNet-B0 (Tan and Le, arXiv 1905.11946): SiLU, and squeeze and excitation everywhere."""

import onnx

from networks.builder import Builder

STAGES = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
          (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3))  # fmt: skip
"""Expansion, channels, blocks, first stride and kernel of each stage."""
SQUEEZE = 4
"""Channels of a block's input, by those that its excitation squeezes to."""


def excited(net: Builder, x: str, squeezed: int, act: str = "Silu", gate: str = "Sigmoid") -> str:
    """Multiply each channel with what a small network makes of all channels' averages."""
    channels = net.shapes[x][0]
    y = net.conv(net.global_average(x), squeezed, 1, act=act)
    return net.node("Mul", [x, net.conv(y, channels, 1, act=gate)], net.shapes[x])


def efficientnetb0(size: int = 224) -> onnx.ModelProto:
    """Return EfficientNet-B0."""
    net = Builder("efficientnetb0", size)
    x = net.conv("image", 32, 3, stride=2, act="Silu")
    for expansion, channels, blocks, first, kernel in STAGES:
        for block in range(blocks):
            stride = 1 if block else first
            inputs = net.shapes[x][0]
            width = expansion * inputs
            y = net.conv(x, width, 1, act="Silu", gain=0.7) if expansion > 1 else x
            y = net.conv(y, width, kernel, stride=stride, group=width, act="Silu")
            y = excited(net, y, inputs // SQUEEZE)
            y = net.conv(y, channels, 1, act="", gain=1.2 if block else 2.0)
            x = net.add(x, y) if stride == 1 and inputs == channels else y
    x = net.conv(x, 1280, 1, act="Silu", gain=0.7)
    return net.model(net.dense(net.global_average(x), 1000))
