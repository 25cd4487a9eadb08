# SPDX-License-Identifier: Apache-2.0
"""Nodes that move data and whose result is what they are given: left out.

Optimizers of exporters leave them: tf2onnx writes a Transpose of one channel as a Reshape, or as
Unsqueeze and Squeeze, and two in a row give the same shape again, in the middle of what searches
look for.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from opendpu.frontend.def_use import attributes_of, reading, without_unread
from opendpu.frontend.moments import ShapeOf
from opendpu.frontend.repetitions import REPETITIONS
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

VIEWS = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators that keep the elements and their order."""


def without_identities(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Array],
    outputs: Sequence[str],
    shape_of: ShapeOf,
) -> list[onnx.NodeProto]:
    """Return the nodes without those whose result is what they are given.

    ``shape_of`` says the shape of a float32 tensor; what makes one of ``outputs`` stays.
    """
    same: dict[str, str] = {}
    viewed: dict[str, str] = {}
    kept = []
    for node in nodes:
        source = node.input[0] if node.input else ""
        source = same.get(source, source)
        if _is_view(node, shape_of):
            source = viewed.get(source, source)
            viewed[node.output[0]] = source
        elif not _changes_nothing(node, constants):
            kept.append(reading(node, same))
            continue
        if _has_shape(node, source, shape_of) and node.output[0] not in outputs:
            same[node.output[0]] = source
        else:
            kept.append(reading(node, same))
    return without_unread(kept, outputs) if same else list(nodes)


def _has_shape(node: onnx.NodeProto, source: str, shape_of: ShapeOf) -> bool:
    before = shape_of(source)
    return before is not None and before == shape_of(node.output[0])


def _is_view(node: onnx.NodeProto, shape_of: ShapeOf) -> bool:
    """Return whether the elements of a result are those of the first input, in the same order."""
    if node.domain not in DEFAULT_DOMAINS or len(node.output) != 1 or not node.input:
        return False
    return node.op_type in VIEWS or (node.op_type == "Transpose" and keeps_order(node, shape_of))


def keeps_order(transposition: onnx.NodeProto, shape_of: ShapeOf) -> bool:
    """Return whether a transposition moves only axes of one element, of a tensor of known shape."""
    shape = shape_of(transposition.input[0])
    if shape is None:
        return False
    order = attributes_of(transposition).get("perm", range(len(shape))[::-1])
    moved = [axis for axis in order if shape[axis] != 1]
    return moved == sorted(moved)


def _changes_nothing(node: onnx.NodeProto, constants: Mapping[str, Array]) -> bool:
    """Return whether a result of the same shape is what a node is given."""
    if node.domain not in DEFAULT_DOMAINS or len(node.output) != 1:
        return False
    return node.op_type in REPETITIONS or (node.op_type == "Pad" and _is_zero(node, constants))


def _is_zero(pad: onnx.NodeProto, constants: Mapping[str, Array]) -> bool:
    """Return whether a node pads nothing; one that cuts off elsewhere keeps the shape, too."""
    amounts = attributes_of(pad).get("pads")
    if len(pad.input) > 1:
        amounts = constants.get(pad.input[1])
    return amounts is not None and not np.any(amounts)
