# SPDX-License-Identifier: Apache-2.0
"""Differences of feature maps, as sums with a map times -1: the DPU adds, it does not subtract.

The factor folds into the layer that makes the second map if nobody else reads that, else it becomes
a depthwise convolution of one pixel. -1 is exact in eight bits.
"""

import numpy as np

from opendpu.ir import Graph, Node
from opendpu.quantize.transforms.map_operations import made_by, minus_one, negated, rewritten

RANK, LEAST_RANK = 4, 2
"""Axes of a feature map, and of features without space."""


def subtract(graph: Graph) -> bool:
    """Rewrite differences of what the DPU makes, in place; tell whether there were any."""
    return rewritten(graph, ("sub",), _is_on_maps, _add)


def _is_on_maps(graph: Graph, node: Node, floating: set[str]) -> bool:
    """Return whether the DPU makes what a difference is of, and could add it."""
    first, second = (graph[name] for name in node.inputs["input"])
    if second.value is not None or len(node.shape) < LEAST_RANK or node.shape[0] != 1:
        return False
    maps = [one for one in (first, second) if one.value is None]
    if any(made_by(graph, one, ("reshape",)) in floating for one in maps):
        return False
    return second.shape == node.shape or all(
        len(one.shape) == RANK and one.shape[-1] == node.shape[-1] for one in maps
    )


def _add(graph: Graph, node: Node) -> None:
    """Make a difference a sum, or one of a constant a channel what scales the map."""
    first, second = node.inputs["input"]
    channels = graph[second].shape[-1]
    value, whole = graph[first].value, graph[second].shape == node.shape
    if value is not None and whole and value.size in (1, value.shape[-1]):
        minus = minus_one(graph, node, channels)
        offset = np.broadcast_to(value.reshape(-1), (channels,)).astype(np.float32)
        bias = graph.add_const(graph.unique(f"{node.name}_offset"), offset)
        node.kind, node.attrs = "scale", {"axis": -1}
        node.inputs = {"input": [second], "scale": [minus], "bias": [bias.name]}
        return
    node.kind, node.inputs = "add", {"input": [first, negated(graph, node, second)]}
