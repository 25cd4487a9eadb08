# SPDX-License-Identifier: Apache-2.0
"""``.npz`` files of arrays by tensor name.

Not through ``numpy.savez``, which cannot store a tensor called ``file``, nor ``numpy.load``, which
leaves broken files open.
"""

import math
import os
import pathlib
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu_arch import outputs
from opendpu_arch.errors import TensorError

Array = npt.NDArray[Any]


def read(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Return the arrays in an ``.npz`` file; TensorError if it is missing or is none."""
    try:
        with pathlib.Path(path).open("rb") as raw, zipfile.ZipFile(raw) as archive:
            arrays: dict[str, Array] = {}
            for member in archive.namelist():
                name = member.removesuffix(".npy")
                if name in arrays:
                    raise ValueError(f"it holds array {name!r} twice")
                arrays[name] = _read_member(archive, member)
            return arrays
    except Exception as error:  # a damaged file makes zipfile and numpy stumble over anything
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TensorError(f"{os.fspath(path)} cannot be read as .npz: {reason}") from error


def _read_member(archive: zipfile.ZipFile, name: str) -> Array:
    """Return one array; nothing is allocated before its size is that of the member."""
    with archive.open(name) as member:
        version = np.lib.format.read_magic(member)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(member)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(member)
        else:
            raise ValueError(f"array {name!r} has version {version}, but must be of 1.0 or 2.0")
        if dtype.hasobject:
            raise ValueError(f"Object arrays cannot be loaded; {name!r} is one")
        wanted, left = math.prod(shape) * dtype.itemsize, archive.getinfo(name).file_size
        if any(size < 0 for size in shape) or wanted != left - member.tell():
            raise ValueError(
                f"array {name!r} of shape {shape} and type {dtype} does not fill its {left} bytes"
            )
        flat = np.frombuffer(bytearray(member.read()), dtype)
        return np.ascontiguousarray(flat.reshape(shape[::-1]).T) if fortran else flat.reshape(shape)


def write(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Write an ``.npz`` file; OutputError if that fails."""
    with outputs.writing(path) as raw, zipfile.ZipFile(raw, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
