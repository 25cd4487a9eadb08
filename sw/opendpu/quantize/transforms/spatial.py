# SPDX-License-Identifier: Apache-2.0
"""Spatial attention: one number a pixel, made of its channels and multiplied with all of them.

The DPU has neither means and sums over channels nor products that repeat one channel; as
convolutions of one pixel it has both. Numbers are repeated by weights of one, which are exact in
eight bits; so are sums, and means of as many channels as a power of two says.
"""

from collections.abc import Collection

import numpy as np

from opendpu.ir import Array, Graph, Node
from opendpu.ops.window import pixel_window
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.placement.groups import Demands
from opendpu.quantize.placement.place import place
from opendpu.quantize.placement.tables import tabulated

RANK, CHANNELS = 4, 3
REDUCTIONS = ("reduction_mean", "reduction_sum")
REPEATING = ("add", "mul")
VIEWS = ("reshape", "squeeze")


def attend(graph: Graph, config: QuantizeConfig, demands: Demands | None = None) -> bool:
    """Rewrite what the DPU then computes, in place; tell whether there was any.

    What stays in float by ``config`` or ``demands`` stays as it is.
    """
    reduced = [node for node in graph if node.kind in REDUCTIONS and _is_of_channels(graph, node)]
    repeating = [node for node in graph if node.kind in REPEATING and _has_thin(graph, node)]
    if not reduced and not repeating:
        return False
    floating = place(graph, config, demands).floating
    tables = {name for one in tabulated(graph, config.target) for name in one.nodes}
    reduced = [node for node in reduced if _is_between(graph, node, floating, tables)]
    repeating = [node for node in repeating if node.name not in floating]
    for node in reduced:
        _reduce(graph, node)
    for node in repeating:
        _repeat(graph, node)
    graph.sort()
    return bool(reduced or repeating)


def _is_of_channels(graph: Graph, node: Node) -> bool:
    """Return whether an op reduces the channels of a map with several pixels."""
    shape = graph[node.inputs["input"][0]].shape
    axes = [int(axis) % len(shape) for axis in node.attrs["axis"]]
    return (
        len(shape) == RANK
        and axes == [CHANNELS]
        and node.shape == (1, *shape[1:CHANNELS], 1)
        and shape[1] * shape[2] > 1
    )


def _is_between(
    graph: Graph, node: Node, floating: Collection[str], tables: Collection[str]
) -> bool:
    """Return whether the DPU makes what an op reads, and computes something of its result.

    A function that has a table may be floating only because what it reads still is.
    """
    return node.inputs["input"][0] not in floating and any(
        name in tables or name not in floating for name in _readers(graph, node)
    )


def _readers(graph: Graph, node: Node) -> list[str]:
    """Return what reads a result, through views of it too."""
    found = []
    for user in graph.consumers(node.name):
        found += _readers(graph, user) if user.kind in VIEWS else [user.name]
    return found


def _reduce(graph: Graph, node: Node) -> None:
    """Make a reduction a convolution with one output channel."""
    (source,) = node.inputs["input"]
    channels = graph[source].shape[CHANNELS]
    factor = 1 / channels if node.kind == "reduction_mean" else 1.0
    weights = _weights(graph, node.name, np.full((1, 1, 1, channels), factor, np.float32))
    node.kind, node.attrs, node.reason = "conv2d", pixel_window(), ""
    node.inputs = {"input": [source], "weights": [weights]}


def _has_thin(graph: Graph, node: Node) -> bool:
    """Return whether one operand has one channel, and the others are as large as the result.

    Or have one pixel, which the DPU repeats: an outer product.
    """
    if len(node.shape) != RANK or node.shape[0] != 1 or node.shape[CHANNELS] == 1:
        return False
    shapes = [graph[name].shape for name in node.sources() if graph[name].value is None]
    others = shapes.count(node.shape) + shapes.count((1, 1, 1, node.shape[CHANNELS]))
    return shapes.count(_thin(node)) == 1 and 0 < others == len(node.sources()) - 1


def _thin(node: Node) -> tuple[int, ...]:
    return (*node.shape[:CHANNELS], 1)


def _repeat(graph: Graph, node: Node) -> None:
    """Give the operand of one channel those of the result."""
    (thin,) = (name for name in node.sources() if graph[name].shape == _thin(node))
    name = graph.unique(f"{node.name}_repeated")
    ones = np.ones((node.shape[CHANNELS], 1, 1, 1), np.float32)
    inputs = {"input": [thin], "weights": [_weights(graph, name, ones)]}
    graph.add(name, "conv2d", node.type, inputs, pixel_window(), origin=node.origin)
    node.inputs = {"input": [name if one == thin else one for one in node.sources()]}


def _weights(graph: Graph, name: str, value: Array) -> str:
    return graph.add_const(graph.unique(f"{name}_weights"), value).name
