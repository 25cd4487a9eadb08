# SPDX-License-Identifier: Apache-2.0
"""Files that are read whole."""

import pathlib

from opendpu_arch import inputs
from opendpu_arch.errors import ModelFormatError


def read_bytes(path: pathlib.Path) -> bytes:
    """Return what is in a model's file.

    Raises
    ------
    ModelFormatError
        It is missing, or cannot be read.
    """
    try:
        return inputs.read_bytes(path)
    except FileNotFoundError:
        raise ModelFormatError(f"{path}: no such file", code="XCOM_FILE_NOT_EXISTS") from None
    except OSError as error:
        raise ModelFormatError(f"{path} cannot be read: {error.strerror or error}") from None
