# SPDX-License-Identifier: Apache-2.0
"""Convolutions with steps larger than instructions have, as ones of blocks of pixels.

Blocks of ``n`` by ``n`` pixels become channels of one, by ``gstiling``; a step is an ``n``-th then,
and so are the rows and columns of the kernel. Patches of spectra overlap so: 16x16 pixels, ten
apart. Patches that do not overlap are the compiler's (:mod:`opendpu.compiler.legalize.conv`).
"""

import math
from collections.abc import Collection, Mapping

import numpy as np

from opendpu.ir import Array, Graph, Node
from opendpu.ops.window import explicit_pad, pair
from opendpu.quantize.layers import has_constant_weights
from opendpu.quantize.transforms.wide_kernel import MOST_TAPS

MOST_STEPS = 8
"""Rows and columns from one result to the next, as the guide allows them."""
LANES = 16
"""Channels of a word, on most targets."""


def split_wide_strides(graph: Graph, floating: Collection[str] = ()) -> int:
    """Rewrite convolutions with wide steps, in place, but for ``floating`` ones; return how many.

    Each keeps its name.
    """
    wide = {
        node.name: block
        for node in graph
        if node.name not in floating and (block := _block(graph, node)) is not None
    }
    for name, block in wide.items():
        _rewrite(graph, graph[name], block)
    if wide:
        graph.sort()
    return len(wide)


def _block(graph: Graph, node: Node) -> int | None:
    """Return the pixels of a block, each way, with the fewest products; none if nothing helps."""
    if node.kind != "conv2d" or max(pair(node, "stride")) <= MOST_STEPS:
        return None
    stride, kernel = pair(node, "stride"), pair(node, "kernel")
    plain = has_constant_weights(graph, node) and pair(node, "dilation") == (1, 1)
    if not plain or int(node.attrs.get("group") or 1) != 1 or stride == kernel:
        return None
    channels = graph[node.inputs["input"][0]].shape[3]
    common = math.gcd(*stride)
    found = []
    for block in (n for n in range(2, common + 1) if common % n == 0):
        taps = [-(-size // block) for size in kernel]
        if max(stride) // block <= MOST_STEPS and max(taps) <= MOST_TAPS:
            found.append((math.prod(taps) * -(-channels * block**2 // LANES), block))
    return min(found)[1] if found else None


def _rewrite(graph: Graph, node: Node, block: int) -> None:
    (source,) = node.inputs["input"]
    shape, weights = graph[source].shape, graph[node.inputs["weights"][0]].value
    assert weights is not None
    pads = explicit_pad(node, shape)
    stride, kernel = pair(node, "stride"), pair(node, "kernel")
    taps = [-(-size // block) for size in kernel]
    blocks = [(node.shape[2 - n] - 1) * (stride[n] // block) + taps[n] for n in (0, 1)]
    source = _of_size(graph, node, source, pads, [n * block for n in blocks])
    tiled = (shape[0], blocks[1], blocks[0], shape[3] * block**2)
    source = _added(
        graph, node, "gstiling", tiled, source, {"stride": block, "reverse": False}
    )  # fmt: skip
    node.inputs["input"] = [source]
    made = _tiled(weights, taps[::-1], block)
    node.inputs["weights"] = [graph.add_const(graph.unique(f"{node.name}_tiled"), made).name]
    node.attrs = {
        **node.attrs, "kernel": list(taps), "stride": [n // block for n in stride],
        "pad": [0, 0, 0, 0], "pad_mode": "FLOOR",
    }  # fmt: skip


def _tiled(weights: Array, taps: list[int], block: int) -> Array:
    """Return weights OHWI of blocks: their channels are rows, columns and channels of a block."""
    outputs, *kernel, channels = weights.shape
    whole = np.zeros((outputs, *(n * block for n in taps), channels), weights.dtype)
    whole[:, : kernel[0], : kernel[1]] = weights
    apart = whole.reshape(outputs, taps[0], block, taps[1], block, channels)
    return np.ascontiguousarray(apart.transpose(0, 1, 3, 2, 4, 5)).reshape(outputs, *taps, -1)


def _of_size(
    graph: Graph, node: Node, source: str, pads: list[int], lengths: list[int]
) -> str:  # fmt: skip
    """Pad a map with zeros as the convolution does, and cut it to columns and rows in all."""
    batch, height, width, channels = graph[source].shape
    before = [pads[0], pads[2]]
    after = [
        max(0, length - size - first)
        for length, size, first in zip(lengths, (width, height), before, strict=True)
    ]
    if any(before) or any(after):
        amounts = [0, 0, before[1], after[1], before[0], after[0], 0, 0]
        height, width = height + before[1] + after[1], width + before[0] + after[0]
        attrs = {"paddings": amounts, "mode": "CONSTANT", "constant_values": [0.0] * 8}
        source = _added(graph, node, "pad", (batch, height, width, channels), source, attrs)
    if (width, height) != (lengths[0], lengths[1]):
        end = [batch, lengths[1], lengths[0], channels]
        attrs = {"begin": [0] * 4, "end": end, "strides": [1] * 4}
        source = _added(graph, node, "strided_slice", tuple(end), source, attrs)
    return source


def _added(
    graph: Graph, node: Node, kind: str, shape: tuple[int, ...], source: str,
    attrs: Mapping[str, object],
) -> str:  # fmt: skip
    name = graph.unique(f"{node.name}_{kind}")
    return graph.add(name, kind, shape, {"input": [source]}, attrs, origin=node.origin).name
