# SPDX-License-Identifier: Apache-2.0
"""What a user's own loop shows the network, kept on disk until scales are computed."""

import pathlib
import tempfile
import weakref
from collections.abc import Mapping

import numpy as np

from opendpu.ir import Array

LIMIT = 1024
"""Samples that are kept of any number: the guide finds 100 to 1000 enough."""


class Reservoir:
    """An even random choice of the samples seen so far (Vitter's algorithm R), in mapped files.

    Parameters
    ----------
    shapes
        Shape and type of one sample of each input.
    limit
        How many samples are kept.
    seed
        Of the choice.
    """

    def __init__(
        self, shapes: Mapping[str, tuple[tuple[int, ...], np.dtype[np.generic]]], *,
        limit: int = LIMIT, seed: int = 0,
    ) -> None:  # fmt: skip
        self.seen = 0
        self.limit = limit
        self._random = np.random.default_rng(seed)
        folder = tempfile.TemporaryDirectory(prefix="opendpu-calibration-")
        self._arrays: dict[str, np.memmap[tuple[int, ...], np.dtype[np.generic]]] = {
            name: np.memmap(
                pathlib.Path(folder.name) / f"{index}.bin", dtype, "w+", shape=(limit, *shape)
            )
            for index, (name, (shape, dtype)) in enumerate(shapes.items())
        }
        self._end = weakref.finalize(self, folder.cleanup)

    @property
    def kept(self) -> int:
        """How many samples there are."""
        return min(self.seen, self.limit)

    def add(self, batch: Mapping[str, Array]) -> None:
        """Take in samples that are stacked along the first axis."""
        count = len(next(iter(batch.values())))
        for index in range(count):
            place = self.seen
            self.seen += 1
            if place >= self.limit:
                place = int(self._random.integers(self.seen))
                if place >= self.limit:
                    continue
            for name, array in batch.items():
                self._arrays[name][place] = array[index]

    def samples(self) -> dict[str, Array]:
        """Return what is kept, by input."""
        return {name: array[: self.kept] for name, array in self._arrays.items()}

    def close(self) -> None:
        """Remove the files."""
        self._arrays.clear()
        self._end()
