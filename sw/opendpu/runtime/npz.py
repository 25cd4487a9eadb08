# SPDX-License-Identifier: Apache-2.0
"""``.npz`` files of arrays by tensor name."""

import os
import pathlib
import tempfile
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu_arch.errors import TensorError

Array = npt.NDArray[Any]


def read(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Return the arrays in an ``.npz`` file; TensorError if it is missing or is none."""
    try:
        with np.load(path, allow_pickle=False) as file:
            if isinstance(file, np.ndarray):
                raise TensorError(f"{os.fspath(path)} holds one array without a name, not .npz")
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TensorError(f"{os.fspath(path)} cannot be read as .npz: {reason}") from error


def write(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Write an ``.npz`` file through a temporary one beside it; TensorError if that fails."""
    target = pathlib.Path(path)
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **dict(arrays))  # type: ignore[arg-type]
        pathlib.Path(temporary).chmod(0o644)
        pathlib.Path(temporary).replace(target)
    except OSError as error:
        raise TensorError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            pathlib.Path(temporary).unlink(missing_ok=True)
