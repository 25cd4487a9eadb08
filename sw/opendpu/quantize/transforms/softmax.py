# SPDX-License-Identifier: Apache-2.0
"""Softmax as ops that a DPU with tables has, each with a scale of its own.

``softmax(x) = exp(x - m - ln(sum(exp(x - m))))`` with ``m`` the largest score of a row, which SAVE
finds; any constant for a row gives the same. The logarithm keeps the precision that a reciprocal
in eight bits has not: sums go from 1 to the length of a row. They are made several times, ``RATIO``
apart, and ``ln(s)`` is the sum of ``ln(clip(s / RATIO**j, 1, RATIO))``: saturation cuts each of
them off, so that all go through one table. Products with constants make the sums, and repeat what
belongs to a row for each score of it.
"""

import math

import numpy as np
from onnx import helper

from opendpu.ir import Graph, Node
from opendpu.quantize.transforms.parts import Parts
from opendpu.quantize.transforms.rewrite import MAX_TERMS

RATIO = 4
"""From one sum of a row to the next."""
SUM_POINT = 5
"""Fix point of sums, where ``RATIO`` is the end of a byte: relative steps from 1/32 to 1/128."""
TOGETHER = 4
"""Sums that one product makes: from 1 to ``RATIO**3``, weights of eight bits are exact."""
MOST_SCORES = 4096
"""Scores of a row: what SAVE compares."""
DIFFERENCE_POINT = 4
"""Fix point of ``x - m``: down to -8, below which nothing counts."""
FURTHER = 2.0
"""Logarithm of what the probabilities of equal scores are at least told apart from."""
FINE, COARSE = (5, 3.75), (4, 7.75)
"""Fix point of the logarithms of probabilities, and what is added to them: a byte then ends just
above zero, and at -7.75 or -15.75."""
MASKED = 16.0
"""A constant so far below zero hides scores; int8 has no room for it beside them."""


def is_softmax(graph: Graph, node: Node) -> bool:
    """Return whether an op is a softmax of rows that these parts can hold."""
    rank = len(node.shape)
    if node.kind != "softmax" or rank < 3 or node.shape[0] != 1:
        return False
    (source,) = (graph[name] for name in node.inputs["input"])
    masks = [graph[name].value for name in source.sources()]
    return (
        int(node.attrs["axis"]) % rank == rank - 1
        and 1 < node.shape[-1] <= MOST_SCORES
        and not any(mask is not None and mask.min(initial=0) < -MASKED for mask in masks)
    )


def softmax(parts: Parts) -> None:
    """Add the parts of a softmax."""
    *front, rows, count = parts.node.shape
    shape = (1, math.prod(front), rows, count)
    scores = parts.reshaped("scores", parts.node.inputs["input"][0], shape)
    row = (*shape[:-1], 1)
    largest = parts.add("max", "reduction_max", row, [scores], {"axis": [3], "keep_dims": True})
    less = parts.repeated("less_max", largest, -1.0, count)
    parts.demands.same[less] = scores  # else what is above zero behind it saturates
    difference = parts.add("difference", "add", shape, [scores, less])
    parts.demands.least[difference] = DIFFERENCE_POINT
    point, offset = FINE if math.log(count) + FURTHER <= FINE[1] + 2 ** (7 - FINE[0]) else COARSE
    logarithms = _logarithms(parts, parts.add("exp", "exp", shape, [difference]), offset)
    terms = [scores, less, *logarithms]
    assert len(terms) <= MAX_TERMS
    logarithm = parts.add("logarithm", "add", shape, terms)
    parts.demands.least[logarithm] = point
    exponent = [logarithm, parts.constant("offset", np.array([-offset]))]
    shifted = parts.add("exponent", "add", shape, exponent)
    parts.end(parts.add("probability", "exp", shape, [shifted]))


def _logarithms(parts: Parts, exps: str, offset: float) -> list[str]:
    """Return ``offset - ln(s)`` in one or two terms, for each score."""
    count = parts.graph[exps].shape[-1]
    pieces = max(1, math.ceil(math.log(count, RATIO) - 1e-9))
    nodes = [
        helper.make_node("Clip", ["x", "low", "high"], ["clipped"]),
        helper.make_node("Log", ["clipped"], ["logarithm"]),
        helper.make_node("Sub", ["logarithm", "offset"], ["y"]),
    ]
    numbers = {"low": 1.0, "high": float(RATIO), "offset": offset / pieces}
    terms = []
    for first in range(0, pieces, TOGETHER):
        exponents = np.arange(first, min(pieces, first + TOGETHER))
        weights = np.tile(float(RATIO) ** -exponents, (count, 1))
        sums = parts.product(f"sums{first}", exps, weights)
        parts.demands.least[sums] = SUM_POINT
        logarithms = parts.function(f"logarithms{first}", sums, nodes, numbers)
        terms.append(parts.repeated(f"less_logarithms{first}", logarithms, -1.0, count))
    return terms
