# SPDX-License-Identifier: Apache-2.0
"""Permutations of channels, as ShuffleNet's shuffle, done by convolutions."""

import math

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph, Node
from opendpu.ops import operator_of
from opendpu.ops.window import pixel_window
from opendpu.quantize.layers import bias_of, set_parameters

Order = npt.NDArray[np.int64]


def permute(graph: Graph) -> None:
    """Replace reshape, transpose and reshape where they only permute channels, in place.

    If nothing else uses the convolution before them, its output channels are permuted; one with
    groups becomes dense for that, which costs no more than one more convolution. Else a 1x1
    convolution with weights 0 and 1 does it, which adds no error.
    """
    for node in graph:
        order = _order(graph, node)
        if order is None:
            continue
        inner = graph[graph[node.inputs["input"][0]].inputs["input"][0]]
        source = inner.inputs["input"][0]
        layer = _producer(graph, source, inner.name)
        if layer is not None and node.name not in graph.outputs:
            weights = _dense(graph, layer)
            set_parameters(
                graph, layer, weights[order].astype(np.float64), bias_of(graph, layer)[order]
            )
            graph.replace(node.name, source)
        else:
            weights = np.eye(order.size, dtype=np.float32)[order][:, None, None, :]
            node.kind = "conv2d"
            node.inputs = {
                "input": [source],
                "weights": [graph.add_const(f"{node.name}_order", weights).name],
            }
            node.attrs = pixel_window()
    graph.prune()
    graph.sort()


def _order(graph: Graph, node: Node) -> Order | None:
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
    return channels.transpose([axis - lead for axis in axes[lead:]]).ravel()


def _producer(graph: Graph, name: str, user: str) -> Node | None:
    """Return the convolution whose result, but for channelwise ops, only ``user`` sees."""
    while True:
        node = graph[name]
        if [n.name for n in graph.consumers(name)] != [user] or name in graph.outputs:
            return None
        if node.kind == "conv2d":
            return node
        if not operator_of(node).channelwise:
            return None
        name, user = node.inputs["input"][0], name


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
