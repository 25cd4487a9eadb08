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
from opendpu.quantize.transforms.computed_mask import FLOAT, ComputedMask, without_guard
from opendpu.quantize.transforms.mask import HIDING, Mask, is_sound, mask_of
from opendpu.quantize.transforms.parts import Parts, pixels
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
LOWEST = -100.0
"""What is added to hidden scores: a byte has less at their scale, so that it becomes the least."""
COARSE_SCORES = 32.0
"""Scores from there on have steps more than eight times those of logarithms. A sum of both drops
what is below a quarter of the coarser one (``shift_read``), so that differences, which are exact
and end at -8, take their place in it."""
NOTHING = -15.0
"""Added to any logarithm of a probability, it leaves none; eighths of it are a byte."""


def is_softmax(graph: Graph, node: Node) -> bool:
    """Return whether an op is a softmax of rows that these parts can hold."""
    rank = len(node.shape)
    if node.kind != "softmax" or rank < 3 or node.shape[0] != 1:
        return False
    axis, mask = int(node.attrs["axis"]) % rank, mask_of(graph, node)
    return 1 < node.shape[axis] <= MOST_SCORES and (
        mask is None or (axis == rank - 1 and is_sound(mask))
    )


def scores_of(graph: Graph, node: Node) -> str:
    """Return the scores of a softmax, before a mask."""
    mask = mask_of(graph, node)
    return node.inputs["input"][0] if mask is None else mask.scores


def softmax(parts: Parts, computed: ComputedMask | None = None, largest: float = 0.0) -> None:
    """Add the parts of a softmax, ``computed`` the mask that the model makes for it.

    ``largest`` is how far scores are from zero on samples. One over another axis than the last gets
    its scores, and gives its result, through a transpose.
    """
    mask = computed or mask_of(parts.graph, parts.node)
    source, order = parts.rows(int(parts.node.attrs["axis"]))
    *front, rows, count = (parts.node.shape[n] for n in order)
    size = pixels(front, rows) if mask is None else (math.prod(front), rows)
    shape = (1, *size, count)
    if computed is not None:
        without_guard(parts.graph, parts.node)
    scores = parts.reshaped("scores", source if mask is None else mask.scores, shape)
    if isinstance(mask, Mask) and np.any(mask.added):
        added = parts.constant("bias", mask.added.reshape(shape))
        scores = parts.add("biased", "add", shape, [scores, added])
    seen = scores
    if mask is not None:  # twice, so that the largest becomes the least one too
        seen = _lowered(parts, mask, "seen", _lowered(parts, mask, "lowered", scores))
    row = (*shape[:-1], 1)
    most = parts.add("max", "reduction_max", row, [seen], {"axis": [3], "keep_dims": True})
    less = parts.repeated("less_max", most, -1.0, count)
    parts.demands.same[less] = seen  # else what is above zero behind it saturates
    difference = parts.add("difference", "add", shape, [seen, less])
    parts.demands.least[difference] = DIFFERENCE_POINT
    if mask is not None:
        difference = _lowered(parts, mask, "kept", difference)
    point, offset = FINE if math.log(count) + FURTHER <= FINE[1] + 2 ** (7 - FINE[0]) else COARSE
    exps = parts.add("exp", "exp", shape, [difference])
    parts.demands.saturating.add(exps)  # that of the largest score: 1, for which 127/128 does
    logarithms = _logarithms(parts, exps, offset)
    terms = [*([seen, less] if largest < COARSE_SCORES else [difference]), *logarithms]
    assert len(terms) <= MAX_TERMS
    logarithm = parts.add("logarithm", "add", shape, terms)
    parts.demands.least[logarithm] = point
    last = parts.constant("offset", np.array([-offset])) if mask is None else (
        _chosen(parts, mask, "offset", NOTHING, -offset)
    )  # fmt: skip
    shifted = parts.add("exponent", "add", shape, [logarithm, last])
    if mask is not None:
        parts.demands.least[shifted] = point - 1
    parts.end_rows(parts.add("probability", "exp", shape, [shifted]), order)


def _lowered(parts: Parts, mask: Mask | ComputedMask, name: str, source: str) -> str:
    """Return a tensor with what a mask hides as low as a byte goes, at the same scale."""
    shape = parts.graph[source].shape
    low = _chosen(parts, mask, f"{name}_mask", LOWEST, 0.0)
    made = parts.add(name, "add", shape, [source, low])
    for saturating in (low, made):
        parts.demands.same[saturating] = source
        parts.demands.saturating.add(saturating)
    return made


def _chosen(
    parts: Parts, mask: Mask | ComputedMask, name: str, hidden: float, seen: float
) -> str:  # fmt: skip
    """Return a number where a mask hides scores, and another one elsewhere."""
    if isinstance(mask, Mask):
        *front, rows, count = parts.node.shape
        where = mask.hidden.reshape(1, math.prod(front), rows, count)
        return parts.constant(name, np.where(where, hidden, seen))
    nodes = [
        helper.make_node("Less", ["x", "limit"], ["hides"]),
        helper.make_node("Where", ["hides", "hidden", "seen"], ["y"]),
    ]
    numbers = {"limit": -HIDING, "hidden": hidden, "seen": seen}
    made = parts.function(name, mask.mask, nodes, numbers)
    parts.given |= {mask.mask, made}
    parts.demands.floating |= dict.fromkeys((*mask.makers, made), FLOAT)
    return made


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
