# SPDX-License-Identifier: Apache-2.0
"""What shape rules have in common, and what they read of an op."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from opendpu_arch.errors import GraphError
from xir.datatype import DataType
from xir.oplib import OpDef


class Operand(Protocol):
    """A tensor that goes into an op."""

    @property
    def dims(self) -> list[int]:
        """Dimensions, NHWC."""
        ...

    @property
    def data_type(self) -> DataType:
        """Element type."""
        ...


class Node(Protocol):
    """An op, as far as its result's shape depends on it; :class:`xir.Op` is one."""

    def get_type(self) -> str:
        """Return the op type."""
        ...

    def get_definition(self) -> OpDef:
        """Return what the op library says about the type."""
        ...

    def has_attr(self, name: str) -> bool:
        """Return whether there is an attribute called ``name``."""
        ...

    def get_attr(self, name: str) -> Any:
        """Return the value of an attribute."""
        ...

    def get_input_num(self, name: str | None = None) -> int:
        """Return the number of inputs, of one argument or of all."""
        ...

    def get_input_tensors(self) -> Sequence[Operand]:
        """Return the tensors of all inputs."""
        ...

    def get_input_tensors_by_name(self, name: str) -> Sequence[Operand]:
        """Return the tensors of one argument."""
        ...

    def get_input_tensor(self, name: str, idx: int = 0) -> Operand:
        """Return one tensor of an argument."""
        ...

    def get_input_op(self, name: str, idx: int = 0) -> "Node":
        """Return the op that makes one tensor of an argument."""
        ...


Rule = Callable[[Node], list[int]]
"""From an op to the dimensions of its result."""


def given_numbers(op: Node, argument: str) -> list[int] | None:
    """Return the constant integers that an op has as optional input; nothing without the input."""
    known = any(one.name == argument for one in op.get_definition().args)
    if not known or not op.get_input_num(argument):
        return None
    source = op.get_input_op(argument)
    if not source.get_type().startswith("const"):
        raise GraphError(f"input {argument!r} is computed by {source.get_type()}, not a constant")
    dtype = np.dtype(source.get_attr("data_type").lower().removeprefix("x"))
    numbers = np.frombuffer(source.get_attr("data"), dtype.newbyteorder("<"))
    return [int(number) for number in numbers]


def first_dims(op: Node) -> list[int]:
    """Return the dimensions of the first input; GraphError if there is none."""
    tensors = op.get_input_tensors()
    if not tensors:
        raise GraphError("has no input, so its shape cannot be inferred")
    return tensors[0].dims


def nhwc(op: Node) -> tuple[int, int, int, int]:
    """Return the first input's dimensions, which must be four."""
    dims = first_dims(op)
    if len(dims) != 4:
        raise GraphError(f"input has dimensions {dims}, but must have 4 (NHWC)")
    return dims[0], dims[1], dims[2], dims[3]


def same_as_input(op: Node) -> list[int]:
    """Rule of ops that change no dimension."""
    return first_dims(op)


def axis_of(axis: int, rank: int) -> int:
    """Return ``axis`` counted from the front; GraphError outside ``-rank..rank-1``."""
    if not -rank <= axis < rank:
        raise GraphError(f"axis is {axis}, but must be in {-rank}..{rank - 1}")
    return axis % rank


def broadcast(shapes: Sequence[Sequence[int]]) -> list[int]:
    """Return the shape that all ``shapes`` broadcast to, by numpy's rule."""
    rank = max(len(shape) for shape in shapes)
    padded = [[1] * (rank - len(shape)) + list(shape) for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        found = {size for size in sizes if size != 1}
        if len(found) > 1:
            raise GraphError(f"inputs {', '.join(map(str, shapes))} cannot be broadcast")
        result.append(found.pop() if found else 1)
    return result
