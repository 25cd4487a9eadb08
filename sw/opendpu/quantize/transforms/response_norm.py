# SPDX-License-Identifier: Apache-2.0
"""Global response normalization (ConvNeXt V2) as ops that a DPU with tables has.

``n = g / (mean(g) + epsilon)``, where ``g`` is the Euclidean length of each channel of a map and
the mean is over the channels; the map is multiplied with ``n`` behind. A length is the root of a
mean of squares, but for a factor that the quotient takes off: an average pool and a table; the mean
is a product with a constant matrix, and its reciprocal another table.

Channels with smaller peaks than others are multiplied by a constant each first, which is taken off
the lengths. Their squares would be nothing in a byte.
"""

import dataclasses
import math

import numpy as np
from onnx import helper

from opendpu.ir import Array, Graph, Node
from opendpu.ops.foreign import KIND, label_of
from opendpu.quantize.transforms.group_norm import scaled_by_channel
from opendpu.quantize.transforms.parts import Parts

MAP = 4
"""Axes of a feature map."""
LENGTHS = "ReduceL2"
APART = 8.0
"""The largest mean length over the smallest one: eight bits hold their reciprocals."""
LARGEST = 4.0
"""Factor of a channel, at most: shorter ones are short beside the mean, and need not be exact."""


@dataclasses.dataclass(frozen=True)
class Lengths:
    """What calibration samples say.

    Parameters
    ----------
    factors
        What each channel is multiplied by first.
    least
        The smallest divisor, of roots of mean squares.
    """

    factors: Array
    least: float


def is_response_norm(graph: Graph, node: Node) -> bool:
    """Return whether an op divides the lengths of the channels of a map by their mean."""
    if node.kind != "div" or len(node.inputs["input"]) != 2:
        return False
    lengths, divisor = (graph[name] for name in node.inputs["input"])
    mean = graph[divisor.inputs["input"][0]] if divisor.kind == "scale" else divisor
    if lengths.kind != KIND or label_of(lengths) != LENGTHS or mean.kind != "reduction_mean":
        return False
    shape = graph[lengths.inputs["input"][0]].shape
    return (
        len(shape) == MAP and shape[0] == 1
        and node.shape == lengths.shape == (1, 1, 1, shape[-1])
        and mean.shape == (1, 1, 1, 1) and mean.inputs["input"] == [lengths.name]
        and math.prod(shape[1:3]) > 1
    )  # fmt: skip


def map_of(graph: Graph, node: Node) -> str:
    """Return the feature map whose channels have these lengths."""
    return graph[node.inputs["input"][0]].inputs["input"][0]


def squares_of(node: Node, x: Array) -> Array:
    """Return the mean square of each channel of an image, and the largest one."""
    squares = np.square(x.reshape(-1, node.shape[-1]), dtype=np.float64)
    return np.stack([squares.mean(axis=0), squares.max(axis=0)])


def lengths_of(graph: Graph, node: Node, squares: Array) -> Lengths | None:
    """Return how squares ``[samples, 2, channels]`` are computed; none if they differ too much.

    The mean length may differ from image to image by as much as bytes hold.
    """
    means, peaks = squares[:, 0], squares[:, 1].max(axis=0)
    factor, offset = _divisor(graph, node)
    divisors = factor * np.sqrt(means).mean(axis=1) + offset
    if not peaks.max() or divisors.min() <= 0 or divisors.max() > APART * divisors.min():
        return None
    factors = np.sqrt(peaks.max() / np.maximum(peaks, peaks.max() / LARGEST**2))
    return Lengths(factors, float(divisors.min()) / 2)


def response_norm(parts: Parts, lengths: Lengths | None = None) -> None:
    """Add the parts; without ``lengths``, those of all channels are alike."""
    graph, node = parts.graph, parts.node
    x, channels = map_of(graph, node), node.shape[-1]
    factor, offset = _divisor(graph, node)
    lengths = lengths or Lengths(np.ones(channels), 0.0)
    levelled = np.any(lengths.factors != 1)
    zeros = np.zeros(channels)
    if levelled:
        x = scaled_by_channel(parts, "levelled", x, lengths.factors, zeros)
    shape = graph[x].shape
    squares = parts.add("squares", "mul", shape, [x, x])
    size = [shape[2], shape[1]]
    attrs = {
        "kernel": size, "stride": size, "pad": [0, 0, 0, 0], "pad_mode": "FLOOR", "global": True,
    }  # fmt: skip
    pooled = parts.add("pool", "avgpool2d", node.shape, [squares], attrs)
    nodes = [
        helper.make_node("Max", ["x", "zero"], ["square"]),
        helper.make_node("Sqrt", ["square"], ["y"]),
    ]
    roots = parts.function("root", pooled, nodes, {"zero": 0.0})
    if levelled:
        roots = scaled_by_channel(parts, "lengths", roots, 1 / lengths.factors, zeros)
    mean = parts.product("mean", roots, np.full((channels, 1), 1 / channels))
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["product"]),
        helper.make_node("Add", ["product", "offset"], ["sum"]),
        helper.make_node("Max", ["sum", "least"], ["divisor"]),
        helper.make_node("Reciprocal", ["divisor"], ["y"]),
    ]
    numbers = {"factor": factor, "offset": offset, "least": lengths.least}
    reciprocal = parts.function("reciprocal", mean, nodes, numbers)
    repeated = parts.repeated("factor", reciprocal, 1.0, channels)
    parts.end(parts.add("normalized", "mul", node.shape, [roots, repeated]))


def _divisor(graph: Graph, node: Node) -> tuple[float, float]:
    """Return what the mean of roots of mean squares is multiplied with, and what is added."""
    divisor = graph[node.inputs["input"][1]]
    pixels = math.prod(graph[map_of(graph, node)].shape[1:3])
    if divisor.kind != "scale":
        return 1.0, 0.0
    factor, offset = (graph[divisor.inputs[arg][0]].value for arg in ("scale", "bias"))
    assert factor is not None and offset is not None
    return float(factor.ravel()[0]), float(offset.ravel()[0]) / math.sqrt(pixels)
