# SPDX-License-Identifier: Apache-2.0
"""Constants of sums and products that repeat along some axes, written out.

The DPU has one constant a channel, or one an element; a bias for each place of a window, the same
for all windows, is the latter.
"""

import math

import numpy as np

from opendpu.ir import Graph, Node

KINDS = ("add", "mul")
LARGEST = 1 << 22
"""Elements of a constant that is written out."""


def spread(graph: Graph) -> None:
    """Let constants have the shape of the result where one a channel is not enough, in place."""
    for node in list(graph):
        if node.kind in KINDS and _is_of_one_map(graph, node):
            node.inputs = {
                arg: [_whole(graph, name, node.shape) for name in names]
                for arg, names in node.inputs.items()
            }
    graph.sort()
    graph.prune()


def _is_of_one_map(graph: Graph, node: Node) -> bool:
    """Return whether an op has one computed operand, of the shape of the result, and constants."""
    computed = [name for name in node.sources() if graph[name].value is None]
    return len(computed) == 1 and graph[computed[0]].shape == node.shape


def _whole(graph: Graph, name: str, shape: tuple[int, ...]) -> str:
    """Return an operand with all elements of a result, if it is a constant that needs them."""
    value = graph[name].value
    if value is None or value.shape == shape or value.size == math.prod(value.shape[-1:]):
        return name
    if graph[name].kind != "const" or math.prod(shape) > LARGEST:
        return name
    return graph.add_const(
        f"{name}_spread", np.ascontiguousarray(np.broadcast_to(value, shape))
    ).name
