# SPDX-License-Identifier: Apache-2.0
"""Calibration data: checked, in the graph's layout and types, and handed out batch by batch."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from opendpu.ir import Array, Graph, Node
from opendpu.quantize.scales.grid import FIX_POINTS, GRID
from opendpu_arch.errors import TensorError

FEW = 10
"""Fewer samples than this are worth a warning."""

WIDE = 128.0
"""Values from here on look like pixels that nobody scaled; networks on them are the exception."""

HUGE = GRID.limits[1] * 2.0 ** -FIX_POINTS[0]
"""The largest magnitude that has a fix point."""


@dataclasses.dataclass(frozen=True)
class Samples:
    """Samples by input name; the first axis of each array counts them.

    Parameters
    ----------
    arrays
        One array for each input, ``[count, ...]``.
    count
        How many samples there are.
    rows
        By input, how many entries of the first axis one evaluation of the graph takes; 0 for an
        input whose whole shape is in each entry.
    """

    arrays: Mapping[str, Array]
    count: int
    rows: Mapping[str, int]

    def stacked(self, start: int, stop: int) -> dict[str, Array]:
        """Return several samples for one evaluation, along the first axis."""
        return {name: array[start:stop] for name, array in self.arrays.items()}

    def single(self, index: int) -> dict[str, Array]:
        """Return one sample in the shapes of the graph."""
        return {
            name: array[index] if not (n := self.rows[name]) else array[index * n : (index + 1) * n]
            for name, array in self.arrays.items()
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


Calibration = Samples | Mapping[str, Array] | Iterable[Mapping[str, Array]]
"""What calibration data may come as: made for the graph already, whole, or batch by batch."""


def calibration_samples(graph: Graph, calib: Calibration) -> Samples:
    """Return calibration data in layout and types of a graph's inputs.

    Raises
    ------
    TensorError
        Data that is missing, empty, unknown, not finite, too large for any scale, or of the
        wrong shape or type.
    """
    if isinstance(calib, Samples):
        return calib
    if not isinstance(calib, Mapping):
        calib = _joined(calib)
    heads = {node.name: node for node in graph if node.kind == "data"}
    unknown = sorted(set(calib) - set(heads))
    if unknown:
        raise TensorError(
            f"{unknown[0]!r} is no input of graph {graph.name!r}; its inputs are: "
            f"{', '.join(heads)}"
        )
    order = graph.attrs.get("onnx_order", {})
    arrays, rows, counts = {}, {}, {}
    for name, node in heads.items():
        if name not in calib:
            raise TensorError(f"input {name!r} of graph {graph.name!r} is missing")
        array = _checked(name, np.asarray(calib[name]))
        axes = order.get(name)
        if axes is not None and len(axes) == array.ndim and array.shape[1:] != node.shape[1:]:
            array = array.transpose(axes)
        arrays[name], rows[name] = _fitted(node, array), _rows(node, array)
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
    return Samples(arrays, count, rows)


def _joined(batches: Iterable[Mapping[str, Array]]) -> dict[str, Array]:
    """Return batches as one array an input."""
    parts: dict[str, list[Array]] = {}
    for batch in batches:
        for name, array in batch.items():
            parts.setdefault(name, []).append(np.asarray(array))
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def _checked(name: str, array: Array) -> Array:
    """Return data that can be samples; TensorError for what cannot."""
    if array.dtype.kind not in "fiub":
        raise TensorError(
            f"calibration data of {name!r} has type {array.dtype}, but must be numbers"
        )
    if array.ndim < 1 or not array.shape[0]:
        raise TensorError(f"calibration data of {name!r} holds no samples")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise TensorError(f"calibration data of {name!r} is not finite everywhere")
        largest = float(np.abs(array).max(initial=0))
        if largest > HUGE:
            raise TensorError(
                f"calibration data of {name!r} holds {largest:g}, but 8 bits need magnitudes up "
                f"to {HUGE:g}"
            )
    return array


def _rows(node: Node, array: Array) -> int:
    return 0 if array.shape[1:] == node.shape and array.ndim > len(node.shape) else node.shape[0]


def _fitted(node: Node, array: Array) -> Array:
    """Return an array in the element type of its input; TensorError if its shape does not fit."""
    whole = array.ndim == len(node.shape) + 1 and array.shape[1:] == node.shape
    if not whole and (array.ndim != len(node.shape) or array.shape[1:] != node.shape[1:]):
        want = ["N", *node.shape[1:]]
        raise TensorError(
            f"input {node.name!r} has shape {list(array.shape)}, but must be "
            f"[{', '.join(map(str, want))}]"
        )
    return array.astype(node.type.dtype, copy=False)


def suspicions(samples: Samples) -> list[str]:
    """Return what looks wrong about data that can be used, a sentence each."""
    found = []
    if samples.count < FEW:
        count = f"{samples.count} sample{'s' * (samples.count != 1)}"
        found.append(f"calibrated with {count} only; 100 to 1000 tell the ranges of tensors")
    for name, array in samples.arrays.items():
        if array.dtype.kind != "f":
            continue
        low, high = float(array.min(initial=0)), float(array.max(initial=0))
        if low == high == 0:
            found.append(f"calibration data of {name!r} is zero everywhere")
        elif (array == array.ravel()[0]).all():
            found.append(f"calibration data of {name!r} is {low or high:g} everywhere")
        elif low >= 0 and WIDE <= high <= 255:
            found.append(
                f"calibration data of {name!r} is in {low:g}..{high:g}: is that what the float "
                "model takes, or 0..1, or mean and deviation removed?"
            )
    return found
