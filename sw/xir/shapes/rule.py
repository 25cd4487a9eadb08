# SPDX-License-Identifier: Apache-2.0
"""What shape rules have in common."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from opendpu_arch.errors import GraphError

if TYPE_CHECKING:
    from xir.op import Op

Rule = Callable[["Op"], list[int]]
"""From an op to the dimensions of its result."""


def first_dims(op: "Op") -> list[int]:
    """Return the dimensions of the first input; GraphError if there is none."""
    tensors = op.get_input_tensors()
    if not tensors:
        raise GraphError("has no input, so its shape cannot be inferred")
    return tensors[0].dims


def nhwc(op: "Op") -> tuple[int, int, int, int]:
    """Return the first input's dimensions, which must be four."""
    dims = first_dims(op)
    if len(dims) != 4:
        raise GraphError(f"input has dimensions {dims}, but must have 4 (NHWC)")
    return dims[0], dims[1], dims[2], dims[3]


def same_as_input(op: "Op") -> list[int]:
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
