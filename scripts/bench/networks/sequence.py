# SPDX-License-Identifier: Apache-2.0
"""Networks of sequences: CRNN (Shi et al., arXiv 1507.05717) for lines of text, M5 (Dai et al.,
arXiv 1610.00087) and a spectrogram network for sound."""

import math

import numpy as np
import onnx

from networks.builder import BIAS, Builder

HIDDEN = 256
"""Units of a recurrent layer, in each direction."""
CHARACTERS = 37
WORDS = 12
"""Words that a spectrogram network tells apart."""
FRAME, HOP, BANDS = 400, 160, 40
"""Samples of a frame and between frames, and bands of the mel scale."""
RATE = 16000
"""Samples a second, and those of the input."""


def crnn(width: int = 100) -> onnx.ModelProto:
    """Return CRNN for gray lines of 32 rows: convolutions, and two recurrent layers."""
    net = Builder("crnn", (1, 32, width))
    x = net.pool(net.conv("image", 64, 3), "MaxPool", 2, 2)
    x = net.pool(net.conv(x, 128, 3), "MaxPool", 2, 2)
    x = net.conv(net.conv(x, 256, 3), 256, 3)
    x = net.pool(x, "MaxPool", (2, 1), (2, 1))
    x = net.conv(net.conv(x, 512, 3), 512, 3)
    x = net.conv(net.pool(x, "MaxPool", (2, 1), (2, 1)), 512, 2, pad=0)
    channels, _, steps = net.shapes[x]
    x = net.node("Squeeze", [x, net.constant(np.array([2], np.int64))], (channels, steps))
    # From here on a batch of one is the second axis, as recurrent layers have it.
    x = net.node("Transpose", [x], (1, channels), perm=[2, 0, 1])
    for outputs in (HIDDEN, CHARACTERS):
        x = _recurrent(net, x, steps, outputs)
    net.shapes[x] = (steps, CHARACTERS)
    return net.model(net.node("Transpose", [x], (steps, CHARACTERS), perm=[1, 0, 2]))


def _recurrent(net: Builder, x: str, steps: int, outputs: int) -> str:
    """Add an LSTM of both directions and a fully connected layer."""
    inputs = net.shapes[x][-1]
    weights = [net.draw((2, 4 * HIDDEN, width), math.sqrt(1 / width)) for width in (inputs, HIDDEN)]
    y = net.node(
        "LSTM", [x, *weights, net.draw((2, 8 * HIDDEN), BIAS)], (2, 1, HIDDEN),
        hidden_size=HIDDEN, direction="bidirectional",
    )  # fmt: skip
    y = net.node("Transpose", [y], (1, 2, HIDDEN), perm=[0, 2, 1, 3])
    shape = net.constant(np.array([steps, 1, 2 * HIDDEN], np.int64))
    y = net.node("Reshape", [y, shape], (1, 2 * HIDDEN))
    y = net.node("MatMul", [y, net.draw((2 * HIDDEN, outputs), 0.1)], (1, outputs))
    return net.add(y, net.draw((outputs,), BIAS))


def m5(samples: int = 8000) -> onnx.ModelProto:
    """Return M5, convolutions of one dimension over the wave itself."""
    net = Builder("m5", (1, samples), source="wave")
    x = net.pool(net.conv("wave", 128, 80, stride=4, pad=0), "MaxPool", 4, 4)
    for channels in (128, 256, 512):
        x = net.pool(net.conv(x, channels, 3), "MaxPool", 4, 4)
    return net.model(net.dense(net.global_average(x), 10))


def logmelcnn(samples: int = RATE) -> onnx.ModelProto:
    """Return a network whose front end computes a mel spectrogram, then separable convolutions."""
    net = Builder("logmelcnn", (1, samples), source="wave")
    x = _log_mel(net)
    bands, frames = net.shapes[x]
    x = net.reshape(x, (1, bands, frames))
    x = net.conv(x, 64, (10, 4), stride=2, pad=(4, 1))
    for _ in range(4):
        x = net.conv(net.conv(x, 64, 3, group=64), 64, 1)
    return net.model(net.dense(net.global_average(x), WORDS))


def _log_mel(net: Builder) -> str:
    """Add a Fourier transform as a convolution, power, bands and logarithm."""
    count = FRAME // 2 + 1
    angle = 2 * np.pi / FRAME * np.outer(np.arange(count), np.arange(FRAME))
    kernel = np.concatenate([np.cos(angle), -np.sin(angle)]) * np.hanning(FRAME)
    kernel /= math.sqrt(FRAME)
    frames = (net.shapes["wave"][1] - FRAME) // HOP + 1
    y = net.node(
        "Conv", ["wave", net.constant(kernel[:, None])], (2 * count, frames),
        kernel_shape=[FRAME], strides=[HOP],
    )  # fmt: skip
    y = net.with_scalar("Pow", y, 2.0)
    power = net.add(
        net.slice(y, [0], [count], [1], [1]), net.slice(y, [count], [2 * count], [1], [1])
    )
    bands = net.node("MatMul", [net.constant(_mel(count)), power], (BANDS, frames))
    return net.node("Log", [net.with_scalar("Add", bands, 1e-2)], (BANDS, frames))


def _mel(count: int) -> np.ndarray:
    """Return triangles over the frequencies, evenly wide on the mel scale."""
    highest = 2595 * math.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, highest, BANDS + 2) / 2595) - 1)
    places = np.linspace(0, RATE / 2, count)
    rise = (places - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - places) / (edges[2:] - edges[1:-1])[:, None]
    return np.clip(np.minimum(rise, fall), 0, None)
