# SPDX-License-Identifier: Apache-2.0
"""Scores of softmaxes moved to where eight bits hold them best.

A softmax stays what it is when a constant is added to all scores. Those of trained networks may lie
far from zero and close together, from 180 to 240 say: a byte that reaches there has steps of 2, one
that holds their distances has steps of a quarter. The bias of the layer that makes the scores moves
them, at no cost: the DPU adds it in 32 bits, before it rounds. Scores of classes, whose softmax is
a result of the network, stay as they are: programs read them instead, too.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from opendpu.ir import Graph, Node
from opendpu.quantize.executor import evaluate
from opendpu.quantize.layers import (
    bias_of,
    has_constant_weights,
    is_layer,
    set_parameters,
    weights_of,
)
from opendpu.quantize.samples import Samples
from opendpu.quantize.transforms.scores import MOVES, makers_of

SAMPLES = 8
"""Samples that scores are looked at on, at most."""
HEADROOM = 1.25
"""How much farther from their middle scores of other samples may be."""


def centre(graph: Graph, samples: Samples) -> list[str]:
    """Move scores by the bias of the layers that make them, in place; return these layers' names.

    Only those that nothing else reads, and where it saves a bit or more.
    """
    readers = graph.consumer_map()
    makers = {
        maker.name for node in graph
        if node.kind == "softmax" and _is_computed_with(node, readers)
        and (maker := _maker(graph, node)) is not None
    }  # fmt: skip
    if not makers:
        return []
    least = dict.fromkeys(makers, math.inf)
    most = dict.fromkeys(makers, -math.inf)
    for _, part in evaluate(graph, sorted(makers), samples, batch=1, stop=SAMPLES):
        for name in makers:
            least[name] = min(least[name], float(part[name].min()))
            most[name] = max(most[name], float(part[name].max()))
    moved = []
    for name in sorted(makers):
        middle = (least[name] + most[name]) / 2
        if _bits(max(-least[name], most[name])) > _bits(HEADROOM * (most[name] - middle)):
            layer = graph[name]
            set_parameters(graph, layer, weights_of(graph, layer), bias_of(graph, layer) - middle)
            moved.append(name)
    return moved


def _is_computed_with(node: Node, readers: Mapping[str, Sequence[Node]]) -> bool:
    """Tell whether something is computed with a result, wherever it is moved before."""
    return any(
        reader.kind not in MOVES or _is_computed_with(reader, readers)
        for reader in readers[node.name]
    )


def _maker(graph: Graph, softmax: Node) -> Node | None:
    """Return the layer whose results are the scores of a softmax and nothing else."""
    found = [graph[name] for name in makers_of(graph, softmax)]
    if not found or any(node.kind not in MOVES for node in found[1:]):
        return None
    maker = found[0]
    return maker if is_layer(maker) and has_constant_weights(graph, maker) else None


def _bits(size: float) -> int:
    """Return the exponent of the power of two from which on numbers are larger than ``size``."""
    return int(np.frexp(size)[1])
