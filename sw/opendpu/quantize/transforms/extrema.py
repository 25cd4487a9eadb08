# SPDX-License-Identifier: Apache-2.0
"""Maxima and minima of feature maps, as pools of what lies side by side.

The misc engine compares the pixels of a window. Rows of maps one behind the other are a map of
which a window takes a row of each, which is exact. What is made of the halves of a layer's channels
(maxout, max feature maps of LightCNN) comes from a layer for each half then. A minimum is that of
maps times -1, times -1; these factors fold into layers, or are a depthwise convolution of one
pixel, where -1 is exact.
"""

import math
from collections.abc import Sequence

from opendpu.ir import Graph, Node
from opendpu.quantize.layers import bias_of, has_constant_weights, weights_of
from opendpu.quantize.transforms.map_operations import made_by, negated, rewritten

KINDS = ("max", "min")
MOVES = ("reshape", "strided_slice")
"""What takes a part of a map, or gives it another shape."""
MOST_MAPS = 8
"""Maps that are compared at once."""


def extrema(graph: Graph) -> bool:
    """Rewrite maxima and minima of what the DPU makes, in place; tell whether there were any."""
    return rewritten(graph, KINDS, _is_of_maps, _pool)


def _is_of_maps(graph: Graph, node: Node, floating: set[str]) -> bool:
    """Return whether all operands are of the size of the result, and made by the DPU."""
    operands = [graph[name] for name in node.inputs["input"]]
    if not 1 < len(operands) <= MOST_MAPS or len(node.shape) < 2 or node.shape[0] != 1:
        return False
    return all(
        one.value is None and one.shape == node.shape and made_by(graph, one, MOVES) not in floating
        for one in operands
    )


def _pool(graph: Graph, node: Node) -> None:
    """Make a node the reshaped pool of its operands."""
    names, count, channels = node.inputs["input"], len(node.inputs["input"]), node.shape[-1]
    _split(graph, names)
    if node.kind == "min":
        names = [negated(graph, node, name) for name in names]
    rows, width = math.prod(node.shape[:-2]), node.shape[-2] if len(node.shape) > 2 else 1
    tall = (1, rows, 1, width * channels)
    whole = graph.add(
        graph.unique(f"{node.name}_joined"), "concat", (1, rows, count, width * channels),
        {"input": [_reshaped(graph, node, name, tall) for name in names]}, {"axis": 2},
        origin=node.origin,
    ).name  # fmt: skip
    beside = _reshaped(graph, node, whole, (1, rows * count, width, channels))
    made = graph.add(
        graph.unique(f"{node.name}_pool"), "maxpool2d", (1, rows, width, channels),
        {"input": [beside]},
        {"kernel": [1, count], "stride": [1, count], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR",
         "global": False}, origin=node.origin,
    ).name  # fmt: skip
    if node.kind == "min":
        made = negated(graph, node, made)
    node.kind, node.inputs = "reshape", {"input": [made]}
    node.attrs = {"shape": list(node.shape)}


def _split(graph: Graph, names: Sequence[str]) -> None:
    """Let parts of a convolution's channels, which alone read it, be convolutions of their own."""
    for name in names:
        part = graph[name]
        if part.kind != "strided_slice":
            continue
        layer = graph[part.inputs["input"][0]]
        if layer.kind != "conv2d" or layer.name in graph.outputs:
            continue
        if int(layer.attrs.get("group") or 1) > 1 or not has_constant_weights(graph, layer):
            continue
        readers = graph.consumers(layer.name)
        if all(reader.name in names and _is_of_channels(reader, layer) for reader in readers):
            for reader in readers:
                _take_over(graph, reader, layer)


def _is_of_channels(part: Node, layer: Node) -> bool:
    """Return whether a part has all pixels, and channels that follow each other."""
    begin, end = part.attrs["begin"], part.attrs["end"]
    pixels = not any(begin[:-1]) and tuple(end[:-1]) == layer.shape[:-1]
    return pixels and set(part.attrs["strides"]) == {1}


def _take_over(graph: Graph, part: Node, layer: Node) -> None:
    """Make a part the convolution that gives its channels."""
    own = slice(part.attrs["begin"][-1], part.attrs["end"][-1])
    weights = graph.add_const(f"{part.name}_weights", weights_of(graph, layer)[own])
    bias = graph.add_const(f"{part.name}_bias", bias_of(graph, layer)[own])
    part.kind, part.attrs, part.origin = "conv2d", dict(layer.attrs), layer.origin
    part.inputs = {
        "input": layer.inputs["input"], "weights": [weights.name], "bias": [bias.name]
    }  # fmt: skip


def _reshaped(graph: Graph, node: Node, name: str, shape: tuple[int, ...]) -> str:
    return graph.add(
        graph.unique(f"{name}_of_{node.name}"), "reshape", shape, {"input": [name]},
        {"shape": list(shape)}, origin=node.origin,
    ).name  # fmt: skip
