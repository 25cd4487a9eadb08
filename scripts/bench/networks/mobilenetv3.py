# SPDX-License-Identifier: Apache-2.0
"""MobileNetV3-Large (Howard et al., arXiv 1905.02244), and DeepLabV3 (Chen et al., arXiv
1706.05587) behind it."""

import onnx

from networks.builder import Builder
from networks.efficientnet import excited

BLOCKS = (
    (3, 16, 16, False, "Relu", 1), (3, 64, 24, False, "Relu", 2), (3, 72, 24, False, "Relu", 1),
    (5, 72, 40, True, "Relu", 2), *[(5, 120, 40, True, "Relu", 1)] * 2,
    (3, 240, 80, False, "HardSwish", 2), (3, 200, 80, False, "HardSwish", 1),
    *[(3, 184, 80, False, "HardSwish", 1)] * 2, (3, 480, 112, True, "HardSwish", 1),
    (3, 672, 112, True, "HardSwish", 1), (5, 672, 160, True, "HardSwish", 2),
    *[(5, 960, 160, True, "HardSwish", 1)] * 2,
)  # fmt: skip
"""Kernel, channels inside, channels, whether it is excited, activation and stride of each block."""
DILATED = 12
"""First block that DeepLab dilates instead of halving the size."""
CLASSES = 21
RATES = (12, 24, 36)
"""Dilations of the pyramid."""


def mobilenetv3(size: int = 224) -> onnx.ModelProto:
    """Return MobileNetV3-Large, with HardSwish as TensorFlow's exporter writes it."""
    net = Builder("mobilenetv3", size)
    x = _features(net, {"HardSwish": "HardSwishTf"}, dilated=False)
    x = net.dense(net.global_average(x), 1280, "HardSwishTf")
    return net.model(net.dense(x, 1000))


def deeplabv3(size: int = 320) -> onnx.ModelProto:
    """Return DeepLabV3 with MobileNetV3-Large, HardSwish as one operator."""
    net = Builder("deeplabv3", size, opset=14)
    x = _features(net, {}, dilated=True)
    extent = net.shapes[x][1], net.shapes[x][2]
    parts = [net.conv(x, 256, 1)]
    parts += [net.conv(x, 256, 3, dilation=rate) for rate in RATES]
    parts.append(net.interpolate(net.conv(net.global_average(x), 256, 1), extent))
    y = net.conv(net.conv(net.concat(*parts), 256, 1), 256, 3)
    return net.model(net.interpolate(net.conv(y, CLASSES, 1, act=""), (size, size)))


def _features(net: Builder, spelled: dict[str, str], *, dilated: bool) -> str:
    """Add all blocks; ``spelled`` has other forms of activations."""
    swish = spelled.get("HardSwish", "HardSwish")
    x = net.conv("image", 16, 3, stride=2, act=swish)
    for number, (kernel, width, channels, excite, act, stride) in enumerate(BLOCKS):
        dilation = 2 if dilated and number >= DILATED else 1
        stride = 1 if dilation > 1 else stride
        act = spelled.get(act, act)
        inputs = net.shapes[x][0]
        y = net.conv(x, width, 1, act=act, gain=0.8) if width != inputs else x
        y = net.conv(y, width, kernel, stride=stride, group=width, dilation=dilation, act=act)
        if excite:
            y = excited(net, y, _divisible(width // 4), "Relu", "HardSigmoid")
        joined = stride == 1 and inputs == channels
        y = net.conv(y, channels, 1, act="", gain=(1.6 if excite else 1.0) * (0.6 if joined else 1))
        x = net.add(x, y) if joined else y
    return net.conv(x, 960, 1, act=swish, gain=0.8)


def _divisible(channels: int) -> int:
    """Return the next multiple of eight, or the one below if that is close."""
    near = (channels + 4) // 8 * 8
    return near if near >= 0.9 * channels else near + 8
