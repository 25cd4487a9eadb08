# SPDX-License-Identifier: Apache-2.0
"""Permutations of channels, as ShuffleNet's shuffle, done by convolutions."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph, Node
from opendpu.ops import operator_of
from opendpu.ops.window import pixel_window
from opendpu.quantize.layers import bias_of, set_parameters

Order = npt.NDArray[np.int64]
LEAST_PARTS = 4
"""Parts of the channels from which on a convolution puts them together; fewer are moved."""


@dataclasses.dataclass(frozen=True)
class _Moved:
    """Channels of one map in another order, some of them perhaps left out or repeated."""

    source: str
    order: Order
    readers: frozenset[str]
    """Nodes that read the map for that."""


def permute(graph: Graph) -> None:
    """Replace what only moves the channels of a map, in place: reshape, transpose and reshape, or
    many parts of the channels that are joined, as indices take them.

    If nothing else uses the convolution before them, its output channels are permuted; one with
    groups becomes dense for that, which costs no more than one more convolution. Else a 1x1
    convolution with weights 0 and 1 does it, which adds no error.
    """
    users = graph.consumer_map()
    for node in graph:
        moved = _shuffled(graph, node) or _joined(graph, node, users)
        if moved is None:
            continue
        layer = _producer(graph, moved.source, set(moved.readers))
        if layer is not None and node.name not in graph.outputs:
            permuted = _dense(graph, layer)[moved.order].astype(np.float64)
            bias = bias_of(graph, layer)[moved.order]
            _widen(graph, moved, layer)
            set_parameters(graph, layer, permuted, bias)
            graph.replace(node.name, moved.source)
        else:
            channels = graph[moved.source].shape[-1]
            weights = np.eye(channels, dtype=np.float32)[moved.order][:, None, None, :]
            node.kind = "conv2d"
            node.inputs = {
                "input": [moved.source],
                "weights": [graph.add_const(f"{node.name}_order", weights).name],
            }
            node.attrs = pixel_window()
    graph.prune()
    graph.sort()


def _shuffled(graph: Graph, node: Node) -> _Moved | None:
    """Return which channel each channel of ``node`` is, if it permutes the channels of a map."""
    chain = [node]
    for kind in ("reshape", "transpose", "reshape"):
        if chain[-1].kind != kind:
            return None
        if chain[-1] is not node and (
            len(graph.consumers(chain[-1].name)) > 1 or chain[-1].name in graph.outputs
        ):
            return None
        chain.append(graph[chain[-1].inputs["input"][0]])
    _, transpose, inner, source = chain
    if source.shape != node.shape or len(node.shape) != 4 or source.kind == "const":
        return None
    axes = list(transpose.attrs["order"])
    lead = 0
    while math.prod(inner.shape[lead:]) > node.shape[-1]:
        lead += 1
    if math.prod(inner.shape[lead:]) != node.shape[-1] or axes[:lead] != list(range(lead)):
        return None
    channels = np.arange(node.shape[-1]).reshape(inner.shape[lead:])
    order = channels.transpose([axis - lead for axis in axes[lead:]]).ravel()
    return _Moved(source.name, order, frozenset({inner.name}))


def _joined(graph: Graph, node: Node, users: Mapping[str, Sequence[Node]]) -> _Moved | None:
    """Return which channels a concatenation joins, if these are many parts of one map."""
    if node.kind != "concat" or len(node.inputs["input"]) < LEAST_PARTS or len(node.shape) != 4:
        return None
    if int(node.attrs["axis"]) % len(node.shape) != len(node.shape) - 1:
        return None
    parts = [graph[name] for name in node.inputs["input"]]
    if any(part.kind != "strided_slice" or len(users[part.name]) > 1 for part in parts):
        return None
    (source, *others) = {part.inputs["input"][0] for part in parts}
    shape = graph[source].shape
    if others or shape[:-1] != node.shape[:-1] or shape[0] != 1:
        return None
    if any(part.name in graph.outputs or part.shape[:-1] != shape[:-1] for part in parts):
        return None
    channels = np.arange(shape[-1])
    order = np.concatenate([
        channels[part.attrs["begin"][-1] : part.attrs["end"][-1] : part.attrs["strides"][-1]]
        for part in parts
    ])  # fmt: skip
    return _Moved(source, order, frozenset(part.name for part in parts))


def _producer(graph: Graph, name: str, users: set[str]) -> Node | None:
    """Return the convolution whose result, but for channelwise ops, only ``users`` see."""
    while True:
        node = graph[name]
        if {n.name for n in graph.consumers(name)} != users or name in graph.outputs:
            return None
        if node.kind == "conv2d":
            return node
        if not operator_of(node).channelwise:
            return None
        name, users = node.inputs["input"][0], {name}


def _widen(graph: Graph, moved: _Moved, layer: Node) -> None:
    """Give what lies between a layer and a map so many channels as the layer then makes."""
    name = moved.source
    while True:
        node = graph[name]
        node.type = node.type.with_shape((*node.shape[:-1], moved.order.size))
        if node is layer:
            return
        name = node.inputs["input"][0]


def _dense(graph: Graph, layer: Node) -> npt.NDArray[np.float32]:
    """Return the weights of a convolution with one group; the layer has one from now on."""
    value = graph[layer.inputs["weights"][0]].value
    assert value is not None
    group = int(layer.attrs.pop("group", 1))
    if group == 1:
        return value
    outputs, inputs = value.shape[0] // group, value.shape[3]
    dense = np.zeros((*value.shape[:3], inputs * group), np.float32)
    for index in range(group):
        rows = slice(index * outputs, (index + 1) * outputs)
        dense[rows, ..., index * inputs : (index + 1) * inputs] = value[rows]
    return dense
