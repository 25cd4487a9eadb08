# SPDX-License-Identifier: Apache-2.0
"""Super-resolution of the luminance by three: ESPCN (Shi et al., arXiv 1609.05158) and FSRCNN
(Dong et al., arXiv 1608.00367)."""

import onnx

from networks.builder import Builder

SCALE = 3


def espcn(size: int = 160) -> onnx.ModelProto:
    """Return ESPCN: tanh, and channels that become pixels."""
    net = Builder("espcn", (1, size, size))
    x = net.conv("image", 64, 5, act="Tanh", gain=0.7)
    x = net.conv(net.conv(x, 32, 3, act="Tanh", gain=0.7), SCALE**2, 3, act="", gain=0.7)
    shape = (1, SCALE * size, SCALE * size)
    return net.model(net.node("DepthToSpace", [x], shape, blocksize=SCALE, mode="CRD"))


def fsrcnn(size: int = 160) -> onnx.ModelProto:
    """Return FSRCNN (56, 12, 4): PReLU, and a transposed convolution in the end."""
    net = Builder("fsrcnn", (1, size, size))
    x = net.conv("image", 56, 5, act="PRelu")
    x = net.conv(x, 12, 1, act="PRelu")
    for _ in range(4):
        x = net.conv(x, 12, 3, act="PRelu")
    x = net.conv(x, 56, 1, act="PRelu")
    return net.model(net.upconv(x, 1, 9, SCALE, act=""))
