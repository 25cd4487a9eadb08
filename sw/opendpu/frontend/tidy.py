# SPDX-License-Identifier: Apache-2.0
"""Small clean-ups of a freshly converted graph."""

import numpy as np

from opendpu.ir import Graph, Node
from opendpu.ops.window import extent

_PADDED = ("conv2d", "depthwise-conv2d")
_MAXIMA = "maxpool2d"
_LEAST = float(np.finfo(np.float32).min)
"""What is no larger than any number: padding with it, or minus infinity, hides from a maximum."""


def tidy(graph: Graph) -> None:
    """Merge padding into convolutions and pools, and chains of reshapes; drop what nobody uses.

    Padding that is as large as a kernel, as of 1x1 kernels, but no larger than the feature map, is
    an op of its own: the DPU has it only so.
    """
    graph.prune()
    graph.sort()
    for node in graph:
        if node.kind in _PADDED:
            _merge_pad(graph, node)
            _split_pad(graph, node)
        elif node.kind == _MAXIMA:
            _merge_pad(graph, node)
        elif node.kind == "reshape":
            _merge_reshape(graph, node)
    graph.sort()
    graph.prune()


def _merge_pad(graph: Graph, node: Node) -> None:
    pad = graph[node.inputs["input"][0]]
    if pad.kind != "pad" or pad.attrs["mode"] != "CONSTANT":
        return
    paddings = pad.attrs["paddings"]
    if not _is_no_value(node, pad) or any(paddings[:2]) or any(paddings[6:]):
        return
    top, bottom, left, right = paddings[2:6]
    old = node.attrs["pad"]
    merged = [old[0] + left, old[1] + right, old[2] + top, old[3] + bottom]
    if not any(_beyond_kernel(node, merged)):
        node.attrs["pad"] = merged
        node.inputs["input"] = list(pad.inputs["input"])


def _is_no_value(node: Node, pad: Node) -> bool:
    """Tell whether the results would be the same without what is padded: zero, or the least."""
    values = pad.attrs["constant_values"]
    return all(value <= _LEAST for value in values) if node.kind == _MAXIMA else not any(values)


def _beyond_kernel(node: Node, pad: list[int]) -> tuple[bool, bool]:
    """Tell of rows and columns whether a kernel's first or last place meets nothing but padding."""
    left, right, top, bottom = pad
    height, width = extent(node)
    return max(top, bottom) >= height, max(left, right) >= width


def _split_pad(graph: Graph, node: Node) -> None:
    rows, columns = _beyond_kernel(node, node.attrs["pad"])
    if not rows and not columns:
        return
    left, right, top, bottom = node.attrs["pad"]
    source = graph[node.inputs["input"][0]]
    if max(top, bottom) > source.shape[1] or max(left, right) > source.shape[2]:
        return
    amounts = [[0, 0], [top * rows, bottom * rows], [left * columns, right * columns], [0, 0]]
    shape = [size + sum(pair) for size, pair in zip(source.shape, amounts, strict=True)]
    attrs = {
        "paddings": [n for pair in amounts for n in pair], "mode": "CONSTANT",
        "constant_values": [0.0] * 8,
    }  # fmt: skip
    name = graph.unique(f"{node.name}_pad")
    graph.add(name, "pad", shape, {"input": [source.name]}, attrs, origin=node.origin)
    node.inputs["input"] = [name]
    node.attrs["pad"] = [
        left * (not columns), right * (not columns), top * (not rows), bottom * (not rows),
    ]  # fmt: skip


def _merge_reshape(graph: Graph, node: Node) -> None:
    before = graph[node.inputs["input"][0]]
    if before.kind == "reshape" and before.name not in graph.outputs:
        node.inputs["input"] = list(before.inputs["input"])
    source = node.inputs["input"][0]
    if graph[source].shape == node.shape and node.name not in graph.outputs:
        graph.replace(node.name, source)
