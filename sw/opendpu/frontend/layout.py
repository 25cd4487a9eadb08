# SPDX-License-Identifier: Apache-2.0
"""Where an ONNX tensor lives in the XIR graph, and in which order of axes."""

import dataclasses
import math

import numpy as np
import numpy.typing as npt

CHANNELS_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1)}
"""Order of the axes of an ONNX feature map (NCL, NCHW) in XIR, by rank."""


@dataclasses.dataclass(frozen=True)
class Value:
    """An ONNX tensor in terms of a node of the graph.

    The node's data, row by row, is the ONNX tensor of shape ``shape`` with its axes in the order
    ``perm``; so reshapes and transposes cost nothing until somebody needs another order.
    ``flat`` marks a tensor that was reshaped while its axes were out of order: its data is
    really that of a tensor of shape ``flat[0]`` with axes in the order ``flat[1]``.
    """

    node: str
    shape: tuple[int, ...]
    perm: tuple[int, ...]
    flat: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @property
    def stored(self) -> tuple[int, ...]:
        """Shape in the order of the data."""
        return tuple(self.shape[axis] for axis in self.perm)

    def on(self, node: str) -> "Value":
        """Return the value with the same shape and order, computed by another node."""
        return dataclasses.replace(self, node=node)


def plain(rank: int) -> tuple[int, ...]:
    """Return the order of axes that ONNX itself uses."""
    return tuple(range(rank))


def same_data(shape: tuple[int, ...], one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether two orders of axes give the same row-major data."""
    return [a for a in one if shape[a] != 1] == [a for a in other if shape[a] != 1]


def transposed(value: Value, axes: tuple[int, ...]) -> Value:
    """Return the view that ONNX ``Transpose`` makes; ``value`` must not be flat."""
    shape = tuple(value.shape[axis] for axis in axes)
    return Value(value.node, shape, tuple(axes.index(axis) for axis in value.perm))


def reshaped(value: Value, shape: tuple[int, ...]) -> Value:
    """Return the view that ONNX ``Reshape`` makes; ``flat`` where the data is out of order."""
    if shape == value.shape:
        return value
    if value.flat is not None:
        return Value(value.node, shape, plain(len(shape)), value.flat)
    perm = _split_and_merged(value, shape)
    if perm is None:
        return Value(value.node, shape, plain(len(shape)), (value.shape, value.perm))
    return Value(value.node, shape, perm)


def gathered(value: Value, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the order of axes nearest to that of ``value`` in which it can become ``shape``."""
    order = [axis for axis in value.perm if value.shape[axis] != 1]
    for old, _ in _blocks(value.shape, shape):
        if not _in_order(order, old):
            last = max(old, key=order.index)
            behind = order[order.index(last) + 1 :]
            before = [axis for axis in order if axis not in (*old, *behind)]
            order = [*before, *old, *(axis for axis in behind if axis not in old)]
    units = [axis for axis, size in enumerate(value.shape) if size == 1]
    return (*units, *order)


def _split_and_merged(value: Value, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the order of the new axes, or nothing if joined axes are not next to each other."""
    order = [axis for axis in value.perm if value.shape[axis] != 1]
    made: dict[int, list[int]] = {}
    for old, new in _blocks(value.shape, shape):
        if not _in_order(order, old):
            return None
        made[old[0]] = new
    units = [axis for axis, size in enumerate(shape) if size == 1]
    return (*units, *(axis for first in order for axis in made.get(first, ())))


def _blocks(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """Return the smallest runs of old and new axes that hold the same elements; no units."""
    left, right = ([axis for axis, size in enumerate(s) if size != 1] for s in (old, new))
    found = []
    while left:
        one, other = [left.pop(0)], [right.pop(0)]
        sizes = [old[one[0]], new[other[0]]]
        while sizes[0] != sizes[1]:
            axes, taken, all_sizes = (
                (left, one, old) if sizes[0] < sizes[1] else (right, other, new)
            )
            taken.append(axes.pop(0))
            sizes[0 if axes is left else 1] *= all_sizes[taken[-1]]
        found.append((one, other))
    return found


def _in_order(order: list[int], axes: list[int]) -> bool:
    """Return whether ``axes`` are next to each other in ``order``, in their own order."""
    start = order.index(axes[0])
    return order[start : start + len(axes)] == axes


def source_positions(value: Value) -> npt.NDArray[np.int64]:
    """Return, for each element of the data of a flat value, its row-major position in ONNX."""
    assert value.flat is not None
    shape, perm = value.flat
    return np.arange(math.prod(shape)).reshape(shape).transpose(perm).ravel()
