# SPDX-License-Identifier: Apache-2.0
"""Normalizations without what guards them against rounding.

JAX's exporter takes differences from the mean as zero where the least and the largest number of a
row are the same, computes variances of rows in double precision, whose casts stay as ones of
single precision to itself, and cuts off those below zero:

    centred = Where(And(Equal(ReduceMin(x), ReduceMax(x)), ..), 0, x - mean)
    variance = Max(Cast(ReduceMean(Cast(centred ** 2))), 0)

In real numbers, differences of such rows are zero anyway, and means of squares never below it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import onnx
from onnx import TensorProto

from opendpu.frontend.def_use import DefUse, kept_axes, reading, without_unread
from opendpu.frontend.moments import ShapeOf
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS


def without_guards(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Array],
    uses: Counter[str],
    shape_of: ShapeOf,
    outputs: Sequence[str],
) -> list[onnx.NodeProto]:
    """Return the nodes without such guards.

    ``shape_of`` says the shape of a float32 tensor; ``outputs`` are the model's.
    """
    search = _Search(DefUse(nodes, uses), constants, shape_of)
    other: dict[str, str] = {}
    for node in nodes:
        if len(node.output) != 1 or node.output[0] in outputs or node.domain not in DEFAULT_DOMAINS:
            continue
        if same := search.same(node):
            other[node.output[0]] = other.get(same, same)
    return without_unread([reading(node, other) for node in nodes], outputs) if other else [*nodes]


class _Search:
    """Where guards are among the nodes of a model."""

    def __init__(self, links: DefUse, constants: Mapping[str, Array], shape_of: ShapeOf) -> None:
        self.links, self.constants, self.shape_of = links, constants, shape_of

    def same(self, node: onnx.NodeProto) -> str:
        """Return a tensor that is what a node makes, but for rounding; nothing if there is none."""
        if node.op_type == "Where" and self._is_zero(node.input[1]):
            return node.input[2] if self._is_difference_anyway(node) else ""
        if node.op_type == "Max" and len(node.input) == 2:
            for value, zero in (node.input, node.input[::-1]):
                if self._is_zero(zero) and self._is_mean_of_squares(value):
                    return str(value)
        if node.op_type == "Cast" and self.shape_of(node.input[0]) is not None:
            return node.input[0] if _becomes(node, TensorProto.FLOAT) else ""
        return ""

    def _is_zero(self, name: str) -> bool:
        value = self.constants.get(name)
        return value is not None and value.size > 0 and not value.any()

    def _is_mean_of_squares(self, name: str) -> bool:
        """Return whether a tensor is a mean of squares, in whatever precision."""
        cast = self.links.made(name, "Cast")
        mean = self.links.made(name if cast is None else cast.input[0], "ReduceMean")
        if mean is None:
            return False
        cast = self.links.made(mean.input[0], "Cast")
        source = mean.input[0] if cast is None else cast.input[0]
        return self.links.square(source, self.constants) is not None

    def _is_difference_anyway(self, choice: onnx.NodeProto) -> bool:
        """Return whether a choice of zero is one where all that a mean is of is the same."""
        differs = self.links.made(choice.input[2], "Sub")
        mean = self.links.made(differs.input[1], "ReduceMean") if differs is not None else None
        if differs is None or mean is None or mean.input[0] != differs.input[0]:
            return False
        axes = kept_axes(mean, self.constants)
        return axes is not None and any(
            self._are_extremes(term, mean.input[0], axes) for term in self._terms(choice.input[0])
        )

    def _terms(self, name: str) -> list[str]:
        """Return what must all hold for a condition to hold."""
        both = self.links.made(name, "And")
        return [name] if both is None else [t for one in both.input for t in self._terms(one)]

    def _are_extremes(self, name: str, x: str, axes: list[int]) -> bool:
        """Return whether a condition says that the least and the largest of ``x`` are the same."""
        equal = self.links.made(name, "Equal")
        if equal is None:
            return False
        for least, most in (equal.input, equal.input[::-1]):
            pair = self.links.made(least, "ReduceMin"), self.links.made(most, "ReduceMax")
            if all(
                node is not None and node.input[0] == x and kept_axes(node, self.constants) == axes
                for node in pair
            ):
                return True
        return False


def _becomes(cast: onnx.NodeProto, kind: int) -> bool:
    return any(item.name == "to" and item.i == kind for item in cast.attribute)
