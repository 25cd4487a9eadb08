# SPDX-License-Identifier: Apache-2.0
"""Softmaxes without what replaces their NaN, where there can be none.

PyTorch exports attention as ``s = Softmax(x)``, ``Where(IsNaN(s), 0, s)``: a row all of whose
scores a mask hides (minus infinity) would be NaN. Scores that a product makes have no such rows,
unless a mask that hides whole rows is added to them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from opendpu.frontend.def_use import DefUse
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

PRODUCTS = frozenset({"MatMul", "Gemm", "Einsum", "Conv"})
"""Operators whose results are finite, as those of a network are."""
SCALING = frozenset({"Add", "Sub", "Mul", "Div"})
MOVING = frozenset({"Reshape", "Transpose", "Unsqueeze", "Squeeze", "Identity"})


def unguarded(
    nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Array], uses: Counter[str]
) -> list[onnx.NodeProto]:
    """Return the nodes without guards that never replace anything.

    The softmax gets the name of the guard's result.
    """
    links = DefUse(nodes, uses)
    dropped: set[int] = set()
    replaced: dict[int, onnx.NodeProto] = {}
    for choice in nodes:
        guard = _guard(choice, links.producers)
        if guard is None:
            continue
        check, softmax = guard
        inside = [id(node) for node in links.readers[softmax.output[0]]]
        if (
            sorted(inside) != sorted((id(check), id(choice)))
            or uses[softmax.output[0]] != len(inside)
            or uses[check.output[0]] != 1
            or not _is_finite(
                softmax.input[0], links.producers, constants, _is_over_last_axis(softmax)
            )
        ):
            continue
        made = onnx.NodeProto()
        made.CopyFrom(softmax)
        made.output[0] = choice.output[0]
        replaced[id(softmax)] = made
        dropped.update((id(check), id(choice)))
    return [replaced.get(id(node), node) for node in nodes if id(node) not in dropped]


def _guard(
    choice: onnx.NodeProto, producers: Mapping[str, onnx.NodeProto]
) -> tuple[onnx.NodeProto, onnx.NodeProto] | None:
    """Return the check for NaN and the softmax of a choice between this and something else."""
    if choice.op_type != "Where" or choice.domain not in DEFAULT_DOMAINS:
        return None
    check, softmax = producers.get(choice.input[0]), producers.get(choice.input[2])
    if check is None or softmax is None or check.op_type != "IsNaN":
        return None
    known = check.domain in DEFAULT_DOMAINS and softmax.domain in DEFAULT_DOMAINS
    if softmax.op_type != "Softmax" or check.input[0] != softmax.output[0] or not known:
        return None
    return check, softmax


def _is_over_last_axis(softmax: onnx.NodeProto) -> bool:
    axes = [item.i for item in softmax.attribute if item.name == "axis"]
    return axes in ([], [-1])


def _is_finite(
    name: str,
    producers: Mapping[str, onnx.NodeProto],
    constants: Mapping[str, Array],
    are_rows: bool,
) -> bool:
    """Return whether scores are those of a product, with finite numbers in every row.

    ``are_rows`` says whether rows of the tensor are those of the softmax.
    """
    node = producers.get(name)
    if node is None or node.domain not in DEFAULT_DOMAINS:
        return False
    if node.op_type in PRODUCTS:
        return True
    if node.op_type in MOVING:
        return _is_finite(node.input[0], producers, constants, are_rows=False)
    return node.op_type in SCALING and all(
        _leaves_some(node, operand, constants[operand], are_rows) if operand in constants
        else _is_finite(operand, producers, constants, are_rows)
        for operand in node.input
    )  # fmt: skip


def _leaves_some(node: onnx.NodeProto, operand: str, value: Array, are_rows: bool) -> bool:
    """Return whether a constant hides no whole row: it is finite, or a mask that is added."""
    if value.dtype.kind in "iu" or np.all(np.isfinite(value)):
        return node.op_type != "Div" or operand == node.input[0] or bool(np.all(value != 0))
    is_mask = node.op_type == "Add" and are_rows and not np.any(np.isnan(value) | (value > 0))
    return is_mask and value.ndim > 0 and bool(np.all(np.any(np.isfinite(value), axis=-1)))
