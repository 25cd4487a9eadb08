# SPDX-License-Identifier: Apache-2.0
"""Sizes that a model leaves open, from the calibration data: the DPU's programs have fixed ones."""

import itertools
import warnings
from collections.abc import Iterator

import onnx

from vai_q_onnx.calibration import Batch

Shape = tuple[int, ...]


def fixed(
    model: onnx.ModelProto, batches: Iterator[Batch]
) -> tuple[dict[str, Shape], Iterator[Batch]]:
    """Return shapes of inputs as the first batch has them, and the batches that are of these.

    Nothing is taken from the data where only the first dimension, the batch, is open; that one
    becomes 1. What is of other shapes, spoken sentences of other lengths say, is left out with a
    warning, and another warning names the sizes.
    """
    constants = {constant.name for constant in model.graph.initializer}
    dims = {
        item.name: [dim.dim_value for dim in item.type.tensor_type.shape.dim]
        for item in model.graph.input
        if item.name not in constants
    }
    if not any(size <= 0 for shape in dims.values() for size in shape[1:]):
        return {}, batches
    first = next(batches, None)
    if first is None:
        return {}, iter(())
    sizes = {
        name: (dims[name][0] if dims[name][0] > 0 else 1, *array.shape[1:])
        for name, array in first.items()
        if dims.get(name)
    }
    said = "; ".join(f"{name}: {list(shape)}" for name, shape in sizes.items())
    warnings.warn(f"free dimensions are those of the first calibration batch: {said}", stacklevel=4)
    return sizes, _of_sizes(sizes, itertools.chain([first], batches))


def _of_sizes(sizes: dict[str, Shape], batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the batches that fit; say how many did not."""
    left = 0
    for batch in batches:
        if all(batch[name].shape[1:] == sizes[name][1:] for name in batch if name in sizes):
            yield batch
        else:
            left += 1
    if left:
        warnings.warn(
            f"{left} calibration batches are left out: their sizes are not those of the first one",
            stacklevel=2,
        )
