# SPDX-License-Identifier: Apache-2.0
"""What long work has done, line by line in a file, so that another run goes on from there.

Each line is a JSON value behind a digest of it. The first one says what the file is of. A last line
without its end was being written when the run ended: it is dropped, and that part of the work done
anew. Anything else that is wrong is damage, which is an error: results would be others.
"""

import hashlib
import json
import os
import pathlib
from typing import Any, Self

from opendpu_arch import inputs, outputs
from opendpu_arch.errors import ModelFormatError

Path = str | os.PathLike[str]

DIGITS = 16
"""Hexadecimal digits of the digest in front of a line."""


class KeptLines:
    """Lines in a file, which grows line by line; ``lines`` are those that were there.

    Parameters
    ----------
    path
        The file; it is made if it is missing or empty.
    first
        The first line of a new file.

    Raises
    ------
    ModelFormatError
        It is another kind of file, or damaged.
    OutputError
        It cannot be written.
    """

    def __init__(self, path: Path, first: Any) -> None:
        self.path = pathlib.Path(path)
        outputs.check(path)
        self.lines, size = read(path) if self.path.exists() else ([], 0)
        if not self.lines:
            outputs.write(path, _line(first))
            self.lines = [json.loads(json.dumps(first))]
        elif size < self.path.stat().st_size:
            os.truncate(path, size)
        try:
            self._file = self.path.open("ab")
        except OSError as error:
            raise outputs.refusal(path, error.strerror or str(error)) from error

    def add(self, value: Any) -> None:
        """Write another line.

        Raises
        ------
        OutputError
            It cannot be written.
        """
        try:
            self._file.write(_line(value))
            self._file.flush()
        except OSError as error:
            raise outputs.refusal(self.path, error.strerror or str(error)) from error

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the file."""
        self._file.close()


def read(path: Path) -> tuple[list[Any], int]:
    """Return the lines of a file that are complete, and how many bytes they are.

    Raises
    ------
    ModelFormatError
        It cannot be read, is another kind of file, or damaged.
    """
    name = os.fspath(path)
    try:
        content = inputs.read_bytes(path)
    except OSError as error:
        raise ModelFormatError(f"{name} cannot be read: {error.strerror or error}") from None
    whole, end, _ = content.rpartition(b"\n")
    if content and not whole:
        raise ModelFormatError(f"{name} is no file of kept work")
    found = []
    for number, line in enumerate(whole.split(b"\n") if whole else [], 1):
        digest, _, text = line.partition(b" ")
        if digest != _digest(text):
            raise ModelFormatError(
                f"{name} is no file of kept work" if number == 1
                else f"{name} is damaged: line {number} is not what was written; remove the file "
                "to begin anew"
            )  # fmt: skip
        found.append(inputs.json_value(text))
    return found, len(whole) + len(end)


def _line(value: Any) -> bytes:
    text = json.dumps(value, separators=(",", ":")).encode()
    return _digest(text) + b" " + text + b"\n"


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:DIGITS].encode()
