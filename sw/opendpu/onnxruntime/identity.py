# SPDX-License-Identifier: Apache-2.0
"""What a compiled model was made from: the model, weights in other files, options, samples."""

import os
import pathlib

import onnx
from google.protobuf.message import DecodeError

from opendpu.frontend.binding import Sizes
from opendpu.frontend.model_file import external_files
from opendpu.onnxruntime.options import ProviderOptions
from opendpu_arch import cache
from opendpu_arch.errors import ModelFormatError
from opendpu_arch.target import Target

Model = str | os.PathLike[str] | onnx.ModelProto
"""A model by its file, or in memory."""


def model_of(given: str | os.PathLike[str] | bytes) -> Model:
    """Return a model by its file, or what its bytes are.

    Raises
    ------
    ModelFormatError
        The bytes are no model.
    """
    if not isinstance(given, bytes):
        return given
    try:
        return onnx.load_model_from_string(given)
    except Exception as error:  # protobuf's errors have no common base
        raise ModelFormatError(f"the model's bytes are no ONNX: {error}") from None


def loaded(given: str | os.PathLike[str] | bytes) -> onnx.ModelProto:
    """Return a model with its weights in memory; onnxruntime has opened it before."""
    model = model_of(given)
    return model if isinstance(model, onnx.ModelProto) else onnx.load(os.fspath(model))


def content_of(model: Model) -> bytes:
    """Return a model as bytes, without weights that are in other files.

    Raises
    ------
    ModelFormatError
        The file cannot be read.
    """
    if isinstance(model, onnx.ModelProto):
        return model.SerializeToString(deterministic=True)
    try:
        return pathlib.Path(model).read_bytes()
    except OSError as error:
        raise ModelFormatError(f"{os.fspath(model)}: cannot be read: {error.strerror}") from None


def digest_of(
    model: Model, content: bytes, target: Target, options: ProviderOptions,
    sizes: Sizes | None = None,
) -> str:  # fmt: skip
    """Return the digest of all that counts for the program: other inputs have another one.

    Parameters
    ----------
    model, content
        The model, and what :func:`content_of` gives for it.
    target, options
        What it is compiled for, and with. Samples count by the names, sizes and times of their
        files, weights in other files by what is in them.
    sizes
        Of inputs, as a session has them.
    """
    weights = map(cache.content_hash, _weights(model, content))
    given = options.calibration
    changed = "requantized" if options.requantize else ""
    shown = str(sorted((sizes or {}).items()))
    return cache.digest(
        content, str(target.fingerprint), given, _stamp(given), changed, shown, *weights
    )


def _weights(model: Model, content: bytes) -> list[pathlib.Path]:
    """Return the files of weights beside the model; the front end says what is wrong with it."""
    if isinstance(model, onnx.ModelProto):
        return external_files(model.graph, pathlib.Path())
    try:
        graph = onnx.load_model_from_string(content).graph
    except (DecodeError, ValueError):
        return []
    return external_files(graph, pathlib.Path(model).parent)


def _stamp(path: str) -> str:
    """Return what tells that calibration data, a file or a folder, is another than before."""
    if not path:
        return ""
    start = pathlib.Path(path)
    stamps = []
    for found in (start, *sorted(start.rglob("*"))):
        try:
            stat = found.stat()
        except OSError:
            continue
        stamps.append(f"{found} {stat.st_size} {stat.st_mtime_ns}")
    return "\n".join(stamps)
