# SPDX-License-Identifier: Apache-2.0
"""Sums over axes that are divided by how many numbers they are of: means, as JAX writes them."""

import math
from collections import Counter
from collections.abc import Callable, MutableMapping, Sequence

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import DefUse, Fusion, fused, reduced_axes, with_origin
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

TOLERANCE = 1e-6
"""How far a factor may be from one over a count: float32 does not hold most of these."""
AXES_AS_INPUT = 18
"""The operator set from which the axes of ReduceMean are an input."""


def with_means(
    nodes: Sequence[onnx.NodeProto],
    constants: MutableMapping[str, Array],
    uses: Counter[str],
    shape_of: Callable[[str], tuple[int, ...] | None],
    opset: int,
) -> list[onnx.NodeProto]:
    """Return the nodes with sums over a count as ``ReduceMean``.

    Sums must have no other reader; ``shape_of`` says the shape of a float32 tensor.
    """
    links = DefUse(nodes, uses)

    def find(node: onnx.NodeProto) -> Fusion | None:
        operands = _divided(node, constants)
        total = links.made(operands[0], "ReduceSum") if operands is not None else None
        if operands is None or total is None or links.uses[operands[0]] != 1:
            return None
        shape = shape_of(total.input[0])
        axes = _axes(total, constants, len(shape or ()))
        known = {node.domain, total.domain} <= set(DEFAULT_DOMAINS)
        if not shape or axes is None or not known:
            return None
        count = math.prod(shape[axis] for axis in axes)
        if not math.isclose(operands[1], count, rel_tol=TOLERANCE):
            return None
        keep = next((a.i for a in total.attribute if a.name == "keepdims"), 1)
        made = helper.make_node(
            "ReduceMean", [total.input[0]], node.output, node.name, keepdims=keep
        )
        if opset < AXES_AS_INPUT:
            made.attribute.append(helper.make_attribute("axes", axes))
        else:
            made.input.append(f"{node.output[0]}_axes")
            constants[made.input[1]] = np.array(axes, np.int64)
        return Fusion([with_origin(made, node)], [total, node])

    return fused(nodes, find)


def _divided(
    node: onnx.NodeProto, constants: MutableMapping[str, Array]
) -> tuple[str, float] | None:
    """Return what a node divides, and the number that it divides by."""
    if node.op_type not in ("Div", "Mul") or len(node.input) != 2:
        return None
    pairs = [tuple(node.input)] if node.op_type == "Div" else [
        tuple(node.input), tuple(reversed(node.input))
    ]  # fmt: skip
    for name, other in pairs:
        value = constants.get(other)
        if value is None or value.size != 1 or name in constants or not value.any():
            continue
        number = float(value.ravel()[0])
        return name, number if node.op_type == "Div" else 1 / number
    return None


def _axes(
    total: onnx.NodeProto, constants: MutableMapping[str, Array], rank: int
) -> list[int] | None:
    """Return the axes of a sum, counted from the front; none where they are not known."""
    axes = reduced_axes(total, constants)
    if axes is None and any(total.input[1:]):
        return None
    if not axes:
        keeps_all = any(item.i for item in total.attribute if item.name == "noop_with_empty_axes")
        return None if keeps_all else list(range(rank))
    return sorted(axis % max(rank, 1) for axis in axes)
