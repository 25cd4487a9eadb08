# SPDX-License-Identifier: Apache-2.0
"""Sums over a stack, ``torch.stack(maps).sum(0)``: the sum of what is stacked, on no axis more."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import onnx
from onnx import helper

from opendpu.frontend.def_use import DefUse, with_origin
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
    replaced: dict[int, onnx.NodeProto] = {}
    dropped: set[int] = set()
    for node in nodes:
        stack = links.made(node.input[0], "Concat") if node.op_type == "ReduceSum" else None
        shape = shape_of(stack.output[0]) if stack is not None else None
        if stack is None or not shape or len(stack.input) < LEAST:
            continue
        (axis,) = (item.i % len(shape) for item in stack.attribute if item.name == "axis")
        layers = [links.made(name, "Unsqueeze") for name in stack.input]
        inside = [layer for layer in layers if layer is not None]
        axes = [_axes(one, constants, len(shape)) for one in (*inside, node)]
        known = all(one.domain in DEFAULT_DOMAINS for one in (*inside, stack, node))
        if (
            len(inside) == len(layers) and known and axes == [[axis]] * len(axes)
            and _drops(node) and links.is_closed([*inside, stack, node])
        ):  # fmt: skip
            terms = [layer.input[0] for layer in inside]
            made = helper.make_node("Sum", terms, node.output, node.name)
            replaced[id(node)] = with_origin(made, node)
            dropped.update(id(one) for one in (*inside, stack))
    return [replaced.get(id(node), node) for node in nodes if id(node) not in dropped]


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
