# SPDX-License-Identifier: Apache-2.0
"""Readers of calibration data as batches."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph
from opendpu.ir.types import TensorType
from opendpu_arch.errors import TensorError, UnsupportedError

Batch = dict[str, npt.NDArray[Any]]

RANDOM_SAMPLES = 16
"""Samples of a quick test without data."""


class Reader(Protocol):
    """What ``CalibrationDataReader`` of onnxruntime promises."""

    def get_next(self) -> Batch | None:
        """Return the next batch by input, none at the end."""
        ...


def batches_of(reader: Reader) -> Iterator[Batch]:
    """Yield what a reader has.

    Raises
    ------
    TensorError
        It is no reader, or gives something else than arrays by input.
    """
    if not callable(getattr(reader, "get_next", None)):
        raise TensorError(
            f"the reader of calibration data is of type {type(reader).__name__}, but must have a "
            "method get_next, which gives dictionaries of arrays by input and at last None"
        )
    while (batch := reader.get_next()) is not None:
        if not isinstance(batch, Mapping):
            raise TensorError(
                f"the reader of calibration data gives a {type(batch).__name__}, but must give "
                "dictionaries of arrays by input"
            )
        yield batch


def collected(batches: Iterable[Batch]) -> Batch:
    """Return all batches as one, in memory, by input."""
    every = list(batches)
    return (
        {name: np.concatenate([batch[name] for batch in every]) for name in every[0]}
        if every
        else {}
    )


class RandomDataReader:
    """Random numbers in the shapes of a graph's inputs: the guide's quick test.

    Parameters
    ----------
    graph
        What the data is for; integers and bools get zeros where no range is given.
    count
        How many batches there are.
    seed
        Of the random numbers.
    ranges
        Least and largest value by input, of numbers that are evenly spread.

    Raises
    ------
    UnsupportedError
        A range is none, or of no input.
    """

    def __init__(
        self,
        graph: Graph,
        count: int = RANDOM_SAMPLES,
        seed: int = 0,
        ranges: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        self._inputs = {node.name: node.type for node in graph if node.kind == "data"}
        self._ranges = dict(ranges or {})
        for name, found in self._ranges.items():
            if name not in self._inputs or len(found) != 2 or found[0] > found[1]:
                raise UnsupportedError(
                    f"the range of random data is {list(found)} for {name!r}, but must be the "
                    f"least and the largest value of an input: {', '.join(self._inputs)}"
                )
        self._left = count
        self._random = np.random.default_rng(seed)

    def get_next(self) -> Batch | None:
        """Return the next batch, none at the end."""
        if not self._left:
            return None
        self._left -= 1
        return {name: self._values(name, made) for name, made in self._inputs.items()}

    def _values(self, name: str, made: TensorType) -> npt.NDArray[Any]:
        floating = made.dtype.kind == "f"
        if name in self._ranges:
            low, high = self._ranges[name]
            if floating:
                return self._random.uniform(low, high, made.shape).astype(made.dtype)
            return self._random.integers(int(low), int(high), made.shape, endpoint=True).astype(
                made.dtype
            )
        if floating:
            return self._random.standard_normal(made.shape).astype(made.dtype)
        return np.zeros(made.shape, made.dtype)
