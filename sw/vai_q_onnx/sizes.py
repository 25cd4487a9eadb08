# SPDX-License-Identifier: Apache-2.0
"""Sizes that a model leaves open, from the calibration data: the DPU's programs have fixed ones."""

import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx

from opendpu_arch.errors import UnsupportedError
from vai_q_onnx.calibration import Batch

Shape = tuple[int, ...]

OPTION = "RandomDataReaderInputShape"
"""The option that gives shapes of random data."""

SIDE, CHANNELS, LENGTH = 32, 3, 16
"""Sizes that AMD's reader of random data takes for images and rows of numbers."""


def fixed(
    model: onnx.ModelProto, batches: Iterator[Batch]
) -> tuple[dict[str, Shape], Iterator[Batch]]:
    """Return shapes of inputs as the first batch has them, and the batches that are of these.

    Nothing is taken from the data where only the first dimension, the batch, is open; that one
    becomes 1. What is of other shapes, spoken sentences of other lengths say, is left out with a
    warning, and another warning names the sizes.
    """
    dims = _dims(model)
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


def of_random_data(model: onnx.ModelProto, given: object) -> dict[str, Shape]:
    """Return shapes of inputs where there is no calibration data.

    Parameters
    ----------
    model
        The model.
    given
        Shapes by input, or one after the other, or that of the first; a batch that is not positive
        becomes 1. Others that the model leaves open, but for the batch, are those of AMD's reader,
        and a warning names them.

    Raises
    ------
    UnsupportedError
        What is given are no shapes of inputs of the model.
    """
    dims = _dims(model)
    shapes = _by_input(given or {}, list(dims))
    for name in shapes:
        if name not in dims:
            raise UnsupportedError(
                f"extra_options: {OPTION} names {name!r}, which is no input of the model; its "
                f"inputs are: {', '.join(dims)}"
            )
    found = {name: _given(name, shape, len(dims[name])) for name, shape in shapes.items()}
    left = {name: sizes for name, sizes in dims.items() if name not in found}
    missing = {name: _usual(sizes) for name, sizes in left.items() if min(sizes[1:], default=1) < 1}
    if missing:
        said = "; ".join(f"{name}: {list(shape)}" for name, shape in missing.items())
        warnings.warn(
            f"free dimensions, of which no calibration data tells the size, become {said}; "
            f"extra_options={{{OPTION!r}: …}} gives others",
            stacklevel=4,
        )
    return found | missing


def _dims(model: onnx.ModelProto) -> dict[str, list[int]]:
    """Return the sizes of every input; what is not positive is open."""
    constants = {constant.name for constant in model.graph.initializer}
    return {
        item.name: [dim.dim_value for dim in item.type.tensor_type.shape.dim]
        for item in model.graph.input
        if item.name not in constants
    }


def _by_input(given: object, names: Sequence[str]) -> Mapping[str, Any]:
    """Return shapes by input, of a dict, a list of them, or one."""
    if isinstance(given, Mapping):
        return given
    if isinstance(given, Sequence) and not isinstance(given, str) and len(given):
        shapes = given if isinstance(given[0], Sequence) else [given]
        if len(shapes) <= len(names):
            return dict(zip(names, shapes, strict=False))
    raise UnsupportedError(
        f"extra_options: {OPTION} is {given!r}, but must be a dict of shapes by input, or as many "
        f"shapes as there are inputs: {', '.join(names)}"
    )


def _given(name: str, shape: Any, rank: int) -> Shape:
    """Return a shape from the options."""
    whole = isinstance(shape, Sequence) and all(isinstance(size, int) for size in shape)
    if not whole or len(shape) != rank or min(shape[1:], default=1) < 1:
        raise UnsupportedError(
            f"extra_options: {OPTION} is {shape!r} for {name!r}, but must be {rank} sizes, of "
            "which only the batch, the first, may be open"
        )
    return (max(shape[0], 1), *shape[1:]) if shape else ()


def _usual(dims: Sequence[int]) -> Shape:
    """Return sizes for open dimensions: of a small picture, or a row of numbers."""
    usual: Shape = (1, LENGTH) if len(dims) == 2 else (1,) * len(dims)
    if len(dims) == 4:
        last = dims[1] < 1 and 0 < dims[3] <= CHANNELS + 1
        usual = (1, SIDE if last else CHANNELS, SIDE, SIDE)  # channels are last, or second
    return tuple(size if size > 0 else other for size, other in zip(dims, usual, strict=True))


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
