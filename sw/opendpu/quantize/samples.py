# SPDX-License-Identifier: Apache-2.0
"""Calibration data: checked, in the graph's layout and types, and handed out batch by batch."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from opendpu.ir import Array, Graph, Node
from opendpu.quantize.scales.grid import FIX_POINTS, GRID
from opendpu.quantize.spool import FileArray, Stored, spooled
from opendpu_arch.errors import TensorError

FEW = 10
"""Fewer samples than this are worth a warning."""

WIDE = 128.0
"""Values from here on look like pixels that nobody scaled; networks on them are the exception."""

HUGE = GRID.limits[1] * 2.0 ** -FIX_POINTS[0]
"""The largest magnitude that has a fix point."""

TINY = 2.0 ** -(FIX_POINTS[-1] + 1)
"""Magnitudes below this are zero at every fix point."""

PART_BYTES = 1 << 24
"""Size of the parts in which data is checked."""


@dataclasses.dataclass(frozen=True)
class Samples:
    """Samples by input name; the first axis of each array counts them.

    Parts of the arrays are brought into the graph's order of axes and types when they are handed
    out, so that arrays that stay in files (:class:`~opendpu.quantize.spool.FileArray`, memory maps)
    take no memory.

    Parameters
    ----------
    arrays
        One array for each input, ``[count, ...]``.
    count
        How many samples there are.
    rows
        By input, how many entries of the first axis one evaluation of the graph takes; 0 for an
        input whose whole shape is in each entry.
    orders
        By input, the axis of the array that each axis of the graph's input is; none for the same.
    dtypes
        Element types of the graph's inputs.
    ranges
        Smallest and largest value of each array.
    """

    arrays: Mapping[str, Stored]
    count: int
    rows: Mapping[str, int]
    orders: Mapping[str, tuple[int, ...] | None]
    dtypes: Mapping[str, np.dtype[Any]]
    ranges: Mapping[str, tuple[float, float]]

    def first(self, count: int) -> "Samples":
        """Return the first samples only."""
        return dataclasses.replace(self, count=min(count, self.count))

    def chosen(self, numbers: Sequence[int]) -> "Samples":
        """Return some samples only, which are copied into memory."""
        arrays = {}
        for name, array in self.arrays.items():
            rows = self.rows[name] or 1
            parts = [np.asarray(array[index * rows : (index + 1) * rows]) for index in numbers]
            arrays[name] = np.concatenate(parts)
        return dataclasses.replace(self, arrays=arrays, count=len(numbers))

    def stacked(self, start: int, stop: int) -> dict[str, Array]:
        """Return several samples for one evaluation, along the first axis."""
        return {name: self._part(name, start, stop) for name in self.arrays}

    def single(self, index: int) -> dict[str, Array]:
        """Return one sample in the shapes of the graph."""
        return {
            name: self._part(name, index * n, (index + 1) * n)
            if (n := self.rows[name])
            else self._part(name, index, index + 1)[0]
            for name in self.arrays
        }

    def feeds(
        self, size: int, *, batched: bool, stop: int, start: int = 0
    ) -> Iterator[tuple[int, dict[str, Array]]]:
        """Yield the samples from ``start`` to ``stop``: how many, and arrays by input."""
        stop = min(stop, self.count)
        if not batched:
            for index in range(start, stop):
                yield 1, self.single(index)
            return
        for first in range(start, stop, size):
            end = min(first + size, stop)
            yield end - first, self.stacked(first, end)

    def _part(self, name: str, start: int, stop: int) -> Array:
        array, order = np.asarray(self.arrays[name][start:stop]), self.orders[name]
        if order is not None:
            array = array.transpose(order)
        return array.astype(self.dtypes[name], copy=False)


Calibration = Samples | Mapping[str, Stored] | Iterable[Mapping[str, Array]]
"""What calibration data may come as: made for the graph already, whole, or batch by batch."""


def calibration_samples(graph: Graph, calib: Calibration) -> Samples:
    """Return calibration data in layout and types of a graph's inputs.

    Batches of an iterable wait in a file, which goes with the samples.

    Raises
    ------
    TensorError
        Data that is missing, empty, unknown, not finite, too large for any scale, or of the
        wrong shape or type.
    """
    if isinstance(calib, Samples):
        return calib
    given = calib if isinstance(calib, Mapping) else spooled(calib)
    heads = {node.name: node for node in graph if node.kind == "data"}
    unknown = sorted(set(given) - set(heads))
    if unknown:
        raise TensorError(
            f"{unknown[0]!r} is no input of graph {graph.name!r}; its inputs are: "
            f"{', '.join(heads)}"
        )
    onnx_orders = graph.attrs.get("onnx_order", {})
    arrays: dict[str, Stored] = {}
    rows, counts, ranges = {}, {}, {}
    orders: dict[str, tuple[int, ...] | None] = {}
    for name, node in heads.items():
        if name not in given:
            raise TensorError(f"input {name!r} of graph {graph.name!r} is missing")
        array = given[name]
        array = array if isinstance(array, FileArray) else np.asarray(array)
        arrays[name], ranges[name] = array, _checked(name, array)
        axes = onnx_orders.get(name)
        moved = axes is not None and len(axes) == array.ndim and array.shape[1:] != node.shape[1:]
        orders[name] = tuple(axes) if moved else None
        shape = tuple(array.shape[axis] for axis in axes) if moved else array.shape
        if (found := _rows(node, shape)) is None:
            raise TensorError(_misshapen(node, array.shape, axes))
        rows[name] = found
        counts[name] = len(array) // (rows[name] or 1)
    if len(set(counts.values())) > 1:
        sizes = ", ".join(f"{name}: {len(arrays[name])}" for name in arrays)
        raise TensorError(f"inputs have different batch sizes ({sizes})")
    count = min(counts.values(), default=1)
    if not count:
        name = next(iter(counts))
        raise TensorError(
            f"calibration data of {name!r} holds {len(arrays[name])} samples, but the model takes "
            f"{rows[name]} at a time"
        )
    dtypes = {name: node.type.dtype for name, node in heads.items()}
    return Samples(arrays, count, rows, orders, dtypes, ranges)


def _checked(name: str, array: Stored) -> tuple[float, float]:
    """Return the range of data that can be samples; TensorError for what cannot."""
    if array.dtype.kind not in "fiub":
        raise TensorError(
            f"calibration data of {name!r} has type {array.dtype}, but must be numbers"
        )
    if array.ndim < 1 or not array.shape[0]:
        raise TensorError(f"calibration data of {name!r} holds no samples")
    low, high = math.inf, -math.inf
    step = max(1, PART_BYTES // max(1, array.dtype.itemsize * math.prod(array.shape[1:])))
    for start in range(0, array.shape[0], step):
        part = np.asarray(array[start : start + step])
        if not part.size:
            continue
        least, most = float(part.min()), float(part.max())
        if not math.isfinite(least) or not math.isfinite(most):
            entry = start + int(np.argmin(np.isfinite(part).reshape(len(part), -1).all(axis=1)))
            raise TensorError(
                f"calibration data of {name!r} is not finite everywhere; entry {entry} is the "
                "first that is not"
            )
        low, high = min(low, least), max(high, most)
    largest = max(-low, high, 0.0)
    if array.dtype.kind == "f" and largest > HUGE:
        raise TensorError(
            f"calibration data of {name!r} holds {largest:g}, but 8 bits need magnitudes up "
            f"to {HUGE:g}"
        )
    return low, high


def _rows(node: Node, shape: tuple[int, ...]) -> int | None:
    """Return the entries of one evaluation; none if a shape does not fit."""
    if len(shape) == len(node.shape) + 1 and shape[1:] == node.shape:
        return 0
    if len(shape) != len(node.shape) or shape[1:] != node.shape[1:]:
        return None
    return node.shape[0]


def _misshapen(node: Node, shape: tuple[int, ...], axes: Sequence[int] | None) -> str:
    """Return what is said of an array that is no samples, in the model's order of axes first."""
    orders = [node.shape]
    if axes is not None:
        model = dict(zip(axes, node.shape, strict=True))
        orders.insert(0, tuple(model[axis] for axis in range(len(axes))))
    wanted = dict.fromkeys(f"[{', '.join(map(str, ['N', *order[1:]]))}]" for order in orders)
    return f"input {node.name!r} has shape {list(shape)}, but must be {' or '.join(wanted)}"


def suspicions(samples: Samples) -> list[str]:
    """Return what looks wrong about data that can be used, a sentence each."""
    found = []
    if samples.count < FEW:
        count = f"{samples.count} sample{'s' * (samples.count != 1)}"
        found.append(f"calibrated with {count} only; 100 to 1000 tell the ranges of tensors")
    for name, (low, high) in samples.ranges.items():
        if samples.dtypes[name].kind != "f":
            continue
        if low == high == 0:
            found.append(f"calibration data of {name!r} is zero everywhere")
        elif max(-low, high) < TINY:
            found.append(
                f"calibration data of {name!r} has magnitudes up to {max(-low, high):g}, which 8 "
                "bits do not tell from zero"
            )
        elif low == high:
            found.append(f"calibration data of {name!r} is {low:g} everywhere")
        elif low >= 0 and WIDE <= high <= 255:
            found.append(
                f"calibration data of {name!r} is in {low:g}..{high:g}: is that what the float "
                "model takes, or 0..1, or mean and deviation removed?"
            )
    return found
