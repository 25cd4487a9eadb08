# SPDX-License-Identifier: Apache-2.0
"""Model files of every kind as float graphs."""

import pathlib
from collections.abc import Sequence

from opendpu.frontend.binding import Sizes
from opendpu.frontend.formats import Format, format_of
from opendpu.frontend.lowering import load_onnx
from opendpu.frontend.tflite import Requantize, load_tflite
from opendpu.ir import FloatGraph
from opendpu_arch.errors import ToolError


def load_model(
    path: str | pathlib.Path,
    input_shapes: Sizes | None = None,
    *,
    libraries: Sequence[str | pathlib.Path] = (),
    requantize: Requantize = Requantize.NO,
) -> FloatGraph:
    """Convert a model file to a float graph: ONNX, TFLite, or a program of PyTorch (``.pt2``).

    What a file is, its content says. Other parameters and errors are those of
    :func:`opendpu.frontend.load_onnx`.

    Parameters
    ----------
    requantize
        What becomes of TFLite files whose scales the DPU does not compute with.

    Raises
    ------
    ToolError
        It is a program of PyTorch, which is not installed.
    """
    path = pathlib.Path(path)
    match format_of(path):
        case Format.TFLITE:
            return load_tflite(path, input_shapes, requantize=requantize)
        case Format.PYTORCH:
            return _load_pytorch(path, input_shapes)
    return load_onnx(path, input_shapes, libraries=libraries)


def _load_pytorch(path: pathlib.Path, input_shapes: Sizes | None) -> FloatGraph:
    try:
        from opendpu.frontend.pytorch import load_program
    except ModuleNotFoundError as error:
        raise ToolError(
            f"{path} is a program of PyTorch, and needs {error.name}: pip install 'opendpu[torch]'"
        ) from None
    return load_program(path, input_shapes)
