# SPDX-License-Identifier: Apache-2.0
"""What a compiled model was made from: the model, weights in other files, options, samples."""

import hashlib
import os
import pathlib
from collections.abc import Iterator

import onnx
from google.protobuf.message import DecodeError
from onnx import external_data_helper

from opendpu.onnxruntime.options import ProviderOptions
from opendpu_arch.errors import ModelFormatError
from opendpu_arch.target import Target

Model = str | os.PathLike[str] | onnx.ModelProto
"""A model by its file, or in memory."""


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


def digest_of(model: Model, content: bytes, target: Target, options: ProviderOptions) -> str:
    """Return the digest of all that counts for the program: other inputs have another one.

    Parameters
    ----------
    model, content
        The model, and what :func:`content_of` gives for it.
    target, options
        What it is compiled for, and with. Samples count by the names, sizes and times of their
        files, weights in other files by what is in them.
    """
    made = hashlib.sha256(content)
    weights = _weights(model, content)
    for part in (target.fingerprint, options.calibration, _stamp(options.calibration), *weights):
        made.update(b"\0" + str(part).encode())
    return made.hexdigest()


def _weights(model: Model, content: bytes) -> Iterator[str]:
    """Yield the digest of each file of weights beside the model, as far as it is there."""
    folder = pathlib.Path()
    if not isinstance(model, onnx.ModelProto):
        folder = pathlib.Path(model).parent
        try:
            model = onnx.load_model_from_string(content)
        except (DecodeError, ValueError):
            return  # the front end says what is wrong with it
    tensors = [t for t in _tensors(model.graph) if external_data_helper.uses_external_data(t)]
    for location in sorted({external_data_helper.ExternalDataInfo(t).location for t in tensors}):
        path = folder / location
        if path.resolve().is_relative_to(folder.resolve()) and path.is_file():
            with path.open("rb") as file:
                yield hashlib.file_digest(file, "sha256").hexdigest()


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield the constants of a graph and of those inside it."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inside in (attribute.g, *attribute.graphs):
                yield from _tensors(inside)


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
