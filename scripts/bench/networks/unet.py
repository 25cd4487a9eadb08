# SPDX-License-Identifier: Apache-2.0
"""U-Net (Ronneberger et al., arXiv 1505.04597) of a quarter of the width, with padding."""

import onnx

from networks.builder import Builder

WIDTHS = (16, 32, 64, 128, 256)


def unet(size: int = 256) -> onnx.ModelProto:
    """Return a U-Net that tells two classes apart, upsampling by transposed convolutions."""
    net = Builder("unet", size)
    x = "image"
    kept = []
    for level, channels in enumerate(WIDTHS):
        if level:
            kept.append(x)
            x = net.pool(x, "MaxPool", 2, 2)
        x = net.conv(net.conv(x, channels, 3), channels, 3)
    for channels, beside in zip(reversed(WIDTHS[:-1]), reversed(kept), strict=True):
        x = net.concat(beside, net.upconv(x, channels, 2, 2, act=""))
        x = net.conv(net.conv(x, channels, 3), channels, 3)
    return net.model(net.conv(x, 2, 1, act=""))
