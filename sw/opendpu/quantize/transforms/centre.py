# SPDX-License-Identifier: Apache-2.0
"""Scores of softmaxes moved to where eight bits hold them best.

A softmax stays what it is when a constant is added to all scores. Those of trained networks may lie
far from zero and close together, from 180 to 240 say: a byte that reaches there has steps of 2, one
that holds their distances has steps of a quarter. The bias of the layer that makes the scores moves
them, at no cost: the DPU adds it in 32 bits, before it rounds.
"""

import math

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
from opendpu.quantize.transforms.scores import MOVES

SAMPLES = 8
"""Samples that scores are looked at on, at most."""


def centre(graph: Graph, samples: Samples) -> list[str]:
    """Move scores by the bias of the layers that make them, in place; return these layers' names.

    Only those that nothing else reads, and where it saves a bit or more.
    """
    makers = {
        maker.name for node in graph
        if node.kind == "softmax" and (maker := _maker(graph, node)) is not None
    }  # fmt: skip
    least = dict.fromkeys(makers, math.inf)
    most = dict.fromkeys(makers, -math.inf)
    for _, part in evaluate(graph, sorted(makers), samples, batch=1, stop=SAMPLES):
        for name in makers:
            least[name] = min(least[name], float(part[name].min()))
            most[name] = max(most[name], float(part[name].max()))
    moved = []
    for name in sorted(makers):
        middle = (least[name] + most[name]) / 2
        if _bits(max(-least[name], most[name])) > _bits(most[name] - middle):
            layer = graph[name]
            set_parameters(graph, layer, weights_of(graph, layer), bias_of(graph, layer) - middle)
            moved.append(name)
    return moved


def _maker(graph: Graph, softmax: Node) -> Node | None:
    """Return the layer whose results are the scores of a softmax and nothing else."""
    node = softmax
    while True:
        node = graph[node.inputs["input"][0]]
        if not graph.is_read_once(node.name):
            return None
        if node.kind not in MOVES:
            return node if is_layer(node) and has_constant_weights(graph, node) else None


def _bits(size: float) -> int:
    """Return the exponent of the power of two from which on numbers are larger than ``size``."""
    return int(np.frexp(size)[1])
