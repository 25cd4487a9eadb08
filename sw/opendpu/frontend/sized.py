# SPDX-License-Identifier: Apache-2.0
"""ONNX models with other input shapes than the file says."""

import pathlib
from collections.abc import Mapping

import onnx
from google.protobuf.message import DecodeError

from opendpu_arch.errors import ModelFormatError, UnsupportedError


def write_sized(
    path: pathlib.Path, shapes: Mapping[str, tuple[int, ...]], folder: pathlib.Path
) -> pathlib.Path:
    """Write a copy of a model whose inputs have ``shapes`` into ``folder``; return its path.

    The name ``""`` stands for the only input. Dimensions that the file gives must stay.

    Raises
    ------
    ModelFormatError
        The file is no ONNX model.
    UnsupportedError
        There is no such input, or it has other dimensions.
    """
    try:
        model = onnx.load_model(str(path))
    except (OSError, DecodeError, onnx.checker.ValidationError) as error:
        raise ModelFormatError(f"{path} is not an ONNX model: {error}") from None
    weights = {item.name for item in model.graph.initializer}
    inputs = {item.name: item for item in model.graph.input if item.name not in weights}
    given = dict(shapes)
    if "" in given and len(inputs) == 1:
        given[next(iter(inputs))] = given.pop("")
    for name, shape in given.items():
        if name not in inputs:
            label = f"input {name!r}" if name else "one shape without a name"
            raise UnsupportedError(
                f"option 'input_shape' has {label}, but the inputs are: {', '.join(inputs)}",
                code="XCOM_ITEM_UNDEFINED",
            )
        dims = inputs[name].type.tensor_type.shape.dim
        fixed = [dim.dim_value for dim in dims]
        if len(dims) != len(shape) or any(
            have not in (0, want) for have, want in zip(fixed, shape, strict=True)
        ):
            raise UnsupportedError(
                f"option 'input_shape' gives {list(shape)} for input {name!r}, "
                f"but the model has {[size or '?' for size in fixed]}",
                code="XCOM_SIZE_UNMATCH",
            )
        for dim, size in zip(dims, shape, strict=True):
            dim.dim_value = size
    del model.graph.value_info[:]
    copy = folder / path.name
    onnx.save_model(model, str(copy))
    return copy
