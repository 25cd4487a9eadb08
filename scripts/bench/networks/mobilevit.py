# SPDX-License-Identifier: Apache-2.0
"""Networks like MobileViT-S (Mehta and Rastegari, arXiv 2110.02178): convolutions, and transformers
on patches of the feature map."""

import onnx

from networks.attention import attention, layer_norm, mlp
from networks.builder import Builder

PATCH = 2
"""Rows and columns of a patch; pixels at the same place of all patches are the tokens."""
STAGES = ((96, 144, 2), (128, 192, 4), (160, 240, 3))
"""Channels, width and depth of the transformers."""
EXPANSION = 4
HEADS = 4


def mobilevit(
    size: int = 256, stages: tuple[tuple[int, int, int], ...] = STAGES
) -> onnx.ModelProto:
    """Return a classifier with SiLU; LayerNormalization is one operator."""
    net = Builder("mobilevit", size, opset=17)
    x = _inverted(net, net.conv("image", 16, 3, stride=2, act="Silu"), 32)
    x = _inverted(net, x, 64, stride=2)
    x = _inverted(net, _inverted(net, x, 64), 64)
    for channels, width, depth in stages:
        x = _transformed(net, _inverted(net, x, channels, stride=2), width, depth)
    x = net.conv(x, 4 * net.shapes[x][0], 1, act="Silu")
    return net.model(net.dense(net.global_average(x), 1000))


def _inverted(net: Builder, x: str, channels: int, stride: int = 1) -> str:
    """Add an inverted residual block."""
    before = net.shapes[x][0]
    y = net.conv(x, EXPANSION * before, 1, act="Silu")
    y = net.conv(y, EXPANSION * before, 3, stride=stride, group=EXPANSION * before, act="Silu")
    y = net.conv(y, channels, 1, act="")
    return net.add(x, y) if stride == 1 and channels == before else y


def _transformed(net: Builder, x: str, width: int, depth: int) -> str:
    """Add a transformer between convolutions, and one that joins its result with its input."""
    channels, rows, columns = net.shapes[x]
    y = net.conv(net.conv(x, channels, 3, act="Silu"), width, 1, act="")
    down, across = rows // PATCH, columns // PATCH
    y = net.reshape(y, (width, down, PATCH, across, PATCH))
    y = net.reshape(net.transpose(y, 3, 5, 2, 4, 1), (PATCH**2, down * across, width))
    for _ in range(depth):
        y = net.add(y, attention(net, layer_norm(net, y), heads=HEADS))
        y = net.add(y, mlp(net, layer_norm(net, y), expansion=2))
    y = net.reshape(layer_norm(net, y), (PATCH, PATCH, down, across, width))
    y = net.reshape(net.transpose(y, 5, 3, 1, 4, 2), (width, rows, columns))
    y = net.conv(y, channels, 1, act="Silu")
    return net.conv(net.concat(x, y), channels, 3, act="Silu")
