# SPDX-License-Identifier: Apache-2.0
"""What a model's file is: by what is in it, and by its suffix where that says nothing."""

import enum
import pathlib
import zipfile

from opendpu_arch.errors import ModelFormatError, UnsupportedError


class Format(enum.StrEnum):
    """Kinds of model files."""

    ONNX = "ONNX"
    PYTORCH = "PyTorch"
    TORCHSCRIPT = "TorchScript"
    TFLITE = "TFLite"
    FROZEN_GRAPH = "frozen graph"
    SAVED_MODEL = "SavedModel"
    KERAS = "Keras"
    CAFFE = "Caffe"
    XMODEL = "XIR"


CAFFE_SUFFIXES = (".prototxt", ".caffemodel")
SAVED_MODEL_FILE = "saved_model.pb"
SIGNATURE = "::"
"""Between a SavedModel's folder and the name of a signature."""
FIRST_FIELD = b"\x0a"
"""How a protobuf begins whose first field has number 1 and a length: a GraphDef with a node, which
begins with its name so too, or XIR's graph with its name."""
_SUFFIXES = {
    ".pt2": Format.PYTORCH,
    ".pt": Format.TORCHSCRIPT,
    ".tflite": Format.TFLITE,
    ".pb": Format.FROZEN_GRAPH,
    ".h5": Format.KERAS,
    ".keras": Format.KERAS,
    ".prototxt": Format.CAFFE,
    ".caffemodel": Format.CAFFE,
    ".xmodel": Format.XMODEL,
}
"""Of files that say nothing themselves; all others are taken for ONNX."""


def signed(path: str | pathlib.Path, signature: str | None) -> pathlib.Path:
    """Return how a signature of a SavedModel is called where a file is asked for.

    Raises
    ------
    UnsupportedError
        A signature is asked for, but the file is no SavedModel.
    ModelFormatError
        As of :func:`format_of`.
    """
    if signature is None:
        return pathlib.Path(path)
    kind = format_of(path)
    if kind is not Format.SAVED_MODEL:
        raise UnsupportedError(
            f"--signature is {signature!r}, but {path} is no SavedModel: it is taken for {kind}"
        )
    return pathlib.Path(f"{path}{SIGNATURE}{signature}")


def folder_and_signature(path: str | pathlib.Path) -> tuple[pathlib.Path, str | None]:
    """Return a file, and which of its signatures is asked for: ``FOLDER::NAME``."""
    folder, mark, name = str(path).rpartition(SIGNATURE)
    if mark and name and (pathlib.Path(folder) / SAVED_MODEL_FILE).is_file():
        return pathlib.Path(folder), name
    return pathlib.Path(path), None


def format_of(path: str | pathlib.Path) -> Format:
    """Return what a file is.

    Raises
    ------
    ModelFormatError
        It is a directory that is no SavedModel, or an archive of arrays.
    """
    path, _ = folder_and_signature(path)
    if path.is_dir():
        if (path / SAVED_MODEL_FILE).is_file():
            return Format.SAVED_MODEL
        raise ModelFormatError(f"{path} is a directory, but must be a model file")
    if path.suffix in CAFFE_SUFFIXES:  # one of two files that belong together
        return Format.CAFFE
    head = _head(path)
    if head[4:8] == b"TFL3":
        return Format.TFLITE
    if head.startswith(b"\x89HDF"):
        return Format.KERAS
    if head.startswith(b"PK"):
        return _archive(path)
    if head[:1] == FIRST_FIELD and len(head) > 4:
        inner = head[2:] if head[1] < 0x80 else head[3:]
        return Format.FROZEN_GRAPH if inner[:1] == FIRST_FIELD else Format.XMODEL
    return _SUFFIXES.get(path.suffix, Format.ONNX)


def _archive(path: pathlib.Path) -> Format:
    """Return what an archive is: Keras has a configuration on top, TorchScript a pickle in it.

    So have files of ``torch.save``, of which TorchScript's reader says what they are.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return _SUFFIXES.get(path.suffix, Format.PYTORCH)
    if "config.json" in names:
        return Format.KERAS
    if names and all(name.endswith(".npy") for name in names):
        raise ModelFormatError(f"{path} holds arrays of NumPy, but must be a model file")
    exported = any(name.endswith("archive_format") for name in names)
    pickled = any(name.endswith(("/constants.pkl", "/data.pkl")) for name in names)
    return Format.TORCHSCRIPT if pickled and not exported else Format.PYTORCH


def _head(path: pathlib.Path) -> bytes:
    """Return how a file begins; nothing where it cannot be read, which its reader says better."""
    try:
        with path.open("rb") as file:
            return file.read(16)
    except OSError:
        return b""
