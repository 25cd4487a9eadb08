# SPDX-License-Identifier: Apache-2.0
"""Results of one network that wait in a file while another one is computed.

So only one of two sessions, each with the weights of a whole network, is there at a time.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO

import numpy as np

from opendpu.ir import Array
from opendpu.quantize.spool import FileArray, Folder

Part = tuple[int, Mapping[str, Array]]
"""How many samples, and results by op."""


_IN_MEMORY = contextvars.ContextVar("in_memory", default=False)


@contextlib.contextmanager
def in_memory() -> Iterator[None]:
    """Let results wait in memory: of models and samples that no file may hold."""
    token = _IN_MEMORY.set(True)
    try:
        yield
    finally:
        _IN_MEMORY.reset(token)


@dataclasses.dataclass(frozen=True)
class _Aside:
    """An array in a file, its axes in the order that they had in memory."""

    values: FileArray
    shape: tuple[int, ...]
    order: tuple[int, ...]

    def read(self) -> Array:
        """Return the array with its axes as they were."""
        flat = self.values[:]
        return flat.reshape(self.shape).transpose(np.argsort(self.order, kind="stable"))


def set_aside(parts: Iterable[Part]) -> Iterator[tuple[int, dict[str, Array]]]:
    """Compute all parts before the first is asked for; return them, with their order in memory."""
    if _IN_MEMORY.get():
        return iter([(count, dict(results)) for count, results in parts])
    folder = Folder()
    index = []
    with (folder.path / "results").open("wb") as file:
        for count, results in parts:
            index.append((count, {n: _written(folder, file, a) for n, a in results.items()}))
            del results  # so that the next ones take their room
    return ((count, {n: one.read() for n, one in some.items()}) for count, some in index)


def _written(folder: Folder, file: BinaryIO, array: Array) -> _Aside:
    order = tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    moved = np.ascontiguousarray(array.transpose(order))
    place, flat = file.tell(), (array.size,)
    file.write(moved.reshape(-1).data)
    values = FileArray(folder.path / "results", place, flat, array.dtype, folder)
    return _Aside(values, tuple(array.shape[axis] for axis in order), order)
