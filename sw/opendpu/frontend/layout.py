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
    """An ONNX tensor in terms of a node of the draft.

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
    """Return the view that ONNX ``Reshape`` makes."""
    if shape == value.shape:
        return value
    if value.flat is not None:
        return Value(value.node, shape, plain(len(shape)), value.flat)
    if same_data(value.shape, value.perm, plain(len(value.shape))):
        return Value(value.node, shape, plain(len(shape)))
    old = [axis for axis, size in enumerate(value.shape) if size != 1]
    new = [axis for axis, size in enumerate(shape) if size != 1]
    if [value.shape[a] for a in old] == [shape[a] for a in new]:
        renamed = dict(zip(old, new, strict=True))
        units = [axis for axis, size in enumerate(shape) if size == 1]
        return Value(value.node, shape, (*units, *(renamed[a] for a in value.perm if a in renamed)))
    return Value(value.node, shape, plain(len(shape)), (value.shape, value.perm))


def source_positions(value: Value) -> npt.NDArray[np.int64]:
    """Return, for each element of the data of a flat value, its row-major position in ONNX."""
    assert value.flat is not None
    shape, perm = value.flat
    return np.arange(math.prod(shape)).reshape(shape).transpose(perm).ravel()
