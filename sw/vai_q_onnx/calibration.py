# SPDX-License-Identifier: Apache-2.0
"""Readers of calibration data as batches."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph

Batch = dict[str, npt.NDArray[Any]]

RANDOM_SAMPLES = 16
"""Samples of a quick test without data."""


class Reader(Protocol):
    """What ``CalibrationDataReader`` of onnxruntime promises."""

    def get_next(self) -> Batch | None:
        """Return the next batch by input, none at the end."""
        ...


def batches_of(reader: Reader) -> Iterator[Batch]:
    """Yield what a reader has."""
    while (batch := reader.get_next()) is not None:
        yield batch


class RandomDataReader:
    """Random numbers in the shapes of a graph's inputs: the guide's quick test.

    Parameters
    ----------
    graph
        What the data is for; integers and bools get zeros.
    count
        How many batches there are.
    seed
        Of the random numbers.
    """

    def __init__(self, graph: Graph, count: int = RANDOM_SAMPLES, seed: int = 0) -> None:
        self._inputs = {node.name: node.type for node in graph if node.kind == "data"}
        self._left = count
        self._random = np.random.default_rng(seed)

    def get_next(self) -> Batch | None:
        """Return the next batch, none at the end."""
        if not self._left:
            return None
        self._left -= 1
        return {
            name: (
                self._random.standard_normal(made.shape).astype(made.dtype)
                if made.dtype.kind == "f"
                else np.zeros(made.shape, made.dtype)
            )
            for name, made in self._inputs.items()
        }
