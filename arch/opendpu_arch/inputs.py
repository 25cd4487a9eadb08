# SPDX-License-Identifier: Apache-2.0
"""Input files: read whole where that ends, and JSON without surprises."""

import errno
import json
import os
import pathlib
import stat
from typing import Any

Path = str | os.PathLike[str]

_NULL = os.makedev(1, 3) if hasattr(os, "makedev") else None
"""``/dev/null``, the one character device that is read as what it is: empty."""


def read_bytes(path: Path) -> bytes:
    """Return what a file holds.

    Raises
    ------
    OSError
        It cannot be read, or is a device such as ``/dev/zero``, which has no end.
    """
    refuse_device(path)
    return pathlib.Path(path).read_bytes()


def read_text(path: Path) -> str:
    """Return the UTF-8 text of a file; also UnicodeDecodeError, see :func:`read_bytes`."""
    refuse_device(path)
    return pathlib.Path(path).read_text(encoding="utf-8")


def refuse_device(path: Path) -> None:
    """Raise OSError where ``path`` is missing, or a character device other than ``/dev/null``."""
    found = pathlib.Path(path).stat()
    if stat.S_ISCHR(found.st_mode) and found.st_rdev != _NULL:
        raise OSError(errno.EINVAL, "it is a device, but must be a file", os.fspath(path))


def json_value(text: str | bytes) -> Any:
    """Return what a JSON text says; ValueError where it is none, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
