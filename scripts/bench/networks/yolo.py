# SPDX-License-Identifier: Apache-2.0
"""YOLOv3 (Redmon and Farhadi, arXiv 1804.02767): Darknet-53 and three heads."""

import onnx

from networks.builder import Builder

STAGES = ((1, 64), (2, 128), (8, 256), (8, 512), (4, 1024))
"""Residual blocks and their channels, behind a convolution with stride 2."""
HEADS = (512, 256, 128)
"""Channels inside each head, from the coarsest on."""
OUTPUTS = 255
"""Three boxes of 85 numbers."""
BRANCH_GAIN = 0.4


def yolov3(size: int = 416) -> onnx.ModelProto:
    """Return YOLOv3 as far as its three feature maps, without decoding of boxes."""
    net = Builder("yolov3", size)
    x = _conv(net, "image", 32, 3)
    stages = []
    for blocks, channels in STAGES:
        x = _conv(net, x, channels, 3, stride=2)
        for _ in range(blocks):
            y = _conv(net, x, channels // 2, 1)
            x = net.add(x, _conv(net, y, channels, 3, gain=BRANCH_GAIN))
        stages.append(x)
    outputs = []
    route = ""
    for head, (stage, channels) in enumerate(zip(reversed(stages), HEADS, strict=False)):
        x = stage
        if head:
            x = net.concat(net.upsample(_conv(net, route, channels, 1)), stage)
        for _ in range(2):
            x = _conv(net, _conv(net, x, channels, 1), 2 * channels, 3)
        route = _conv(net, x, channels, 1)
        x = _conv(net, route, 2 * channels, 3)
        outputs.append(net.conv(x, OUTPUTS, 1, act=""))
    return net.model(*outputs)


def _conv(
    net: Builder, x: str, channels: int, kernel: int, stride: int = 1, gain: float = 1.0
) -> str:
    return net.conv(x, channels, kernel, stride=stride, act="LeakyRelu", gain=gain)
