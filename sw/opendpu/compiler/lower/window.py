# SPDX-License-Identifier: Apache-2.0
"""Windows of convolutions and pooling."""

import numpy as np

from opendpu.compiler.constraints import extent
from opendpu.compiler.layers import Int8Array, Window
from opendpu.ir import Node


def window_of(node: Node) -> Window:
    """Return the window of an op, dilation counted."""
    rows, columns = extent(node)
    left, _, top, _ = (int(p) for p in node.attrs["pad"])
    stride_w, stride_h = (int(s) for s in node.attrs["stride"])
    return Window(
        kernel_h=rows, kernel_w=columns, stride_h=stride_h, stride_w=stride_w,
        pad_top=top, pad_left=left,
    )  # fmt: skip


def dilate(weights: Int8Array, node: Node) -> Int8Array:
    """Return OHWI weights with the zeros that a dilation leaves between the taps."""
    gap_w, gap_h = (int(d) for d in node.attrs.get("dilation") or (1, 1))
    if gap_w == gap_h == 1:
        return weights
    outputs, _, _, inputs = weights.shape
    dilated = np.zeros((outputs, *extent(node), inputs), dtype=np.int8)
    dilated[:, ::gap_h, ::gap_w] = weights
    return dilated
