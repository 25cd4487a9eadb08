# SPDX-License-Identifier: Apache-2.0
"""Folders and files for results."""

import pathlib
import re

from opendpu_arch import outputs
from opendpu_arch.errors import OutputError


def made(folder: pathlib.Path) -> pathlib.Path:
    """Return a folder that is there.

    Raises
    ------
    OutputError
        It cannot be made or written.
    """
    outputs.check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder} cannot be made: {error.strerror or error}") from None
    return folder


def file_name(tensor: str) -> str:
    """Return a name for the file of a tensor."""
    return re.sub(r"[^\w.-]", "_", tensor)
