# SPDX-License-Identifier: Apache-2.0
"""Arrays that stay in files: batches of an iterator, and members of ``.npz`` files.

They are read part by part, not mapped, so that not even the pages of what was read stay.
"""

import dataclasses
import math
import os
import pathlib
import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from opendpu.ir import Array
from opendpu_arch.errors import TensorError

COPY_BYTES = 1 << 22
"""Size of the parts in which files are copied."""


@dataclasses.dataclass(frozen=True)
class FileArray:
    """An array of a file, in C order; slices of its first axis are read when they are asked for.

    Parameters
    ----------
    path
        The file.
    offset
        Where the array begins in it.
    shape, dtype
        As numpy has them.
    owner
        What keeps the file.
    """

    path: pathlib.Path
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    owner: object = None

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        """Return the length of the first axis."""
        return self.shape[0]

    def __getitem__(self, part: slice) -> Array:
        """Return a slice of the first axis, without a step."""
        start, stop, _ = part.indices(len(self))
        row = math.prod(self.shape[1:])
        number = max(stop - start, 0) * row
        if not number:
            return np.empty((max(stop - start, 0), *self.shape[1:]), self.dtype)
        begin = self.offset + start * row * self.dtype.itemsize
        found = np.fromfile(self.path, self.dtype, number, offset=begin)
        return found.reshape(-1, *self.shape[1:])


Stored = npt.NDArray[Any] | FileArray
"""An array in memory, mapped, or in a file."""


class Folder:
    """A temporary folder that goes with the last array in it."""

    def __init__(self) -> None:
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="opendpu-arrays-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def spooled(batches: Iterable[Mapping[str, Array]]) -> dict[str, FileArray]:
    """Return batches, arrays by input with the samples in front, as arrays in temporary files.

    The files go with the arrays.

    Raises
    ------
    TensorError
        A batch is no mapping, or lacks an input, or its samples have another shape or type than
        those before.
    """
    folder = Folder()
    writers: dict[str, _Writer] = {}
    try:
        for number, batch in enumerate(batches):
            if not isinstance(batch, Mapping):
                raise TensorError(
                    f"batch {number} of the calibration data is a {type(batch).__name__}, but must "
                    "be arrays by input name"
                )
            if number and set(batch) != set(writers):
                raise TensorError(
                    f"batch {number} of the calibration data has inputs "
                    f"{', '.join(sorted(batch))}, but those before have "
                    f"{', '.join(sorted(writers))}"
                )
            for name, array in batch.items():
                if name not in writers:
                    path = pathlib.Path(folder.path, str(len(writers)))
                    writers[name] = _Writer(name, path, np.asarray(array))
                writers[name].add(np.asarray(array))
    finally:
        for writer in writers.values():
            writer.file.close()
    if not writers:
        raise TensorError("the calibration data has no batches")
    return {name: writer.array(folder) for name, writer in writers.items()}


class _Writer:
    """Appends samples of one input to a file."""

    def __init__(self, name: str, path: pathlib.Path, first: Array) -> None:
        if first.dtype.kind not in "fiub" or not first.ndim:
            raise TensorError(
                f"calibration data of {name!r} has type {first.dtype} and shape "
                f"{list(first.shape)}, but must be numbers with the samples in front"
            )
        self._name, self._path = name, path
        self._dtype, self._shape, self._count = first.dtype, first.shape[1:], 0
        self.file: BinaryIO = path.open("wb")

    def add(self, array: Array) -> None:
        if (array.dtype, array.shape[1:]) != (self._dtype, self._shape):
            raise TensorError(
                f"calibration data of {self._name!r} has samples of {array.dtype} "
                f"{list(array.shape[1:])}, but those before are {self._dtype} {list(self._shape)}"
            )
        self.file.write(np.ascontiguousarray(array).data)
        self._count += len(array)

    def array(self, folder: object) -> FileArray:
        return FileArray(self._path, 0, (self._count, *self._shape), self._dtype, folder)


def npz_arrays(path: str | os.PathLike[str]) -> dict[str, FileArray]:
    """Return the arrays of an ``.npz`` file, which stay where they are.

    Members that are compressed, or in Fortran's order, are copied into temporary files first.

    Raises
    ------
    OSError, ValueError, zipfile.BadZipFile
        The file cannot be read, or is no such file.
    """
    found = {}
    folder = Folder()
    with zipfile.ZipFile(path) as archive:
        for number, info in enumerate(archive.infolist()):
            with archive.open(info) as member:
                shape, fortran, dtype = _header(member)
                if dtype.hasobject:
                    raise ValueError(f"{info.filename} holds Python objects")
                copy = pathlib.Path(folder.path, str(number))
                if fortran and len(shape) > 1:
                    data = np.frombuffer(member.read(), dtype).reshape(shape[::-1]).T
                    np.ascontiguousarray(data).tofile(copy)
                elif info.compress_type == zipfile.ZIP_STORED:
                    begin = _data_offset(pathlib.Path(path), info)
                    array = FileArray(pathlib.Path(path), begin + member.tell(), shape, dtype)
                    found[info.filename.removesuffix(".npy")] = array
                    continue
                else:
                    with copy.open("wb") as file:
                        while part := member.read(COPY_BYTES):
                            file.write(part)
            array = FileArray(copy, 0, shape, dtype, folder)
            found[info.filename.removesuffix(".npy")] = array
    return found


def _header(member: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type of a ``.npy`` stream, which then stands at its data."""
    version = np.lib.format.read_magic(member)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(member)
    return np.lib.format.read_array_header_2_0(member)


def _data_offset(path: pathlib.Path, info: zipfile.ZipInfo) -> int:
    """Return where the data of a stored member begins: behind its local header."""
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        lengths = file.read(4)
    name, extra = (int.from_bytes(lengths[i : i + 2], "little") for i in (0, 2))
    return info.header_offset + 30 + name + extra
