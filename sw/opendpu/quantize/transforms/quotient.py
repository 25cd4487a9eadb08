# SPDX-License-Identifier: Apache-2.0
"""Quotients of two computed tensors as ops that a DPU with tables has.

``x / d = x * (1 / d)``: the reciprocal is a table. ``d`` has one value for each row, as the
normalizer of linear attention or of powers has, one for each channel of a map, as a deviation has,
or one for each element.
"""

import dataclasses
import math

import numpy as np
from onnx import helper

from opendpu.ir import Array, Graph, Node
from opendpu.quantize.transforms.parts import Parts
from opendpu.quantize.transforms.response_norm import is_response_norm

STEPS = 127
"""Steps of a byte in the largest value."""
MUCH_NOISE = 0.1
"""Root of the mean square of the relative errors that two roundings to bytes may make."""


@dataclasses.dataclass(frozen=True)
class Divisors:
    """What calibration samples say.

    Parameters
    ----------
    least
        Half the smallest distance from zero; what comes nearer counts as that.
    negative
        Whether all are below zero, not above.
    """

    least: float
    negative: bool = False


def is_quotient(graph: Graph, node: Node) -> bool:
    """Return whether an op divides a tensor by another one that is computed too."""
    if node.kind != "div" or len(node.inputs["input"]) != 2 or is_response_norm(graph, node):
        return False
    x, divisor = (graph[name] for name in node.inputs["input"])
    return (
        x.value is None and divisor.value is None
        and x.type.dtype == divisor.type.dtype == np.float32
        and len(node.shape) > 1 and node.shape[0] == 1 and x.shape == node.shape
        and _form(node.shape, divisor.shape) is not None
    )  # fmt: skip


def divisor_of(graph: Graph, node: Node) -> str:
    """Return what is divided by."""
    return node.inputs["input"][1]


def divisors_of(graph: Graph, node: Node, seen: Array) -> Divisors | None:
    """Return how quotients by these values are computed; none if bytes are too coarse for them.

    Zeros are no quotients; the sign must be the same for all others.
    """
    sizes = np.abs(seen[seen != 0].astype(np.float64))
    negative = bool((seen < 0).any())
    if not sizes.size or not np.isfinite(sizes).all() or (negative and (seen > 0).any()):
        return None
    if _noise(sizes) > MUCH_NOISE:
        return None
    return Divisors(float(sizes.min()) / 2, negative)


def quotient(parts: Parts, divisors: Divisors | None = None) -> None:
    """Add the parts; without ``divisors``, these are all far enough above zero."""
    graph, node = parts.graph, parts.node
    x, divisor = node.inputs["input"]
    divisors = divisors or Divisors(float(np.finfo(np.float32).tiny))
    form = _form(node.shape, graph[divisor].shape)
    assert form is not None
    shape, small = form
    x = parts.reshaped("rows", x, shape)
    divisor = parts.reshaped("divisors", divisor, small)
    bound, least = ("Min", -divisors.least) if divisors.negative else ("Max", divisors.least)
    nodes = [
        helper.make_node(bound, ["x", "least"], ["divisor"]),
        helper.make_node("Reciprocal", ["divisor"], ["y"]),
    ]
    factor = parts.function("reciprocal", divisor, nodes, {"least": least})
    if small[-1] < shape[-1]:
        factor = parts.repeated("factor", factor, 1.0, shape[-1])
    parts.end(parts.add("quotient", "mul", shape, [x, factor]))


def _form(
    shape: tuple[int, ...], divisor: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the shapes of four axes in which both are read; none if there are no such."""
    divisor = (1,) * (len(shape) - len(divisor)) + divisor
    *front, rows, channels = shape
    every = (1, math.prod(front), rows, channels)
    if divisor == shape:
        return every, every
    if divisor == (*front, rows, 1):
        return every, (*every[:-1], 1)
    if math.prod(divisor) == divisor[-1] == channels:
        return every, (1, 1, 1, channels)
    return None


def _noise(sizes: Array) -> float:
    """Return the relative error of quotients by values that are rounded, and their reciprocals."""
    step = 2.0 ** np.ceil(np.log2(sizes.max() / STEPS))
    rounded = np.maximum(np.rint(sizes / step) * step, sizes.min())
    step = 2.0 ** np.ceil(np.log2(1 / rounded.min() / STEPS))
    factors = np.rint(1 / rounded / step) * step
    return float(np.sqrt(np.mean(np.square(factors * sizes - 1))))
