# SPDX-License-Identifier: Apache-2.0
"""YOLOX-Tiny (Ge et al., arXiv 2107.08430): focus, CSP blocks with SiLU, decoupled heads."""

import onnx

from networks.builder import Builder

WIDTH = 24
"""Channels behind the focus."""
CLASSES = 80
DEPTHS = (1, 3, 3, 1)
"""Bottlenecks of each stage."""
BRANCH_GAIN = 0.5


def yoloxtiny(size: int = 416) -> onnx.ModelProto:
    """Return YOLOX-Tiny with its output: boxes in cells and scores, by anchor."""
    net = Builder("yoloxtiny", size)
    x = _conv(net, _focus(net), WIDTH, 3)
    stages = []
    for stage, blocks in enumerate(DEPTHS):
        last = stage == len(DEPTHS) - 1
        channels = WIDTH << (stage + 1)
        x = _conv(net, x, channels, 3, 2)
        x = _csp(net, _pyramid(net, x) if last else x, channels, blocks, shortcut=not last)
        stages.append(x)
    _, fine, middle, coarse = stages
    lateral = _conv(net, coarse, 8 * WIDTH, 1)
    up = _csp(net, net.concat(net.upsample(lateral), middle), 8 * WIDTH, 1)
    reduced = _conv(net, up, 4 * WIDTH, 1)
    fine = _csp(net, net.concat(net.upsample(reduced), fine), 4 * WIDTH, 1)
    middle = _csp(net, net.concat(_conv(net, fine, 4 * WIDTH, 3, 2), reduced), 8 * WIDTH, 1)
    coarse = _csp(net, net.concat(_conv(net, middle, 8 * WIDTH, 3, 2), lateral), 16 * WIDTH, 1)
    heads = [_head(net, level) for level in (fine, middle, coarse)]
    return net.model(net.transpose(net.concat(*heads, axis=2), 2, 1))


def _conv(net: Builder, x: str, channels: int, kernel: int, stride: int = 1) -> str:
    return net.conv(x, channels, kernel, stride=stride, act="Silu")


def _focus(net: Builder) -> str:
    """Put each square of four pixels into the channels, by the slices that torch exports."""
    size = net.shapes["image"][1]
    parts = []
    for column in (0, 1):
        for row in (0, 1):
            y = net.slice("image", [row], [size], [2], [2])
            parts.append(net.slice(y, [column], [size], [3], [2]))
    return net.concat(*parts)


def _csp(net: Builder, x: str, channels: int, blocks: int, *, shortcut: bool = False) -> str:
    half = channels // 2
    y, beside = _conv(net, x, half, 1), _conv(net, x, half, 1)
    for _ in range(blocks):
        z = _conv(net, y, half, 1)
        z = net.conv(z, half, 3, act="Silu", gain=BRANCH_GAIN if shortcut else 1.0)
        y = net.add(z, y) if shortcut else z
    return _conv(net, net.concat(y, beside), channels, 1)


def _pyramid(net: Builder, x: str) -> str:
    """Join a feature map with its maxima over three windows."""
    channels = net.shapes[x][0]
    y = _conv(net, x, channels // 2, 1)
    parts = [y, *(net.pool(y, "MaxPool", k, 1, k // 2) for k in (5, 9, 13))]
    return net.conv(net.concat(*parts), channels, 1, act="Silu", gain=0.5)


def _head(net: Builder, x: str) -> str:
    """Return boxes, objectness and class scores of a level, flattened."""
    width = 4 * WIDTH
    stem = _conv(net, x, width, 1)
    score = _conv(net, _conv(net, stem, width, 3), width, 3)
    place = _conv(net, _conv(net, stem, width, 3), width, 3)
    box, thing = net.conv(place, 4, 1, act=""), net.conv(place, 1, 1, act="Sigmoid")
    joined = net.concat(box, thing, net.conv(score, CLASSES, 1, act="Sigmoid"))
    channels, height, columns = net.shapes[joined]
    return net.reshape(joined, (channels, height * columns))
