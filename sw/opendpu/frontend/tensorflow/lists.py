# SPDX-License-Identifier: Apache-2.0
"""Lists of tensors that loops read and fill, as one tensor with an axis in front.

TensorFlow 2 has ``TensorList...``, TensorFlow 1 ``TensorArray...V3``, whose lists go through the
operators as ``flow``. Until a list has its first element, the shape of its elements may be open.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from opendpu.frontend.building import Builder
from opendpu.frontend.channels_last.axes import known_shape
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.tensorflow.graphdef import Node
from opendpu.ir import TensorType


@dataclasses.dataclass(frozen=True)
class Reserved:
    """A list without elements yet.

    Parameters
    ----------
    count
        How many there is room for.
    dtype
        Type of the elements.
    shape
        Shape of an element; nothing before that is known.
    tried
        Elements only say their shape.
    """

    count: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None = None
    tried: bool = False

    def zeros(self, b: Builder) -> str:
        """Return the list with zeros in it; Refusal if the shape is open."""
        if self.shape is None:
            raise Refusal("nothing says what shape the elements of a list have")
        return b.constant(np.zeros((self.count, *self.shape), self.dtype))


Value = str | Reserved
"""The name of a value, or a list without elements."""


def _integers(b: Builder, value: Value, what: str) -> list[int]:
    found = b.value(value) if isinstance(value, str) else None
    if found is None:
        raise Refusal(f"{what} are computed, but must be constant")
    return [int(number) for number in found.ravel()]


def _filled(b: Builder, value: Value) -> str:
    return value.zeros(b) if isinstance(value, Reserved) else value


def _reserved(b: Builder, count: Value, dtype: Any, shape: Sequence[int] | None) -> Reserved:
    """Return a list; ``shape`` is that of an element, with -1 where it is open."""
    (size,) = _integers(b, count, "sizes")
    if shape is None or min(shape, default=0) < 0:
        return Reserved(size, dtype)
    return Reserved(size, dtype, tuple(shape))


def _with(b: Builder, held: Value, index: str, item: str) -> Value:
    """Return a list with another element."""
    shape = known_shape(b, item)
    if isinstance(held, Reserved):
        held = dataclasses.replace(held, shape=shape)
        if held.tried:
            return held
        held = held.zeros(b)
    place = b.node("Reshape", [b.node("Cast", [index], to=TensorProto.INT64), b.integers(1, 1)])
    return b.node("ScatterND", [held, place, b.node("Unsqueeze", [item, b.integers(0)])])


def _scattered(b: Builder, indices: str, items: str) -> Value:
    """Return a list with elements at some places: all of them, in order."""
    count = known_shape(b, items)[0]
    if _integers(b, indices, "indices") != list(range(count)):
        raise Refusal("elements of a list are not given in order")
    return items


def _at(b: Builder, held: Value, index: Value) -> str:
    return b.node("Gather", [_filled(b, held), str(index)], axis=0)


def _length(b: Builder, held: Value) -> str:
    count = held.count if isinstance(held, Reserved) else known_shape(b, held)[0]
    return b.constant(np.array(count, np.int32))


Convert = Callable[[Builder, Node, Sequence[Any]], Value | list[Value]]
CONVERTERS: dict[str, Convert] = {
    "TensorListReserve": lambda b, node, v: _reserved(
        b, v[1], node.attr("element_dtype"), _integers(b, v[0], "shapes")
    ),
    "TensorListFromTensor": lambda b, node, v: v[0],
    "TensorListGetItem": lambda b, node, v: _at(b, v[0], v[1]),
    "TensorListGather": lambda b, node, v: _at(b, v[0], v[1]),
    "TensorListSetItem": lambda b, node, v: _with(b, v[0], v[1], v[2]),
    "TensorListStack": lambda b, node, v: _filled(b, v[0]),
    "TensorListLength": lambda b, node, v: _length(b, v[0]),
    "TensorArrayV3": lambda b, node, v: (
        [_reserved(b, v[0], node.attr("dtype"), node.attr("element_shape"))] * 2
    ),
    "TensorArrayReadV3": lambda b, node, v: _at(b, v[2], v[1]),
    "TensorArrayGatherV3": lambda b, node, v: _at(b, v[2], v[1]),
    "TensorArrayWriteV3": lambda b, node, v: _with(b, v[3], v[1], v[2]),
    "TensorArrayScatterV3": lambda b, node, v: _scattered(b, v[1], v[2]),
    "TensorArraySizeV3": lambda b, node, v: _length(b, v[1]),
}
"""What each operator on lists makes: of the builder, the node and the values of its inputs."""


def with_shapes(b: Builder, states: Sequence[Any], body: Callable[..., list[Any]]) -> list[Any]:
    """Return the states of a loop with zeros for lists: a round shows what elements they get."""
    if not any(isinstance(state, Reserved) for state in states):
        return list(states)
    kinds = {
        f"{b.origin.name}/tried{i}": TensorType(known_shape(b, state), b.dtype(state))
        for i, state in enumerate(states) if isinstance(state, str)
    }  # fmt: skip
    names = iter(kinds)
    tried = [
        dataclasses.replace(state, tried=True) if isinstance(state, Reserved) else next(names)
        for state in states
    ]
    after = body(b.inner(kinds), tried)
    return [
        new.zeros(b) if isinstance(old, Reserved) and isinstance(new, Reserved) else old
        for old, new in zip(states, after, strict=True)
    ]
