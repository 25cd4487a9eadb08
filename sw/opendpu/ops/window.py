# SPDX-License-Identifier: Apache-2.0
"""Sliding windows: kernel, stride, dilation and padding of convolutions and pooling."""

from typing import Any

from opendpu.ir import Node

Pair = tuple[int, int]
"""Width first, as in XIR's attributes."""


def pixel_window() -> dict[str, Any]:
    """Return the attributes of a window op that looks at one pixel, and gives one."""
    return {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}


def pair(node: Node, key: str) -> Pair:
    """Return an attribute for width and height; 1 where there is none."""
    values = node.attrs.get(key) or (1, 1)
    return int(values[0]), int(values[1])


def extent(node: Node) -> Pair:
    """Return rows and columns that a kernel covers, dilation counted."""
    (gap_w, gap_h), (width, height) = pair(node, "dilation"), pair(node, "kernel")
    return (height - 1) * gap_h + 1, (width - 1) * gap_w + 1


def explicit_pad(node: Node, shape: tuple[int, ...]) -> list[int]:
    """Return left, right, top and bottom padding of a window op with any ``pad_mode``.

    FLOOR and VALID round the size of the result down, CEIL up; SAME divides the input by the
    stride and pads what that needs, more of it behind. ``shape`` is that of the input, NHWC.
    """
    pad = [int(p) for p in node.attrs.get("pad") or (0, 0, 0, 0)]
    mode = str(node.attrs.get("pad_mode", "FLOOR")).upper()
    if mode not in ("SAME", "CEIL"):
        return pad
    covered = extent(node)[::-1]
    for axis, size in ((0, shape[2]), (1, shape[1])):
        stride = pair(node, "stride")[axis]
        total = size + pad[2 * axis] + pad[2 * axis + 1]
        if mode == "SAME":
            missing = max(0, (-(-total // stride) - 1) * stride + covered[axis] - total)
            before = missing // 2
        else:
            steps = -(-(total - covered[axis]) // stride)
            missing = max(0, steps * stride + covered[axis] - total)
            before = 0
        pad[2 * axis] += before
        pad[2 * axis + 1] += missing - before
    return pad


def transposed_pad(node: Node) -> list[int]:
    """Return left, right, top and bottom padding of a transposed convolution: results cut off."""
    mode = str(node.attrs.get("pad_mode", "FLOOR")).upper()
    if mode == "VALID":
        return [0, 0, 0, 0]
    if mode != "SAME":
        return [int(p) for p in node.attrs.get("pad") or (0, 0, 0, 0)]
    pad = []
    for kernel, stride in zip(pair(node, "kernel"), pair(node, "stride"), strict=True):
        total = kernel - stride
        pad += [total // 2, total - total // 2]
    return pad


def whole_window(node: Node, shape: tuple[int, ...]) -> tuple[Pair, Pair, list[int]]:
    """Return kernel, stride and padding of a pool; those of a global one cover the map."""
    if node.attrs.get("global"):
        return (shape[2], shape[1]), (shape[2], shape[1]), [0, 0, 0, 0]
    return pair(node, "kernel"), pair(node, "stride"), explicit_pad(node, shape)


def onnx_window(kernel: Pair, stride: Pair, pad: list[int], dilation: Pair) -> dict[str, Any]:
    """Return ONNX's attributes of a window: height first, pads of all beginnings first."""
    left, right, top, bottom = pad
    return {
        "kernel_shape": [kernel[1], kernel[0]], "strides": [stride[1], stride[0]],
        "pads": [top, left, bottom, right], "dilations": [dilation[1], dilation[0]],
    }  # fmt: skip


def reaching_pad(node: Node, kernel: Pair, shape: tuple[int, ...]) -> list[int]:
    """Return the padding with which a window makes as many rows and columns as the result has.

    Files give the size of a result beside attributes that may say less: rounding up, say.
    """
    pad = explicit_pad(node, shape)
    stride, gaps = pair(node, "stride"), pair(node, "dilation")
    for axis, size, made in ((0, shape[2], node.shape[2]), (1, shape[1], node.shape[1])):
        covered = (made - 1) * stride[axis] + (kernel[axis] - 1) * gaps[axis] + 1
        pad[2 * axis + 1] = max(0, covered - size - pad[2 * axis])
    return pad
