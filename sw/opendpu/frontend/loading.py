# SPDX-License-Identifier: Apache-2.0
"""Model files of every kind, by their suffix."""

import pathlib
from collections.abc import Sequence

from opendpu.frontend.binding import Sizes
from opendpu.frontend.lowering import load_onnx
from opendpu.ir import FloatGraph
from opendpu_arch.errors import ToolError

PROGRAM = ".pt2"
"""What PyTorch calls files of ``torch.export.save``."""


def load_model(
    path: str | pathlib.Path,
    input_shapes: Sizes | None = None,
    *,
    libraries: Sequence[str | pathlib.Path] = (),
) -> FloatGraph:
    """Convert a model file to a float graph: a program of PyTorch (``.pt2``), or else ONNX.

    See :func:`opendpu.frontend.load_onnx` for parameters and errors.

    Raises
    ------
    ToolError
        It is a program of PyTorch, which is not installed.
    """
    if pathlib.Path(path).suffix != PROGRAM:
        return load_onnx(path, input_shapes, libraries=libraries)
    try:
        from opendpu.frontend.pytorch import load_program
    except ModuleNotFoundError as error:
        raise ToolError(
            f"{path} is a program of PyTorch, and needs {error.name}: pip install 'opendpu[torch]'"
        ) from None
    return load_program(pathlib.Path(path), input_shapes)
