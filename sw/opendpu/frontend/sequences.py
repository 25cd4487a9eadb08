# SPDX-License-Identifier: Apache-2.0
"""Sequences of tensors whose members are known while a model is read: the tensors themselves.

Exporters write sequences for lists of a program: what ``chunk``, ``split`` and ``unbind`` make, and
what is appended to and joined in the end. Split, Concat and the like say the same of tensors, of
which the DPU computes what lies between. Optional values that are there are what they hold.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import onnx
from onnx import TensorProto, helper

from opendpu.frontend.def_use import with_origin
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

AXES_AS_INPUT = 13
"""First operator set whose Split, Squeeze and Unsqueeze have sizes and axes as inputs."""
MOST_MEMBERS = 1 << 10
"""Tensors of the longest sequence that is taken apart."""


class Members(NamedTuple):
    """What a sequence holds: names of tensors, and their element type where it is empty."""

    names: tuple[str, ...]
    element: int = TensorProto.FLOAT


class Known(Protocol):
    """What is known of a model up to some node."""

    constants: dict[str, Array]
    members: dict[str, Members]

    @property
    def opset(self) -> int:
        """Version of ONNX's own operator set."""

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a tensor, if it is known."""


def taken_apart(node: onnx.NodeProto, known: Known) -> list[onnx.NodeProto] | None:
    """Return nodes on tensors in place of one on sequences or optional values.

    None where it stays as it is. Members of the sequence that it makes are noted in ``known``.
    """
    rule = RULES.get(node.op_type) if node.domain in DEFAULT_DOMAINS else None
    if rule is None or not node.output:
        return None
    made = rule(node, known)
    return None if made is None else [with_origin(other, node) for other in made]


def put_together(name: str, members: Members) -> onnx.NodeProto:
    """Return the node that makes a sequence of its members, for who takes nothing else."""
    if not members.names:
        return helper.make_node("SequenceEmpty", [], [name], dtype=members.element)
    return helper.make_node("SequenceConstruct", list(members.names), [name])


def side_by_side(
    name: str, tensors: Sequence[str], axis: int, known: Known
) -> list[onnx.NodeProto]:
    """Return nodes that put tensors of one shape along a new axis."""
    made = [
        _with_axes("Unsqueeze", tensor, f"{name}/member{i}", axis, known)
        for i, tensor in enumerate(tensors)
    ]
    joined = helper.make_node("Concat", [n.output[0] for n in made], [name], axis=axis)
    return [*made, joined]


def _with_axes(op_type: str, source: str, name: str, axis: int, known: Known) -> onnx.NodeProto:
    """Return Squeeze or Unsqueeze of one axis."""
    if known.opset < AXES_AS_INPUT:
        return helper.make_node(op_type, [source], [name], axes=[axis])
    known.constants[f"{name}/axes"] = np.array([axis], np.int64)
    return helper.make_node(op_type, [source, f"{name}/axes"], [name])


def _attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((int(item.i) for item in node.attribute if item.name == name), default)


def _number(node: onnx.NodeProto, index: int, known: Known, default: int) -> int | None:
    """Return an input that is one number; None where it is not known."""
    name = node.input[index] if index < len(node.input) else ""
    if not name:
        return default
    value = known.constants.get(name)
    return int(value.ravel()[0]) if value is not None and value.size == 1 else None


def _held(node: onnx.NodeProto, known: Known) -> tuple[str, ...] | None:
    """Return the members of the first input, if they are known."""
    found = known.members.get(node.input[0]) if node.input else None
    return None if found is None else found.names


def _hold(node: onnx.NodeProto, known: Known, names: Sequence[str]) -> None:
    known.members[node.output[0]] = Members(tuple(names))


def _empty(node: onnx.NodeProto, known: Known) -> list[onnx.NodeProto]:
    element = _attribute(node, "dtype", TensorProto.FLOAT)
    known.members[node.output[0]] = Members((), element)
    return []


def _construct(node: onnx.NodeProto, known: Known) -> list[onnx.NodeProto]:
    _hold(node, known, node.input)
    return []


def _insert(node: onnx.NodeProto, known: Known) -> list[onnx.NodeProto] | None:
    held = _held(node, known)
    if held is None or len(held) >= MOST_MEMBERS:
        return None
    place = _number(node, 2, known, len(held))
    if place is None or not -len(held) <= place <= len(held):
        return None
    place += len(held) if place < 0 else 0
    _hold(node, known, (*held[:place], node.input[1], *held[place:]))
    return []


def _erase(node: onnx.NodeProto, known: Known) -> list[onnx.NodeProto] | None:
    held = _held(node, known)
    place = _number(node, 1, known, -1)
    if held is None or len(held) < 2 or place is None or not -len(held) <= place < len(held):
        return None
    place %= len(held)
    _hold(node, known, (*held[:place], *held[place + 1 :]))
    return []


def _at(node: onnx.NodeProto, known: Known) -> list[onnx.NodeProto] | None:
    held, place = _held(node, known), _number(node, 1, known, 0)
    if held is None or place is None or not -len(held) <= place < len(held):
        return None
    return [helper.make_node("Identity", [held[place]], [node.output[0]])]


def _length(node: onnx.NodeProto, known: Known) -> list[onnx.NodeProto] | None:
    held = _held(node, known)
    if held is None:
        return None
    known.constants[node.output[0]] = np.array(len(held), np.int64)
    return []


def _concat(node: onnx.NodeProto, known: Known) -> list[onnx.NodeProto] | None:
    held = _held(node, known)
    if not held or not any(item.name == "axis" for item in node.attribute):
        return None
    axis, name = _attribute(node, "axis", 0), node.output[0]
    if _attribute(node, "new_axis", 0):
        return side_by_side(name, held, axis, known)
    return [helper.make_node("Concat", list(held), [name], axis=axis)]


def _split(node: onnx.NodeProto, known: Known) -> list[onnx.NodeProto] | None:
    shape, axis = known.shape(node.input[0]), _attribute(node, "axis", 0)
    if shape is None or not -len(shape) <= axis < len(shape):
        return None
    sizes = _sizes(node, known, shape[axis])
    if sizes is None or not 0 < len(sizes) <= MOST_MEMBERS:
        return None
    name = node.output[0]
    names = [f"{name}/part{i}" for i in range(len(sizes))]
    made = [_divided(node.input[0], names, sizes, axis, known)]
    if len(node.input) < 2 and not _attribute(node, "keepdims", 1):
        made += [_with_axes("Squeeze", part, f"{part}/plain", axis, known) for part in names]
        names = [f"{part}/plain" for part in names]
    _hold(node, known, names)
    return made


def _sizes(node: onnx.NodeProto, known: Known, whole: int) -> list[int] | None:
    """Return the sizes of the parts that SplitToSequence makes of an axis."""
    if len(node.input) < 2 or not node.input[1]:
        return [1] * whole
    given = known.constants.get(node.input[1])
    if given is None:
        return None
    if given.ndim == 0:
        step = int(given)
        if step < 1:
            return None
        return [min(step, whole - start) for start in range(0, whole, step)]
    sizes = [int(size) for size in given.ravel()]
    return sizes if sum(sizes) == whole and min(sizes, default=0) > 0 else None


def _divided(
    source: str, names: Sequence[str], sizes: Sequence[int], axis: int, known: Known
) -> onnx.NodeProto:
    if known.opset < AXES_AS_INPUT:
        return helper.make_node("Split", [source], list(names), axis=axis, split=list(sizes))
    known.constants[f"{names[0]}/sizes"] = np.array(sizes, np.int64)
    return helper.make_node("Split", [source, f"{names[0]}/sizes"], list(names), axis=axis)


def _same(node: onnx.NodeProto, known: Known) -> list[onnx.NodeProto] | None:
    """What hands on a sequence hands on its members; a tensor is what an optional value holds."""
    if _held(node, known) is not None:
        known.members[node.output[0]] = known.members[node.input[0]]
        return []
    if node.op_type == "Identity" or not node.input or known.shape(node.input[0]) is None:
        return None
    return [helper.make_node("Identity", [node.input[0]], [node.output[0]])]


def _there(node: onnx.NodeProto, known: Known) -> list[onnx.NodeProto] | None:
    if not node.input or (_held(node, known) is None and known.shape(node.input[0]) is None):
        return None
    known.constants[node.output[0]] = np.array(True)
    return []


RULES: Mapping[str, Callable[[onnx.NodeProto, Known], list[onnx.NodeProto] | None]] = {
    "ConcatFromSequence": _concat, "Identity": _same, "Optional": _same,
    "OptionalGetElement": _same, "OptionalHasElement": _there, "SequenceAt": _at,
    "SequenceConstruct": _construct, "SequenceEmpty": _empty, "SequenceErase": _erase,
    "SequenceInsert": _insert, "SequenceLength": _length, "SplitToSequence": _split,
}  # fmt: skip
"""What becomes of operators on sequences, and of those on values that may not be there."""
