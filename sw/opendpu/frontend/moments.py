# SPDX-License-Identifier: Apache-2.0
"""Variances that exporters write as the mean of squares less the square of the mean.

JAX's libraries (Flax, Haiku) compute them so, and cut what rounding makes negative. As the mean of
the squared differences from the mean, as PyTorch and TensorFlow write them, they are what searches
for normalizations know, and lose nothing where means are large.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import onnx
from onnx import helper

from opendpu.frontend.def_use import DefUse, Fusion, fused, kept_axes, with_origin
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

ShapeOf = Callable[[str], tuple[int, ...] | None]


def with_central_moments(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Array],
    uses: Counter[str],
    shape_of: ShapeOf,
    add_floats: Callable[[str, tuple[int, ...]], None],
) -> list[onnx.NodeProto]:
    """Return the nodes with such variances as means of squared differences.

    Squares and their means must have no other reader; ``shape_of`` says the shape of a float32
    tensor, ``add_floats`` is told what is new.
    """
    search = _Search(DefUse(nodes, uses), constants, shape_of)

    def find(node: onnx.NodeProto) -> Fusion | None:
        inside = search.at(node) if node.op_type == "Sub" else None
        if inside is None:
            return None
        made = _central(search, inside[0], inside[-1])
        differs, square, _ = made
        for new in (differs, square):
            add_floats(new.output[0], shape_of(differs.input[0]) or ())
        return Fusion(made, inside)

    return fused(nodes, find)


class _Search:
    """Where such variances are among the nodes of a model."""

    def __init__(self, links: DefUse, constants: Mapping[str, Array], shape_of: ShapeOf) -> None:
        self.links, self.constants, self.shape_of = links, constants, shape_of

    def at(self, difference: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """Return the nodes of the variance that a difference is, the mean's square first."""
        moment = self.links.made(difference.input[0], "ReduceMean")
        square = self.links.square(moment.input[0], self.constants) if moment is not None else None
        below = self.links.square(difference.input[1], self.constants)
        mean = self.links.made(below.input[0], "ReduceMean") if below is not None else None
        if moment is None or square is None or below is None or mean is None:
            return None
        axes = self._axes(moment)
        if axes is None or axes != self._axes(mean) or square.input[0] != mean.input[0]:
            return None
        inside = [below, square, moment, difference]
        if any(node.domain not in DEFAULT_DOMAINS for node in inside):
            return None
        if not self.links.is_closed(inside):
            return None
        bound = self._bound(difference.output[0])
        return inside if bound is None else [*inside, bound]

    def _axes(self, node: onnx.NodeProto) -> list[int] | None:
        axes, shape = kept_axes(node, self.constants), self.shape_of(node.input[0])
        return None if axes is None or not shape else sorted(axis % len(shape) for axis in axes)

    def _bound(self, name: str) -> onnx.NodeProto | None:
        """Return what cuts off negative variances, if anything does."""
        relu = self.links.only_reader(name, "Relu")
        most = self.links.only_reader(name, "Max")
        if most is None or len(most.input) != 2:
            return relu
        (other,) = [one for one in most.input if one != name] or [""]
        zero = self.constants.get(other)
        return most if zero is not None and zero.size == 1 and not zero.any() else None


def _central(search: _Search, below: onnx.NodeProto, last: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Return the nodes of a variance, which has the name of what ``last`` gives."""
    mean = search.links.producers[below.input[0]]
    (result,) = last.output
    differs = helper.make_node(
        "Sub", [mean.input[0], mean.output[0]], [f"{result}_centred"], f"{result}_centred"
    )
    square = helper.make_node(
        "Mul", [differs.output[0]] * 2, [f"{result}_squared"], f"{result}_squared"
    )
    variance = onnx.NodeProto()
    variance.CopyFrom(mean)
    variance.name, variance.input[0], variance.output[0] = last.name, square.output[0], result
    return [with_origin(differs, last), with_origin(square, last), variance]
