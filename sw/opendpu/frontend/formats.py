# SPDX-License-Identifier: Apache-2.0
"""What a model's file is: by what is in it, and by its suffix where that says nothing."""

import enum
import pathlib
import zipfile

from opendpu_arch.errors import ModelFormatError


class Format(enum.StrEnum):
    """Kinds of model files."""

    ONNX = "ONNX"
    PYTORCH = "PyTorch"
    TFLITE = "TFLite"
    XMODEL = "XIR"


_SUFFIXES = {
    ".pt2": Format.PYTORCH,
    ".tflite": Format.TFLITE,
    ".xmodel": Format.XMODEL,
}
"""Of files that say nothing themselves; all others are taken for ONNX."""


def format_of(path: str | pathlib.Path) -> Format:
    """Return what a file is.

    Raises
    ------
    ModelFormatError
        It is a directory.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        raise ModelFormatError(f"{path} is a directory, but must be a model file")
    head = _head(path)
    if head[4:8] == b"TFL3":
        return Format.TFLITE
    if zipfile.is_zipfile(path):
        return Format.PYTORCH
    if _begins_with_name(head):
        return Format.XMODEL
    return _SUFFIXES.get(path.suffix, Format.ONNX)


def _begins_with_name(head: bytes) -> bool:
    """Return whether the first field of a protobuf is a text in field 1, as XIR's graphs have."""
    return len(head) > 2 and head[0] == 0x0A and 0 < head[1] < 0x80 and chr(head[2]).isprintable()


def _head(path: pathlib.Path) -> bytes:
    """Return how a file begins; nothing where it cannot be read, which its reader says better."""
    try:
        with path.open("rb") as file:
            return file.read(16)
    except OSError:
        return b""
