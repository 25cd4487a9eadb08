# SPDX-License-Identifier: Apache-2.0
"""Constants that a TFLite file stores without their zeros.

The schema describes such a tensor as a tree: a level for each axis, those of blocks included, in
the order of traversal. A level is dense (all its places are there) or compressed (``segments``
says where the places of each parent begin, ``indices`` which places they are), as in TACO's format
(Kjolstad et al., "The tensor algebra compiler", 2017).
"""

from typing import Any

import numpy as np
import tflite

from opendpu.ir import Array

_VECTORS = {
    tflite.SparseIndexVector.Int32Vector: tflite.Int32Vector,
    tflite.SparseIndexVector.Uint16Vector: tflite.Uint16Vector,
    tflite.SparseIndexVector.Uint8Vector: tflite.Uint8Vector,
}
_LARGEST = 1 << 28
"""Elements of a tensor that a file may describe so; a damaged one asks for any number."""


def dense(values: Array, shape: tuple[int, ...], sparsity: Any) -> Array:
    """Return the tensor of ``shape`` that holds ``values`` at their places, and zeros.

    Parameters
    ----------
    values
        The elements that are stored, one-dimensional.
    shape
        Of the tensor.
    sparsity
        The schema's ``SparsityParameters``.

    Raises
    ------
    ValueError, IndexError
        Levels and elements do not fit the shape.
    """
    blocks = [int(axis) for axis in _array(sparsity.BlockMapAsNumpy())]
    order = [int(axis) for axis in _array(sparsity.TraversalOrderAsNumpy())]
    levels = [sparsity.DimMetadata(i) for i in range(sparsity.DimMetadataLength())]
    rank = len(shape)
    if sorted(order) != list(range(rank + len(blocks))) or len(levels) != len(order):
        raise ValueError(f"{len(levels)} levels in the order {order} for {rank} axes")
    if not all(0 <= axis < rank for axis in blocks) or int(np.prod(shape)) > _LARGEST:
        raise ValueError(f"blocks {blocks} of shape {list(shape)}")
    sizes = _sizes(shape, blocks, dict(zip(order, levels, strict=True)))
    at = np.zeros(1, np.int64)
    places = np.zeros((1, 0), np.int64)
    for axis, level in zip(order, levels, strict=True):
        at, parents, found = _children(level, at, sizes[axis])
        places = np.concatenate([places[parents], found[:, None]], axis=1)
    if len(at) > len(values):
        raise ValueError(f"{len(at)} places for {len(values)} elements")
    by_axis = {axis: places[:, number] for number, axis in enumerate(order)}
    where = [by_axis[axis] for axis in range(rank)]
    for number, axis in enumerate(blocks):
        where[axis] = where[axis] * sizes[rank + number] + by_axis[rank + number]
    result = np.zeros(shape, values.dtype)
    result[tuple(where)] = values[at]
    return result


def _sizes(shape: tuple[int, ...], blocks: list[int], levels: dict[int, Any]) -> list[int]:
    """Return the sizes of all axes, blocks behind, those of the shape counted in blocks."""
    sizes = list(shape)
    for number, axis in enumerate(blocks):
        size = int(levels[len(shape) + number].DenseSize())
        if size < 1 or sizes[axis] % size:
            raise ValueError(f"blocks of {size} along axis {axis} of shape {list(shape)}")
        sizes[axis] //= size
        sizes.append(size)
    return sizes


def _children(level: Any, at: Array, size: int) -> tuple[Array, Array, Array]:
    """Return the places below those ``at``: their numbers, their parents', and their indices."""
    if level.Format() == tflite.DimensionType.DENSE:
        if level.DenseSize() != size:
            raise ValueError(f"a level of {level.DenseSize()} for an axis of {size}")
        found = np.tile(np.arange(size), len(at))
        return np.repeat(at * size, size) + found, np.repeat(np.arange(len(at)), size), found
    segments = _vector(level.ArraySegmentsType(), level.ArraySegments())
    indices = _vector(level.ArrayIndicesType(), level.ArrayIndices())
    counts = segments[at + 1] - segments[at]
    if len(counts) and counts.min() < 0:
        raise ValueError("segments that end before they begin")
    parents = np.repeat(np.arange(len(at)), counts)
    first = np.concatenate([[0], np.cumsum(counts)])[:-1]
    numbers = np.arange(int(counts.sum())) + np.repeat(segments[at] - first, counts)
    found = indices[numbers]
    if len(found) and not 0 <= found.min() <= found.max() < size:
        raise IndexError(f"indices {found.min()} to {found.max()} of an axis of {size}")
    return numbers, parents, found


def _vector(kind: int, table: Any) -> Array:
    made = _VECTORS[kind]()
    made.Init(table.Bytes, table.Pos)
    return _array(made.ValuesAsNumpy()).astype(np.int64)


def _array(found: Array | int) -> Array:
    """Return a vector of the schema, which is 0 where it is empty."""
    return np.zeros(0, np.int64) if isinstance(found, int) else found
