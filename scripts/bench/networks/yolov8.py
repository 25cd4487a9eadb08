# SPDX-License-Identifier: Apache-2.0
"""YOLOv8n (Ultralytics): SiLU, split and joined bottlenecks, boxes as distributions."""

import math

import numpy as np
import onnx

from networks.builder import Builder

CLASSES = 80
BINS = 16
"""Bins of the distribution of each side of a box."""
STAGES = ((32, 1), (64, 2), (128, 2), (256, 1))
"""Channels and bottlenecks behind each convolution with stride 2."""
BRANCH_GAIN = 0.5


def yolov8n(size: int = 320) -> onnx.ModelProto:
    """Return YOLOv8n with its decoded output: boxes and scores by anchor."""
    net = Builder("yolov8n", size)
    x = _conv(net, "image", 16, 3, 2)
    found = []
    for channels, blocks in STAGES:
        x = _c2f(net, _conv(net, x, channels, 3, 2), channels, blocks, shortcut=True)
        found.append(x)
    _, small, middle, large = (*found[:3], _sppf(net, x))
    up = _c2f(net, net.concat(net.upsample(large), middle), 128, 1)
    fine = _c2f(net, net.concat(net.upsample(up), small), 64, 1)
    middle = _c2f(net, net.concat(_conv(net, fine, 64, 3, 2), up), 128, 1)
    large = _c2f(net, net.concat(_conv(net, middle, 128, 3, 2), large), 256, 1)
    heads = [_head(net, level) for level in (fine, middle, large)]
    return net.model(_decoded(net, heads, size))


def _conv(net: Builder, x: str, channels: int, kernel: int, stride: int = 1) -> str:
    return net.conv(x, channels, kernel, stride=stride, act="Silu")


def _c2f(net: Builder, x: str, channels: int, blocks: int, *, shortcut: bool = False) -> str:
    """Add bottlenecks whose results are all joined."""
    parts = net.split(_conv(net, x, channels, 1), 2)
    for _ in range(blocks):
        y = _conv(net, parts[-1], channels // 2, 3)
        y = net.conv(y, channels // 2, 3, act="Silu", gain=BRANCH_GAIN if shortcut else 1.0)
        parts.append(net.add(parts[-1], y) if shortcut else y)
    return _conv(net, net.concat(*parts), channels, 1)


def _sppf(net: Builder, x: str) -> str:
    """Join a feature map with its maxima over growing windows."""
    channels = net.shapes[x][0]
    parts = [_conv(net, x, channels // 2, 1)]
    for _ in range(3):
        parts.append(net.pool(parts[-1], "MaxPool", 5, 1, 2))
    return net.conv(net.concat(*parts), channels, 1, act="Silu", gain=0.5)


def _head(net: Builder, x: str) -> str:
    """Return distributions of boxes and class scores, flattened."""
    width = max(net.shapes[x][0], 64, CLASSES)
    box = _conv(net, _conv(net, x, 4 * BINS, 3), 4 * BINS, 3)
    score = _conv(net, _conv(net, x, width, 3), width, 3)
    both = net.concat(net.conv(box, 4 * BINS, 1, act=""), net.conv(score, CLASSES, 1, act=""))
    channels, height, columns = net.shapes[both]
    return net.reshape(both, (channels, height * columns))


def _decoded(net: Builder, heads: list[str], size: int) -> str:
    """Turn distributions into boxes in pixels, and scores into probabilities."""
    whole = net.concat(*heads, axis=2)
    count = net.shapes[whole][1]
    boxes = net.slice(whole, [0], [4 * BINS], [1], [1])
    scores = net.slice(whole, [4 * BINS], [4 * BINS + CLASSES], [1], [1])
    bins = net.transpose(net.reshape(boxes, (4, BINS, count)), 2, 1, 3)
    bins = net.node("Softmax", [bins], net.shapes[bins], axis=1)
    weights = net.constant(np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1))
    sides = net.node("Conv", [bins, weights], (1, 4, count), kernel_shape=[1, 1])
    sides = net.reshape(sides, (4, count))
    centers, strides = _anchors(size, [net.shapes[head][1] for head in heads])
    near = net.slice(sides, [0], [2], [1], [1])
    far = net.slice(sides, [2], [4], [1], [1])
    place = net.constant(centers)
    low = net.node("Sub", [place, near], (2, count))
    high = net.node("Add", [place, far], (2, count))
    middle = net.with_scalar("Div", net.add(low, high), 2.0)
    extent = net.node("Sub", [high, low], (2, count))
    box = net.node("Mul", [net.concat(middle, extent), net.constant(strides)], (4, count))
    return net.concat(box, net.node("Sigmoid", [scores], (CLASSES, count)))


def _anchors(size: int, counts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the centers of all cells in cells, [1, 2, n], and the pixels of a cell, [1, n]."""
    centers, strides = [], []
    for count in counts:
        side = math.isqrt(count)
        rows, columns = np.mgrid[:side, :side] + 0.5
        centers.append(np.stack([columns.ravel(), rows.ravel()]))
        strides.append(np.full(count, size / side))
    return np.concatenate(centers, 1)[None], np.concatenate(strides)[None]
