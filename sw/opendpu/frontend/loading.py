# SPDX-License-Identifier: Apache-2.0
"""Model files of every kind as float graphs."""

import contextlib
import pathlib
from collections.abc import Iterator, Sequence

from opendpu.frontend.binding import Sizes
from opendpu.frontend.caffe import load_caffe
from opendpu.frontend.formats import Format, format_of
from opendpu.frontend.lowering import load_onnx
from opendpu.frontend.requantizing import Requantize
from opendpu.frontend.tensorflow import load_frozen
from opendpu.frontend.tflite import load_tflite
from opendpu.ir import FloatGraph
from opendpu_arch.errors import ModelFormatError, ToolError


def load_model(
    path: str | pathlib.Path,
    input_shapes: Sizes | None = None,
    *,
    libraries: Sequence[str | pathlib.Path] = (),
    requantize: Requantize = Requantize.NO,
    any_scale: bool = False,
) -> FloatGraph:
    """Convert a model file to a float graph: ONNX, PyTorch, TFLite, TensorFlow, Keras, Caffe.

    What a file is, its content says. Other parameters and errors are those of
    :func:`opendpu.frontend.load_onnx`; of TorchScript, ``input_shapes`` must say the shapes of all
    inputs.

    Parameters
    ----------
    requantize
        What becomes of TFLite and ONNX files whose scales the DPU does not compute with.
    any_scale
        Quantized tensors of TFLite and ONNX files keep whatever scales and zero points they have.

    Raises
    ------
    ToolError
        It is of PyTorch, Keras or TensorFlow 2, which is not installed.
    ModelFormatError
        There is no such file, or it is none of its format.
    """
    path = pathlib.Path(path)
    match format_of(path):
        case Format.TFLITE:
            return load_tflite(path, input_shapes, requantize=requantize, any_scale=any_scale)
        case Format.CAFFE:
            return load_caffe(path, input_shapes)
        case Format.FROZEN_GRAPH:
            return load_frozen(path, input_shapes)
        case Format.PYTORCH:
            with _needs("torch", path, "program of PyTorch"):
                from opendpu.frontend.pytorch import load_program
            return load_program(path, input_shapes)
        case Format.TORCHSCRIPT:
            with _needs("torch", path, "program of PyTorch"):
                from opendpu.frontend.pytorch import load_script
            return load_script(path, input_shapes)
        case Format.KERAS:
            with _needs("tensorflow", path, "model of Keras"):
                from opendpu.frontend.tensorflow.keras_model import load_keras
            return load_keras(path, input_shapes)
        case Format.SAVED_MODEL:
            with _needs("tensorflow", path, "SavedModel of TensorFlow"):
                from opendpu.frontend.tensorflow.saved_model import load_saved_model
            return load_saved_model(path, input_shapes)
    return load_onnx(
        path, input_shapes, libraries=libraries, any_scale=any_scale, requantize=requantize
    )


@contextlib.contextmanager
def _needs(extra: str, path: pathlib.Path, kind: str) -> Iterator[None]:
    """Say which extra is missing where a framework cannot be imported to read what is there."""
    if not path.exists():
        raise ModelFormatError(f"{path}: no such file", code="XCOM_FILE_NOT_EXISTS")
    try:
        yield
    except ModuleNotFoundError as error:
        raise ToolError(
            f"{path} is a {kind}, and needs {error.name}: pip install 'opendpu[{extra}]'"
        ) from None
