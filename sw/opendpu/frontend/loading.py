# SPDX-License-Identifier: Apache-2.0
"""Model files of every kind, by their suffix."""

import pathlib
from collections.abc import Sequence

from opendpu.frontend.binding import Sizes
from opendpu.frontend.lowering import load_onnx
from opendpu.ir import FloatGraph
from opendpu_arch.errors import ToolError

PROGRAM, SCRIPT = ".pt2", ".pt"
"""What PyTorch calls files of ``torch.export.save``, and usually those of ``torch.jit.save``."""


def load_model(
    path: str | pathlib.Path,
    input_shapes: Sizes | None = None,
    *,
    libraries: Sequence[str | pathlib.Path] = (),
) -> FloatGraph:
    """Convert a model file to a float graph: ``.pt2`` and ``.pt`` of PyTorch, or else ONNX.

    See :func:`opendpu.frontend.load_onnx` for parameters and errors; of ``.pt``, which is
    TorchScript, ``input_shapes`` must say the shapes of all inputs.

    Raises
    ------
    ToolError
        It is a program of PyTorch, which is not installed.
    """
    suffix = pathlib.Path(path).suffix
    if suffix not in (PROGRAM, SCRIPT):
        return load_onnx(path, input_shapes, libraries=libraries)
    try:
        from opendpu.frontend.pytorch import load_program, load_script
    except ModuleNotFoundError as error:
        raise ToolError(
            f"{path} is a program of PyTorch, and needs {error.name}: pip install 'opendpu[torch]'"
        ) from None
    load = load_script if suffix == SCRIPT else load_program
    return load(pathlib.Path(path), input_shapes)
