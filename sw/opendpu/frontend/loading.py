# SPDX-License-Identifier: Apache-2.0
"""Model files of every kind as float graphs.

The reader of a format other than ONNX is imported when there is a file of it.
"""

import contextlib
import pathlib
from collections.abc import Iterator, Sequence

from opendpu.frontend.binding import Sizes
from opendpu.frontend.formats import Format, folder_and_signature, format_of
from opendpu.frontend.input_values import OPTION, Values
from opendpu.frontend.libraries import check as check_libraries
from opendpu.frontend.lowering import load_onnx
from opendpu.frontend.requantizing import Requantize
from opendpu.ir import FloatGraph
from opendpu_arch import extras
from opendpu_arch.errors import ModelFormatError, UnsupportedError

_WITHOUT_VALUES = {
    Format.PYTORCH: "programs of PyTorch: export the module with the value in it",
    Format.TORCHSCRIPT: "TorchScript: trace the module with the value in it",
    Format.CAFFE: "networks of Caffe, whose inputs are feature maps",
}


def load_model(
    path: str | pathlib.Path,
    input_shapes: Sizes | None = None,
    *,
    input_values: Values | None = None,
    libraries: Sequence[str | pathlib.Path] = (),
    requantize: Requantize = Requantize.NO,
    any_scale: bool = False,
    real_ports: bool = False,
) -> FloatGraph:
    """Convert a model file to a float graph: ONNX, PyTorch, TFLite, TensorFlow, Keras, Caffe.

    What a file is, its content says. A signature of a SavedModel is ``FOLDER::NAME``. Other
    parameters and errors are those of :func:`opendpu.frontend.load_onnx`; of TorchScript,
    ``input_shapes`` must say the shapes of all inputs.

    Parameters
    ----------
    requantize
        What becomes of TFLite and ONNX files, and of PyTorch's programs, whose scales the DPU does
        not compute with.
    any_scale
        Quantized tensors of these keep whatever scales and zero points they have.
    real_ports
        Of ONNX files: as of :func:`opendpu.frontend.load_onnx`.

    Raises
    ------
    MissingExtraError
        It is of PyTorch, Keras or TensorFlow 2, which is not installed.
    UnsupportedError
        ``input_values`` are given for a format whose inputs cannot become constants.
    ModelFormatError
        There is no such file, or it is none of its format.
    """
    path, signature = folder_and_signature(path)
    kind = format_of(path)
    if input_values and kind in _WITHOUT_VALUES:
        raise UnsupportedError(f"{path}: {OPTION} is not for {_WITHOUT_VALUES[kind]}")
    if kind is not Format.ONNX:
        check_libraries(libraries, str(path))
    match kind:
        case Format.TFLITE:
            from opendpu.frontend.tflite import load_tflite

            return load_tflite(
                path, input_shapes, input_values=input_values, requantize=requantize,
                any_scale=any_scale,
            )  # fmt: skip
        case Format.CAFFE:
            from opendpu.frontend.caffe import load_caffe

            return load_caffe(path, input_shapes)
        case Format.FROZEN_GRAPH:
            from opendpu.frontend.tensorflow import load_frozen

            return load_frozen(path, input_shapes, input_values=input_values)
        case Format.PYTORCH:
            with _needs("torch", path, "program of PyTorch"):
                from opendpu.frontend.pytorch import load_program
            return load_program(path, input_shapes, any_scale=any_scale, requantize=requantize)
        case Format.TORCHSCRIPT:
            with _needs("torch", path, "program of PyTorch"):
                from opendpu.frontend.pytorch import load_script
            return load_script(path, input_shapes)
        case Format.KERAS:
            with _needs("tensorflow", path, "model of Keras"):
                from opendpu.frontend.tensorflow.keras_model import load_keras
            return load_keras(path, input_shapes, input_values=input_values)
        case Format.SAVED_MODEL:
            with _needs("tensorflow", path, "SavedModel of TensorFlow"):
                from opendpu.frontend.tensorflow.saved_model import load_saved_model
            return load_saved_model(
                path, input_shapes, input_values=input_values, signature=signature
            )
    return load_onnx(
        path, input_shapes, input_values=input_values, libraries=libraries, any_scale=any_scale,
        requantize=requantize, real_ports=real_ports,
    )  # fmt: skip


@contextlib.contextmanager
def _needs(extra: str, path: pathlib.Path, kind: str) -> Iterator[None]:
    """Say which extra is missing where a framework cannot be imported to read what is there."""
    if not path.exists():
        raise ModelFormatError(f"{path}: no such file", code="XCOM_FILE_NOT_EXISTS")
    with extras.needs(f"{path} is a {kind}, and", extra):
        yield
