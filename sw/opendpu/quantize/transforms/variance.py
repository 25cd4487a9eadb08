# SPDX-License-Identifier: Apache-2.0
"""What normalizations have in common: division by the root of a mean of squares."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
from onnx import NodeProto, helper

from opendpu.ir import Array
from opendpu.quantize.transforms.parts import Parts

SPREAD = 16.0
"""The largest variance over the smallest one: eight bits hold both, and their roots."""
NEARER = 64.0
"""The same, of those that the first of two factors makes equal."""
SQUARES = 32
"""Steps of the squares of such rows in the largest variance; what is above a byte saturates."""
NEGLIGIBLE = 2.0**-8
"""Part of the floor that epsilon may be, which then counts as if all rows were brought there."""


class Means(Protocol):
    """What is averaged together: rows of elements, or groups of channels."""

    def variance(self, parts: Parts, name: str, source: str) -> str:
        """Add the means of squares."""

    def repeated(self, parts: Parts, name: str, source: str, factor: float, channels: int) -> str:
        """Add ``factor`` times what belongs to a mean for each of the ``channels``."""


class Rows(Means):
    """Means of rows, as products with a constant matrix."""

    def variance(self, parts: Parts, name: str, source: str) -> str:
        """Add the mean of each row."""
        count = parts.graph[source].shape[-1]
        return parts.product(name, source, np.full((count, 1), 1 / count))

    def repeated(self, parts: Parts, name: str, source: str, factor: float, channels: int) -> str:
        """Add ``factor`` times what belongs to a row for each of its elements."""
        return parts.repeated(name, source, factor, channels)


@dataclasses.dataclass(frozen=True)
class Spread:
    """How far apart the variances of rows are.

    Parameters
    ----------
    floor
        Up to which rows are brought nearer to the largest one; zero where bytes hold all variances.
    least
        The least one of those that count; zero where all do.
    """

    floor: float = 0.0
    least: float = 0.0

    def lower(self, factor: float) -> float:
        """Return the least variance behind the first factor, relative to the floor, or ``factor``.

        That is what a row of zeros may be divided by, and what it may have for a variance.
        """
        least = min(self.least / self.floor, 1.0) if self.floor else self.least
        return max(factor, least)


ALIKE = Spread()
"""Of rows whose variances are near each other."""


def spread_of(rows: Array, variance: Callable[[Array], Array], negligible: float) -> Spread | None:
    """Return what samples say of rows, elements last, whose ``variance`` is given by a function.

    Rows of zeros, which windows and sequences are filled up with, stay zero at any factor: they do
    not count. Nothing where the others differ so much that bytes do not hold them, as of
    :func:`floor_for`.
    """
    rows = rows.reshape(-1, rows.shape[-1])
    some = rows[rows.any(axis=-1)]
    counting = variance(some if len(some) else rows)
    floor = floor_for(counting, negligible)
    if floor is None:
        return None
    return Spread(floor, float(counting.min()) if 0 < len(some) < len(rows) else 0.0)


def floor_for(variance: Array, negligible: float) -> float | None:
    """Return the variance up to which rows of an input are brought nearer to the largest one.

    Zero where they differ so little that bytes hold all variances; nothing where they differ so
    much that two factors in bytes do not make them equal, or where the floor would be less than
    ``negligible``.
    """
    low, high = float(variance.min()), float(variance.max())
    if high <= SPREAD * low:
        return 0.0
    floor = high / NEARER
    return floor if floor <= SPREAD * low and negligible <= floor else None


def divided(
    parts: Parts,
    name: str,
    source: str,
    nodes: list[NodeProto],
    numbers: Mapping[str, float],
    means: Means,
) -> str:
    """Add a tensor over the root of a ``variance``, which ``nodes`` make of the mean of squares.

    With ``floor`` among the ``numbers``, squares have so fine a scale that they saturate beyond it.
    """
    shape = parts.graph[source].shape
    squares = parts.add(f"{name}_squares", "mul", shape, [source, source])
    variance = means.variance(parts, f"{name}_variance", squares)
    if "floor" in numbers:
        parts.demands.least[squares] = math.ceil(math.log2(SQUARES / (NEARER * numbers["floor"])))
    nodes = [
        *nodes,
        helper.make_node("Sqrt", ["variance"], ["deviation"]),
        helper.make_node("Reciprocal", ["deviation"], ["y"]),
    ]
    reciprocal = parts.function(f"{name}_reciprocal", variance, nodes, numbers)
    factor = means.repeated(parts, f"{name}_factor", reciprocal, 1.0, shape[-1])
    return parts.add(name, "mul", shape, [source, factor])
