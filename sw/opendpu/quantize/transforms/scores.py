# SPDX-License-Identifier: Apache-2.0
"""Scores of softmaxes: what makes them, and what a softmax loses when they are bytes."""

import numpy as np

from opendpu.ir import Array, Graph, Node
from opendpu.quantize.layers import is_layer
from opendpu.quantize.scales.grid import no_overflow, rounded
from opendpu.quantize.transforms.mask import mask_of

MOVES = ("reshape", "flatten", "squeeze", "transpose", "permute")
"""What may be between the maker of scores and the softmax."""
PRODUCT = "matmul"
MOST_LOST = 0.2
"""Of probabilities, root of the mean square."""
COARSE = (
    "its scores reach so far that the DPU's bytes would lose more than a fifth of the "
    "probabilities; scores that reach less far would lift it"
)
FLOAT = "it makes scores of a softmax that reach too far for eight bits"


def makers_of(graph: Graph, softmax: Node) -> list[str]:
    """Return the layer or product that makes nothing but a softmax's scores, and what moves them.

    In the order of the graph; scaling them and adding a constant count as moving.
    """
    found = []
    node = softmax
    while True:
        sources = [graph[name] for name in node.inputs["input"] if graph[name].value is None]
        if len(sources) != 1 or not graph.is_read_once(sources[0].name):
            return []
        (node,) = sources
        found.append(node.name)
        if is_layer(node) or node.kind == PRODUCT:
            return found[::-1]
        if node.kind not in (*MOVES, "add", "mul", "scale"):
            return []


def largest_of(graph: Graph, softmax: Node, seen: Array) -> float | None:
    """Return how far scores are from zero, of samples in front.

    None where bytes are too coarse for them, if the CPU could have them as they were made.
    """
    largest = float(np.abs(seen).max())
    if makers_of(graph, softmax) and _lost(graph, softmax, seen, largest) > MOST_LOST:
        return None
    return largest


def _lost(graph: Graph, softmax: Node, seen: Array, largest: float) -> float:
    """Return what rounding scores to bytes changes, relative to the probabilities."""
    axis = int(softmax.attrs["axis"]) % len(softmax.shape) + 1
    given = seen.reshape(len(seen), *softmax.shape)
    mask = mask_of(graph, softmax)
    wanted, found = (
        _probabilities(x if mask is None else np.where(mask.hidden, -np.inf, x + mask.added), axis)
        for x in (given, rounded(given, no_overflow(largest)))
    )
    return float(np.sqrt(np.square(found - wanted).sum() / np.square(wanted).sum()))


def _probabilities(scores: Array, axis: int) -> Array:
    scores = scores.astype(np.float64)
    powers = np.exp(scores - scores.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))
