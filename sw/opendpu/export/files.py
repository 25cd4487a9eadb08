# SPDX-License-Identifier: Apache-2.0
"""ONNX models to files, in one piece or not at all."""

import os
import pathlib

import onnx
from google.protobuf.message import EncodeError
from onnx import external_data_helper

from opendpu_arch import outputs
from opendpu_arch.errors import OutputError

EXTERNAL_BYTES = 1 << 10
"""Constants from this size on go to the file beside, where there is one."""

LARGEST = (1 << 31) - 1
"""Bytes of the largest protobuf message."""


def write_onnx(
    model: onnx.ModelProto, path: str | os.PathLike[str], *, external_data: bool = False
) -> None:
    """Write a model; with ``external_data``, its large constants to ``NAME.data`` beside it.

    Raises
    ------
    OutputError
        A file cannot be written, or one would be larger than protobuf allows.
    """
    if external_data:
        _write_external(model, pathlib.Path(path))
    try:
        content = model.SerializeToString()
    except (EncodeError, ValueError) as error:
        raise OutputError(f"{os.fspath(path)} cannot be written: {error}") from None
    if len(content) > LARGEST:
        raise OutputError(
            f"{os.fspath(path)} would have {len(content)} bytes, but {LARGEST} are the most; "
            "external data would lift that"
        )
    outputs.write(path, content)


def _write_external(model: onnx.ModelProto, path: pathlib.Path) -> None:
    """Move large constants out of a model into the file beside it."""
    place = path.with_name(f"{path.name}.data")
    with outputs.writing(place) as file:
        for tensor in model.graph.initializer:
            data = tensor.raw_data
            if len(data) < EXTERNAL_BYTES:
                continue
            external_data_helper.set_external_data(
                tensor, place.name, offset=file.tell(), length=len(data)
            )
            file.write(data)
            tensor.ClearField("raw_data")
