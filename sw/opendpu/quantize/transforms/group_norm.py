# SPDX-License-Identifier: Apache-2.0
"""Normalization of feature maps (GroupNorm, InstanceNorm) as ops that a DPU with tables has.

``c = x - mean(x)``, ``y = weight * c / sqrt(mean(c**2) + epsilon) + bias``, with means over the
pixels of a map and the channels of a group: an average pool and, for groups, a product with a
constant matrix. What belongs to a channel is a single pixel, which ELEW adds to or multiplies with
every other one; the reciprocal root is a table.

Where the variances of groups lie further apart than a byte tells, each group is first multiplied by
a constant that brings its variance near those of the others, which the normalization takes off
again: it goes into the layer before. Where those of one group differ from image to image, they are
brought nearer to each other as those of rows are (:mod:`.layer_norm`).
"""

import dataclasses
import math

import numpy as np
from onnx import helper

from opendpu.ir import Array, Graph, Node
from opendpu.quantize.transforms.parts import Parts
from opendpu.quantize.transforms.variance import NEARER, SPREAD, Means, divided

MAP = 4
"""Axes of a feature map."""
DEAD = 2.0**-6
"""Part of epsilon that the variance of a group may be, whose result then hardly varies."""
SMALL = 2.0**-5
"""Part of the floor that epsilon may be: results are that part, by half, too large at the floor,
less above it, and exact below."""


@dataclasses.dataclass(frozen=True)
class Spread:
    """How the variances of groups are brought together.

    Parameters
    ----------
    factors
        What each group is multiplied by first.
    floor
        Variance up to which groups are brought nearer to the largest one; 0 if that is not needed.
    least
        The smallest variance that counts. These two are of what is multiplied already.
    """

    factors: Array
    floor: float
    least: float


def is_group_norm(graph: Graph, node: Node) -> bool:
    """Return whether an op is such a normalization of one image."""
    return (
        node.kind in ("groupnorm", "instancenorm")
        and len(node.shape) == MAP
        and node.shape[0] == 1
        and math.prod(node.shape[1:3]) > 1
    )


def variances_of(node: Node, x: Array) -> Array:
    """Return the variance of each group of an image ``[1, height, width, channels]``."""
    groups = x.reshape(-1, _groups(node), node.shape[-1] // _groups(node)).astype(np.float64)
    return np.asarray(groups.var(axis=(0, 2)))


def spread_of(node: Node, variances: Array) -> Spread | None:
    """Return what brings variances ``[samples, groups]`` together; none if they differ too much."""
    epsilon = float(node.attrs["eps"])
    live = variances.max(axis=0) >= DEAD * epsilon
    factors = np.ones(variances.shape[1])
    if not live.any():
        return None
    seen = variances[:, live] + epsilon
    if seen.max() > SPREAD * seen.min():
        typical = np.sqrt(seen.min(axis=0) * seen.max(axis=0))
        factors[live] = np.sqrt(typical.mean() / typical)
        seen = seen * factors[live] ** 2
    low, high = float(seen.min()), float(seen.max())
    if high <= SPREAD * low:
        return Spread(factors, 0.0, low)
    floor = high / NEARER
    negligible = epsilon * float((factors[live] ** 2).max()) <= SMALL * floor
    return Spread(factors, floor, low) if floor <= SPREAD * low and negligible else None


def group_norm(parts: Parts, spread: Spread | None = None) -> None:
    """Add the parts of a normalization; without a ``spread``, variances are all alike."""
    node = parts.node
    spread = spread or Spread(np.ones(_groups(node)), 0.0, 0.0)
    (x,) = node.inputs["input"]
    groups, channels = _groups(node), node.shape[-1]
    each = np.repeat(spread.factors, channels // groups)
    if np.any(each != 1):
        x = scaled_by_channel(parts, "levelled", x, each, np.zeros(channels))
    means = _Means(groups)
    mean = means.mean(parts, "mean", x)
    less = means.repeated(parts, "less_mean", mean, -1.0, channels)
    centred = parts.add("centred", "add", node.shape, [x, less])
    epsilon = float(node.attrs["eps"]) * spread.factors**2
    if spread.floor:
        nodes = [helper.make_node("Max", ["x", "floor"], ["variance"])]
        numbers = {"floor": spread.floor}
        centred = divided(parts, "nearer", centred, nodes, numbers, means)
        epsilon = epsilon / spread.floor
    least = (min(spread.least / spread.floor, 1.0) if spread.floor else spread.least) / 2
    if np.all(epsilon == epsilon[0]):
        numbers = {"least": least, "epsilon": float(epsilon[0])}
        nodes = [
            helper.make_node("Add", ["x", "epsilon"], ["sum"]),
            helper.make_node("Max", ["sum", "least"], ["variance"]),
        ]
    else:
        numbers, means = {"least": least}, dataclasses.replace(means, offset=epsilon)
        nodes = [helper.make_node("Max", ["x", "least"], ["variance"])]
    result = divided(parts, "normalized", centred, nodes, numbers, means)
    if node.attrs.get("affine"):
        weight, bias = (parts.graph[node.inputs[arg][0]].value for arg in ("weight", "bias"))
        assert weight is not None and bias is not None
        result = scaled_by_channel(parts, "scaled", result, weight, bias)
    parts.end(result)


@dataclasses.dataclass(frozen=True)
class _Means(Means):
    """Means of groups of channels over all pixels, with what is added to each one."""

    groups: int
    offset: Array | None = None

    def mean(self, parts: Parts, name: str, source: str) -> str:
        """Add the mean of each group, ``[1, 1, 1, groups]``."""
        _, height, width, channels = parts.graph[source].shape
        size = [width, height]
        attrs = {
            "kernel": size, "stride": size, "pad": [0, 0, 0, 0], "pad_mode": "FLOOR",
            "global": True,
        }  # fmt: skip
        pooled = parts.add(f"{name}_pool", "avgpool2d", (1, 1, 1, channels), [source], attrs)
        if self.groups == channels:
            return pooled
        members = channels // self.groups
        return parts.product(
            name, pooled, np.kron(np.eye(self.groups), np.ones((members, 1))) / members
        )

    def variance(self, parts: Parts, name: str, source: str) -> str:
        """Add the mean of each group and what is added to it."""
        mean = self.mean(parts, name, source)
        if self.offset is None:
            return mean
        offset = parts.constant(f"{name}_epsilon", self.offset.reshape(1, 1, 1, -1))
        return parts.add(f"{name}_sum", "add", parts.graph[mean].shape, [mean, offset])

    def repeated(self, parts: Parts, name: str, source: str, factor: float, channels: int) -> str:
        """Add ``factor`` times what belongs to a group for each of its channels."""
        if self.groups < channels:
            members = channels // self.groups
            matrix = factor * np.kron(np.eye(self.groups), np.ones((1, members)))
            return parts.product(name, source, matrix)
        if factor == 1:
            return source
        return scaled_by_channel(parts, name, source, np.full(channels, factor), np.zeros(channels))


def scaled_by_channel(parts: Parts, name: str, source: str, scale: Array, bias: Array) -> str:
    """Add a factor and an offset for each channel."""
    shape = parts.graph[source].shape
    made = parts.add(name, "scale", shape, [source], {"axis": len(shape) - 1})
    parts.graph[made].inputs |= {
        "scale": [parts.constant(f"{name}_scale", scale)],
        "bias": [parts.constant(f"{name}_bias", bias)],
    }
    return made


def _groups(node: Node) -> int:
    channels = node.shape[-1]
    return channels if node.kind == "instancenorm" else int(node.attrs["num_groups"])
