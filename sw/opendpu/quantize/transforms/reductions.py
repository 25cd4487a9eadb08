# SPDX-License-Identifier: Apache-2.0
"""Reductions over other axes than the last one, as what the DPU has: pools of a map.

A sum of few parts, as of a stack of maps, is that of their channels. Any other is the mean times
how many there are; the factor folds into a layer behind that alone reads the result, else it
becomes a depthwise convolution of one pixel. (A module that is trained with rounding has no such
mean inside of it, so that this is for targets with tables.) Where the axes are neither rows nor
columns of a map, or longer than a window, those ahead of them are joined with them to rows, of
which each window takes some, and those behind them to columns.
"""

import math

import numpy as np

from opendpu.ir import Graph, Node
from opendpu.quantize.transforms.rewrite import MAX_SIDE

POOLS = {"reduction_mean": "avgpool2d", "reduction_max": "maxpool2d"}
MOST_PARTS = 8
"""Parts whose channels are added, at most."""
RANK = 4
"""Axes of a map: batch, rows, columns, channels."""


def reduce_pixels(graph: Graph, *, sums: bool) -> None:
    """Rewrite such reductions, in place; ``sums`` says whether those of many parts, too."""
    for node in list(graph):
        if node.kind not in (*POOLS, "reduction_sum") or not _leaves_channels(graph, node):
            continue
        if node.kind == "reduction_sum" and _is_of_parts(graph, node):
            _add_parts(graph, node)
        elif sums or node.kind != "reduction_sum":
            mean = _mean(graph, node) if node.kind == "reduction_sum" else node
            if not _is_of_map(graph, mean):
                _pool(graph, mean)
    graph.sort()


def _leaves_channels(graph: Graph, node: Node) -> bool:
    """Return whether neighbouring axes are reduced that are neither batch nor channels."""
    shape, axes = graph[node.inputs["input"][0]].shape, _axes(graph, node)
    return (
        len(node.shape) == len(shape) > RANK - 2
        and shape[0] == 1
        and 0 < axes[0] <= axes[-1] < len(shape) - 1
        and axes == list(range(axes[0], axes[-1] + 1))
    )


def _axes(graph: Graph, node: Node) -> list[int]:
    rank = len(graph[node.inputs["input"][0]].shape)
    return sorted(int(axis) % rank for axis in node.attrs["axis"])


def _is_of_parts(graph: Graph, node: Node) -> bool:
    """Return whether a sum is over the axis ahead of the channels, which is short."""
    shape = graph[node.inputs["input"][0]].shape
    return _axes(graph, node) == [len(shape) - 2] and shape[-2] <= MOST_PARTS


def _add_parts(graph: Graph, node: Node) -> None:
    """Add channels: what lies ahead of the parts are pixels."""
    (source,) = node.inputs["input"]
    shape = graph[source].shape
    count, channels = shape[-2:]
    columns = shape[-3] if len(shape) > RANK - 1 else 1
    front = (1, math.prod(shape[1:-2]) // columns, columns)
    joined = _view(graph, node, source, (*front, count * channels))
    parts = [
        graph.add(
            graph.unique(f"{node.name}_part"), "strided_slice", (*front, channels),
            {"input": [joined]},
            {
                "begin": [0, 0, 0, part * channels], "end": [*front, (part + 1) * channels],
                "strides": [1, 1, 1, 1],
            }, origin=node.origin,
        ).name
        for part in range(count)
    ]  # fmt: skip
    total = graph.add(
        graph.unique(f"{node.name}_total"), "add", (*front, channels), {"input": parts},
        origin=node.origin,
    )  # fmt: skip
    node.kind, node.reason = "reshape", ""
    node.inputs, node.attrs = {"input": [total.name]}, {"shape": list(node.shape)}


def _view(graph: Graph, node: Node, source: str, shape: tuple[int, ...]) -> str:
    return graph.add(
        graph.unique(f"{node.name}_view"), "reshape", shape, {"input": [source]},
        {"shape": list(shape)}, origin=node.origin,
    ).name  # fmt: skip


def _mean(graph: Graph, node: Node) -> Node:
    """Make a sum a factor behind a mean, which is returned."""
    (source,) = node.inputs["input"]
    shape = graph[source].shape
    mean = graph.add(
        graph.unique(f"{node.name}_mean"), "reduction_mean", node.type, {"input": [source]},
        node.attrs, origin=node.origin,
    )  # fmt: skip
    count = math.prod(shape[axis] for axis in _axes(graph, node))
    factor = np.full(shape[-1], count, np.float32)
    node.kind, node.attrs, node.reason = "scale", {"axis": -1}, ""
    node.inputs = {
        "input": [mean.name],
        "scale": [graph.add_const(graph.unique(f"{node.name}_factor"), factor).name],
        "bias": [graph.add_const(graph.unique(f"{node.name}_offset"), np.zeros_like(factor)).name],
    }
    return mean


def _is_of_map(graph: Graph, node: Node) -> bool:
    """Return whether a reduction is over rows or columns of a map that a window has."""
    shape = graph[node.inputs["input"][0]].shape
    return len(shape) <= RANK and all(shape[axis] <= MAX_SIDE for axis in _axes(graph, node))


def _pool(graph: Graph, node: Node) -> None:
    """Make a reduction a pool between two views."""
    (source,) = node.inputs["input"]
    shape, axes = graph[source].shape, _axes(graph, node)
    ahead, behind = math.prod(shape[: axes[0]]), math.prod(shape[axes[-1] + 1 : -1])
    count = math.prod(shape[axis] for axis in axes)
    rows = _view(graph, node, source, (1, ahead * count, behind, shape[-1]))
    window = [1, count]
    attrs = {
        "kernel": window, "stride": window, "pad": [0, 0, 0, 0], "pad_mode": "FLOOR",
        "global": ahead == behind == 1,
    }  # fmt: skip
    pool = graph.add(
        graph.unique(f"{node.name}_pool"), POOLS[node.kind], (1, ahead, behind, shape[-1]),
        {"input": [rows]}, attrs, origin=node.origin,
    )  # fmt: skip
    node.kind, node.reason = "reshape", ""
    node.inputs, node.attrs = {"input": [pool.name]}, {"shape": list(node.shape)}
