# SPDX-License-Identifier: Apache-2.0
"""Calibration data in the forms of TensorFlow as batches by input."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from opendpu.ir import Array, FloatGraph
from opendpu_arch.errors import TensorError

DEFAULT_BATCH = 32
"""Of arrays; everything else comes in batches."""
CODE = "QUANTIZER_TF2_INVALID_CALIB_DATASET"


def batches(
    dataset: Any, names: Sequence[str], *, steps: int | None = None, batch_size: int | None = None
) -> Iterator[dict[str, Array]]:  # fmt: skip
    """Yield batches by input.

    Parameters
    ----------
    dataset
        An array or several, a ``tf.data.Dataset``, a ``keras.utils.Sequence``, or any iterable of
        batches: inputs, or pairs of inputs and labels.
    names
        Names of the model's inputs, in order.
    steps
        How many batches at most; none for all. Arrays do not take it.
    batch_size
        Of arrays; 32 by default.

    Raises
    ------
    TensorError
        There is no data, or it is none of these.
    """
    if dataset is None:
        raise TensorError("calib_dataset is None, but has to be given", code=CODE)
    if isinstance(dataset, np.ndarray | Mapping) or _are_arrays(dataset, names):
        yield from _of_arrays(dataset, names, batch_size or DEFAULT_BATCH)
        return
    items: Any = dataset
    if not hasattr(dataset, "__iter__") and hasattr(dataset, "__getitem__"):
        items = (dataset[index] for index in range(len(dataset)))
    elif not hasattr(dataset, "__iter__"):
        raise TensorError(
            f"calib_dataset is a {type(dataset).__name__}, but must be an array, a "
            "tf.data.Dataset, a keras.utils.Sequence or an iterable of batches", code=CODE,
        )  # fmt: skip
    count = steps
    if count is None and hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__"):
        count = len(dataset)  # Keras's sequences may go on for ever
    for item in itertools.islice(items, count):
        yield _by_name(item, names)


class PeekableBatches:
    """Batches whose first one may be looked at before they are read, once.

    Parameters
    ----------
    given
        The batches; errors of theirs are raised when they are read.
    """

    def __init__(self, given: Iterator[dict[str, Array]]) -> None:
        self._given = given
        self._first: list[dict[str, Array]] = []

    def peek(self) -> dict[str, Array]:
        """Return the first batch; nothing if there is none, or no data."""
        if not self._first:
            try:
                self._first.append(next(self._given))
            except (StopIteration, TensorError):
                return {}
        return self._first[0]

    def __iter__(self) -> Iterator[dict[str, Array]]:
        """Return the batches."""
        return itertools.chain(self._first, self._given)


def with_all_axes(
    graph: FloatGraph, given: Iterable[dict[str, Array]]
) -> Iterator[dict[str, Array]]:
    """Yield batches with the axes that the inputs of a graph have and the arrays have not.

    That is the last one, which models of Keras take samples without where it has one element; or
    the first, where a batch is a single sample.
    """
    shapes = {node.name: node.shape for node in graph if node.kind == "data"}
    for batch in given:
        yield {name: _completed(array, shapes.get(name, ())) for name, array in batch.items()}


def _completed(array: Array, shape: Sequence[int]) -> Array:
    if array.ndim != len(shape) - 1:
        return array
    if shape[-1] == 1 and array.shape[1:] == tuple(shape[1:-1]):
        return array[..., None]
    return array[None] if array.shape == tuple(shape[1:]) else array


def random_batch(graph: FloatGraph, seed: int, size: int = 2) -> dict[str, Array]:
    """Return normally distributed samples, for what needs none but has to be shown some."""
    rng = np.random.default_rng(seed)
    return {
        node.name: rng.standard_normal((size, *node.shape[1:])).astype(node.type.dtype)
        for node in graph
        if node.kind == "data"
    }


def _of_arrays(
    given: Any, names: Sequence[str], size: int
) -> Iterator[dict[str, Array]]:  # fmt: skip
    arrays = _by_name(given, names)
    total = min(len(array) for array in arrays.values())
    for start in range(0, total, size):
        yield {name: array[start : start + size] for name, array in arrays.items()}


def _are_arrays(dataset: Any, names: Sequence[str]) -> bool:
    """Tell whether a list is all samples of each input, as Keras takes them, not one of batches.

    It is if there is an array for each of several inputs, which hold as many samples: as a batch,
    an array alone would be that of the first input, and the others were missing.
    """
    if not isinstance(dataset, list | tuple) or len(dataset) != len(names) or len(names) < 2:
        return False
    shapes: list[Sequence[Any]] = [getattr(part, "shape", ()) for part in dataset]
    return all(map(len, shapes)) and len({int(shape[0]) for shape in shapes}) == 1


def _by_name(item: Any, names: Sequence[str]) -> dict[str, Array]:
    """Return one batch by input; labels behind it are left out."""
    if isinstance(item, Mapping):
        return {str(name): np.asarray(value) for name, value in item.items()}
    if isinstance(item, tuple) and len(item) in (2, 3) and len(names) == 1:
        return _by_name(item[0], names)
    if isinstance(item, tuple | list):
        if len(item) != len(names) and isinstance(item[0], tuple | list | Mapping):
            return _by_name(item[0], names)
        if len(item) == 1 and len(names) == 1:
            return {names[0]: np.asarray(item[0])}
        if len(item) != len(names):
            raise TensorError(
                f"a batch of calib_dataset has {len(item)} parts, but the model has the inputs "
                f"{', '.join(names)}", code=CODE,
            )  # fmt: skip
        return {name: np.asarray(part) for name, part in zip(names, item, strict=True)}
    return {names[0]: np.asarray(item)}
