# SPDX-License-Identifier: Apache-2.0
"""Sums of pixels, each times a number of its own, as products of two feature maps.

Attention pools a map so: a softmax over all pixels gives each one a weight, the map times these is
summed up. As ``[1, pixels] x [pixels, channels]`` it is one product, added in the array, where the
DPU has neither a product with one number a pixel nor a sum over so many.
"""

import math

from opendpu.ir import Graph, Node
from opendpu.quantize.transforms.parts import Parts

WEIGHTED = ("mul", "reduction_sum")


def weighted_sums(graph: Graph) -> None:
    """Rewrite such sums, in place."""
    users = graph.consumer_map()
    for node in list(graph):
        if node.kind != WEIGHTED[1]:
            continue
        product = graph[node.inputs["input"][0]]
        if product.kind != WEIGHTED[0] or len(users[product.name]) > 1:
            continue
        pair = _weights_and_map(graph, product)
        if (
            pair is not None
            and product.name not in graph.outputs
            and _is_over_pixels(node, product)
        ):
            _multiply(graph, node, *pair)
    graph.sort()
    graph.prune()


def _weights_and_map(graph: Graph, product: Node) -> tuple[Node, Node] | None:
    """Return the operand with one number a pixel, and the one with all channels."""
    operands = [graph[name] for name in product.inputs["input"]]
    if len(operands) != 2 or any(one.value is not None for one in operands):
        return None
    shape = product.shape
    for weights, whole in (operands, operands[::-1]):
        if whole.shape == shape and weights.shape == (*shape[:-1], 1) and shape[-1] > 1:
            return weights, whole
    return None


def _is_over_pixels(node: Node, product: Node) -> bool:
    """Return whether a sum is over all axes but those of samples and channels."""
    rank = len(product.shape)
    axes = {int(axis) % rank for axis in node.attrs["axis"]}
    long = {axis for axis, size in enumerate(product.shape[:-1]) if size > 1}
    return product.shape[0] == 1 and bool(long) and long <= axes and rank - 1 not in axes


def _multiply(graph: Graph, node: Node, weights: Node, whole: Node) -> None:
    """Make a sum the reshaped product of weights and map."""
    parts = Parts(graph, node)
    channels, pixels = whole.shape[-1], math.prod(whole.shape[:-1])
    row = parts.reshaped("weights", weights.name, (1, 1, pixels))
    rows = parts.reshaped("pixels", whole.name, (1, pixels, channels))
    attrs = {"transpose_a": False, "transpose_b": False}
    made = parts.add("product", "matmul", (1, 1, channels), [row, rows], attrs)
    node.kind, node.inputs = "reshape", {"input": [made]}
    node.attrs = {"shape": list(node.shape)}
