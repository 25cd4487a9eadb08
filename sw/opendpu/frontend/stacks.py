# SPDX-License-Identifier: Apache-2.0
"""Sums over a stack, ``torch.stack(maps).sum(0)``: the sum of what is stacked, on no axis more."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import onnx
from onnx import helper

from opendpu.frontend.def_use import DefUse, Fusion, fused, with_origin
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

LEAST = 2
"""Terms of a sum."""


def unstacked(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Array],
    uses: Counter[str],
    shape_of: Callable[[str], tuple[int, ...] | None],
) -> list[onnx.NodeProto]:
    """Return the nodes with Sum instead of each ReduceSum of what was stacked for it alone.

    ``shape_of`` says the shape of a float32 tensor.
    """
    links = DefUse(nodes, uses)

    def sum_of(node: onnx.NodeProto) -> Fusion | None:
        stack = links.made(node.input[0], "Concat") if node.op_type == "ReduceSum" else None
        shape = shape_of(stack.output[0]) if stack is not None else None
        if stack is None or not shape or len(stack.input) < LEAST:
            return None
        (axis,) = (item.i % len(shape) for item in stack.attribute if item.name == "axis")
        layers = [links.made(name, "Unsqueeze") for name in stack.input]
        inside = [layer for layer in layers if layer is not None]
        axes = [_axes(one, constants, len(shape)) for one in (*inside, node)]
        known = all(one.domain in DEFAULT_DOMAINS for one in (*inside, stack, node))
        every = [*inside, stack, node]
        if (
            len(inside) < len(layers) or not known or axes != [[axis]] * len(axes)
            or not _drops(node) or not links.is_closed(every)
        ):  # fmt: skip
            return None
        made = helper.make_node("Sum", [layer.input[0] for layer in inside], node.output, node.name)
        return Fusion([with_origin(made, node)], every)

    return fused(nodes, sum_of)


def _axes(node: onnx.NodeProto, constants: Mapping[str, Array], rank: int) -> list[int]:
    """Return the axes of a node, an attribute or an input; none if they are not known."""
    given = [list(item.ints) for item in node.attribute if item.name == "axes"]
    value = constants.get(node.input[1]) if len(node.input) > 1 else None
    if value is not None:
        given.append([int(axis) for axis in value.ravel()])
    return [axis % rank for axis in given[0]] if given else []


def _drops(node: onnx.NodeProto) -> bool:
    """Return whether a reduction leaves its axis out."""
    return any(item.name == "keepdims" and item.i == 0 for item in node.attribute)
