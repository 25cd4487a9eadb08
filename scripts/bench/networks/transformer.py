# SPDX-License-Identifier: Apache-2.0
"""ViT-Tiny (Dosovitskiy et al., arXiv 2010.11929; sizes of Touvron et al., arXiv 2012.12877),
Swin-T (Liu et al., arXiv 2103.14030) and ConvNeXt-T (Liu et al., arXiv 2201.03545)."""

import numpy as np
import onnx

from networks.attention import attention, layer_norm, linear, mlp
from networks.builder import Builder

REDUCTION = 32
"""Pixels of the input for one of the last stage of Swin, which has the size of a window."""
SWIN = ((2, 3), (2, 6), (6, 12), (2, 24))
"""Blocks and heads of each stage."""
FAR = -100.0
"""Added to scores of tokens that are no neighbours."""
CONVNEXT = (3, 3, 9, 3)
"""Blocks of each stage."""
WIDTH = 96


def vittiny(size: int = 224) -> onnx.ModelProto:
    """Return ViT-Ti/16."""
    return vit("vittiny", size, width=192, heads=3)


def vit(name: str, size: int = 224, *, width: int, heads: int, depth: int = 12) -> onnx.ModelProto:
    """Return a ViT/16 of some width, LayerNormalization as one operator."""
    net = Builder(name, size, opset=17)
    x = net.conv("image", width, 16, stride=16, pad=0, act="")
    channels, rows, columns = net.shapes[x]
    x = net.transpose(net.reshape(x, (channels, rows * columns)), 2, 1)
    x = net.concat(_parameter(net, (1, channels)), x)
    x = net.add(x, _parameter(net, net.shapes[x]))
    for _ in range(depth):
        x = net.add(x, attention(net, layer_norm(net, x), heads=heads))
        x = net.add(x, mlp(net, layer_norm(net, x)))
    first = net.node(
        "Gather", [layer_norm(net, x), net.constant(np.array(0, np.int64))], (channels,), axis=1
    )
    return net.model(net.dense(first, 1000))


def swintiny(size: int = 224) -> onnx.ModelProto:
    """Return Swin-T, LayerNorm in nine operators as before operator set 17."""
    net = Builder("swintiny", size)
    window = size // REDUCTION
    x = net.conv("image", WIDTH, 4, stride=4, pad=0, act="")
    x = layer_norm(net, net.transpose(x, 2, 3, 1))
    for stage, (blocks, heads) in enumerate(SWIN):
        if stage:
            x = _merged(net, x)
        for block in range(blocks):
            shift = window // 2 if block % 2 and net.shapes[x][0] > window else 0
            x = net.add(x, _windows(net, layer_norm(net, x), heads, window, shift))
            x = net.add(x, mlp(net, layer_norm(net, x)))
    x = net.transpose(layer_norm(net, x), 3, 1, 2)
    return net.model(net.dense(net.global_average(x), 1000))


def convnexttiny(size: int = 224) -> onnx.ModelProto:
    """Return ConvNeXt-T: LayerNorm and fully connected layers between transpositions."""
    net = Builder("convnexttiny", size, opset=17)
    x = _channels_first(net, net.conv("image", WIDTH, 4, stride=4, pad=0, act=""))
    for stage, blocks in enumerate(CONVNEXT):
        channels = WIDTH << stage
        if stage:
            x = net.conv(_channels_first(net, x), channels, 2, stride=2, pad=0, act="")
        for _ in range(blocks):
            y = net.conv(x, channels, 7, group=channels, act="")
            y = mlp(net, layer_norm(net, net.transpose(y, 2, 3, 1)))
            y = net.node("Mul", [y, net.constant(np.full(channels, 0.5))], net.shapes[y])
            x = net.add(x, net.transpose(y, 3, 1, 2))
    x = net.dense(_channels_first(net, net.global_average(x)), 1000)
    return net.model(x)


def _channels_first(net: Builder, x: str) -> str:
    """Normalize the channels of an image."""
    return net.transpose(layer_norm(net, net.transpose(x, 2, 3, 1)), 3, 1, 2)


def _parameter(net: Builder, shape: tuple[int, ...]) -> str:
    """Add learned values, with a batch."""
    name = net.draw((1, *shape), 0.5)
    net.shapes[name] = shape
    return name


def _merged(net: Builder, x: str) -> str:
    """Join squares of four tokens and halve their channels."""
    rows, columns, channels = net.shapes[x]
    parts = [
        net.slice(net.slice(x, [row], [rows], [1], [2]), [column], [columns], [2], [2])
        for column in (0, 1)
        for row in (0, 1)
    ]
    return linear(net, layer_norm(net, net.concat(*parts, axis=3)), 2 * channels)


def _windows(net: Builder, x: str, heads: int, window: int, shift: int) -> str:
    """Add attention inside windows, of an image that is rolled by ``shift``."""
    side, _, channels = net.shapes[x]
    count = side // window
    if shift:
        x = _rolled(net, x, shift)
    x = net.reshape(x, (count, window, count, window, channels))
    x = net.reshape(net.transpose(x, 1, 3, 2, 4, 5), (count * count, window**2, channels))
    bias = net.random.standard_normal((1, 1, heads, window**2, window**2), np.float32)
    if shift:
        bias = bias + _mask(side, window, shift)
    x = attention(net, x, heads, bias)
    x = net.reshape(x, (count, count, window, window, channels))
    x = net.reshape(net.transpose(x, 1, 3, 2, 4, 5), (side, side, channels))
    return _rolled(net, x, side - shift) if shift else x


def _rolled(net: Builder, x: str, shift: int) -> str:
    """Roll rows and columns, as torch exports it: slices that are joined the other way round."""
    side = net.shapes[x][0]
    for axis in (1, 2):
        rest = net.slice(x, [shift], [side], [axis], [1])
        x = net.concat(rest, net.slice(x, [0], [shift], [axis], [1]), axis=axis)
    return x


def _mask(side: int, window: int, shift: int) -> np.ndarray:
    """Return what keeps tokens apart that rolling made neighbours: [1, windows, 1, n, n]."""
    area = np.zeros(side, int)
    area[side - window : side - shift], area[side - shift :] = 1, 2
    regions = 3 * area[:, None] + area
    count = side // window
    cut = regions.reshape(count, window, count, window).swapaxes(1, 2).reshape(count**2, -1)
    return np.where(cut[:, :, None] == cut[:, None], 0.0, FAR)[None, :, None]
