# SPDX-License-Identifier: Apache-2.0
"""Inception v3 (Szegedy et al., arXiv 1512.00567), without the auxiliary head."""

import onnx

from networks.builder import Builder


def inceptionv3(size: int = 299) -> onnx.ModelProto:
    """Return Inception v3."""
    net = Builder("inceptionv3", size)
    x = net.conv("image", 32, 3, stride=2, pad=0)
    x = net.conv(x, 32, 3, pad=0)
    x = net.conv(x, 64, 3)
    x = net.pool(x, "MaxPool", 3, 2)
    x = net.conv(x, 80, 1)
    x = net.conv(x, 192, 3, pad=0)
    x = net.pool(x, "MaxPool", 3, 2)
    for pooled in (32, 64, 64):
        x = _block_35(net, x, pooled)
    x = net.concat(
        net.conv(x, 384, 3, stride=2, pad=0),
        net.conv(net.conv(net.conv(x, 64, 1), 96, 3), 96, 3, stride=2, pad=0),
        net.pool(x, "MaxPool", 3, 2),
    )
    for inner in (128, 160, 160, 192):
        x = _block_17(net, x, inner)
    wide = net.conv(net.conv(net.conv(x, 192, 1), 192, (1, 7)), 192, (7, 1))
    x = net.concat(
        net.conv(net.conv(x, 192, 1), 320, 3, stride=2, pad=0),
        net.conv(wide, 192, 3, stride=2, pad=0),
        net.pool(x, "MaxPool", 3, 2),
    )
    for _ in range(2):
        x = _block_8(net, x)
    return net.model(net.dense(net.global_average(x), 1000))


def _pooled(net: Builder, x: str, channels: int) -> str:
    return net.conv(net.pool(x, "AveragePool", 3, 1, 1), channels, 1)


def _block_35(net: Builder, x: str, pooled: int) -> str:
    """Add the block for maps of 35x35."""
    return net.concat(
        net.conv(x, 64, 1),
        net.conv(net.conv(x, 48, 1), 64, 5),
        net.conv(net.conv(net.conv(x, 64, 1), 96, 3), 96, 3),
        _pooled(net, x, pooled),
    )


def _block_17(net: Builder, x: str, inner: int) -> str:
    """Add the block for maps of 17x17: kernels of 7x7 in two steps."""
    one = net.conv(net.conv(net.conv(x, inner, 1), inner, (1, 7)), 192, (7, 1))
    two = net.conv(x, inner, 1)
    for channels, kernel in ((inner, (7, 1)), (inner, (1, 7)), (inner, (7, 1)), (192, (1, 7))):
        two = net.conv(two, channels, kernel)
    return net.concat(net.conv(x, 192, 1), one, two, _pooled(net, x, 192))


def _block_8(net: Builder, x: str) -> str:
    """Add the block for maps of 8x8: branches that split once more."""
    one = net.conv(x, 384, 1)
    two = net.conv(net.conv(x, 448, 1), 384, 3)
    return net.concat(
        net.conv(x, 320, 1),
        net.concat(net.conv(one, 384, (1, 3)), net.conv(one, 384, (3, 1))),
        net.concat(net.conv(two, 384, (1, 3)), net.conv(two, 384, (3, 1))),
        _pooled(net, x, 192),
    )
