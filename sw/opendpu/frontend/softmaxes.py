# SPDX-License-Identifier: Apache-2.0
"""Softmaxes that are spelled out, ``e = exp(x)``, ``e / e.sum(axis)``, and what is added to their
scores without an effect: what is the same for all scores of a row, most often their maximum.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import onnx
from onnx import helper

from opendpu.frontend.def_use import (
    DefUse,
    Fusion,
    attributes_of,
    fused,
    reduced_axes,
    with_origin,
)
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

Shape = tuple[int, ...]
ShapeOf = Callable[[str], Shape | None]

ONE_AXIS = 13
"""The operator set from which Softmax is over one axis; before, over all from its axis on."""
SHAPING = frozenset({"Expand", "Identity", "Reshape", "Unsqueeze"})
"""What may stand between a sum and the quotient; sizes tell that the axis is where it was."""


def with_softmaxes(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Array],
    uses: Counter[str],
    shape_of: ShapeOf,
    add_floats: Callable[[str, Shape], None],
    opset: int,
) -> list[onnx.NodeProto]:
    """Return the nodes with Softmax where it is spelled out, of scores without such terms.

    ``shape_of`` says the shape of a computed float32 tensor, ``constants`` the rest; ``add_floats``
    is told what is new.
    """
    search = _Search(DefUse(nodes, uses), constants, shape_of, opset)
    nodes = fused(nodes, search.softmax)
    made: list[onnx.NodeProto] = []
    for node in nodes:
        axis = search.axis(node) if node.op_type == "Softmax" else None
        if axis is not None:
            scores, is_negated = search.without_shifts(node.input[0], axis)
            if is_negated:
                add_floats(f"{node.output[0]}_negated", shape_of(scores) or ())
                negated = [f"{node.output[0]}_negated"]
                made.append(with_origin(helper.make_node("Neg", [scores], negated), node))
                scores = negated[0]
            if scores != node.input[0]:
                attrs = attributes_of(node)
                plain = helper.make_node("Softmax", [scores], node.output, node.name, **attrs)
                node = with_origin(plain, node)
        made.append(node)
    return made


class _Search:
    """Looks for softmaxes around a node."""

    def __init__(
        self, links: DefUse, constants: Mapping[str, Array], shape_of: ShapeOf, opset: int
    ) -> None:
        self.links, self.constants, self.shape_of, self.opset = links, constants, shape_of, opset

    def softmax(self, node: onnx.NodeProto) -> Fusion | None:
        """Return what stands for a quotient of powers and their sum."""
        powers = self.links.made(node.input[0], "Exp") if node.op_type == "Div" else None
        shape = self.shape_of(node.input[0]) if powers is not None else None
        if powers is None or not shape or node.domain not in DEFAULT_DOMAINS:
            return None
        inside: list[onnx.NodeProto] = []
        below = self.links.producers.get(node.input[1])
        while below is not None and below.op_type in SHAPING:
            inside.insert(0, below)
            below = self.links.producers.get(below.input[0])
        if below is None or below.op_type != "ReduceSum" or below.input[0] != powers.output[0]:
            return None
        axes = [axis % len(shape) for axis in reduced_axes(below, self.constants) or []]
        every = [powers, below, *inside, node]
        if len(axes) != 1 or not self.links.is_closed(every):
            return None
        (axis,) = axes
        is_last = axis == len(shape) - 1
        if not self.is_flat(node.input[1], axis, shape) or (self.opset < ONE_AXIS and not is_last):
            return None
        made = helper.make_node("Softmax", [powers.input[0]], node.output, node.name, axis=axis)
        return Fusion([with_origin(made, node)], every)

    def axis(self, node: onnx.NodeProto) -> int | None:
        """Return the axis of a Softmax; none where it is over several, or not known."""
        shape = self.shape_of(node.input[0])
        if not shape or node.domain not in DEFAULT_DOMAINS:
            return None
        default = -1 if self.opset >= ONE_AXIS else 1
        axis = next((item.i for item in node.attribute if item.name == "axis"), default)
        axis %= len(shape)
        return axis if self.opset >= ONE_AXIS or axis == len(shape) - 1 else None

    def without_shifts(self, name: str, axis: int) -> tuple[str, bool]:
        """Return scores without what is the same for all of them, and whether they are negated."""
        node, shape = self.links.producers.get(name), self.shape_of(name)
        if node is None or not shape or node.op_type not in ("Add", "Sub"):
            return name, False
        first, second = node.input
        for scores, shift in ((first, second), (second, first)):
            whole = scores not in self.constants and self.shape_of(scores) == shape
            if whole and node.domain in DEFAULT_DOMAINS and self.is_flat(shift, axis, shape):
                if node.op_type == "Sub" and scores == second:
                    return scores, True
                return self.without_shifts(scores, axis)
        return name, False

    def is_flat(self, name: str, axis: int, shape: Shape) -> bool:
        """Return whether a tensor, as an operand beside one of ``shape``, is the same along an
        axis."""
        constant = self.constants.get(name)
        own = self.shape_of(name) if constant is None else constant.shape
        if own is None or len(own) > len(shape):
            return False
        place = axis - (len(shape) - len(own))
        if place < 0 or own[place] == 1:
            return shape[axis] > 1
        spread = self.links.made(name, "Expand")
        return spread is not None and self.is_flat(spread.input[0], axis, shape)
