# SPDX-License-Identifier: Apache-2.0
"""Inputs as users have them, in files and in ONNX's layout, as runners take them."""

import enum
import os
import pathlib
from collections.abc import Mapping

import numpy as np

from opendpu.runtime import npz
from opendpu.runtime.arrays import Array
from opendpu_arch import inputs
from opendpu_arch.errors import TensorError
from xir import Tensor

ONLY_INPUT = ""
"""Stands for the name of a model's only input."""
WITHOUT_NAME = "arr_0"
"""What numpy calls the first array of an ``.npz`` file that was given no name."""
_NPY_MAGIC = b"\x93NUMPY"


class Layout(enum.StrEnum):
    """Order of the axes of images in the user's arrays."""

    AUTO = "auto"
    """Inputs as they fit, channels last where both do; outputs channels last."""
    NHWC = "nhwc"
    """Channels last, as the DPU and compiled models have them."""
    NCHW = "nchw"
    """Channels first, as ONNX has them; outputs too."""


def read(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Return the arrays of an ``.npz`` file by name, or of an ``.npy`` file as :data:`ONLY_INPUT`.

    So is the only array of an ``.npz`` file, if nobody gave it a name.

    Raises
    ------
    TensorError
        The file is missing or is none of both.
    """
    try:
        inputs.refuse_device(path)
        with pathlib.Path(path).open("rb") as file:
            if file.read(len(_NPY_MAGIC)) != _NPY_MAGIC:
                arrays = npz.read(path)
                nameless = arrays.keys() == {WITHOUT_NAME}
                return {ONLY_INPUT: arrays[WITHOUT_NAME]} if nameless else arrays
            file.seek(0)
            return {ONLY_INPUT: np.asarray(np.lib.format.read_array(file, allow_pickle=False))}
    except (OSError, ValueError, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TensorError(f"{os.fspath(path)} cannot be read as .npz or .npy: {reason}") from error


def prepared(
    arrays: Mapping[str, Array], tensors: Mapping[str, Tensor], layout: Layout = Layout.AUTO
) -> dict[str, Array]:
    """Return ``arrays`` by the names of a runner's inputs, channels last, floats as float32.

    ``tensors`` are the inputs by each name they answer to. An extra axis in front, or a longer
    first one, stays: it counts jobs. What does not fit is left for the runner to refuse.

    Raises
    ------
    TensorError
        One array without a name is given, but there are several inputs.
    """
    named = dict(arrays)
    if ONLY_INPUT in named:
        names = sorted({tensor.name for tensor in tensors.values()})
        if len(names) != 1:
            raise TensorError(
                f"one array without a name is given, but the inputs are {', '.join(names)}: "
                "give them by name in an .npz file"
            )
        named[names[0]] = named.pop(ONLY_INPUT)
    return {
        name: _fitted(array, tensors[name], layout) if name in tensors else array
        for name, array in named.items()
    }


def returned(arrays: Mapping[str, Array], layout: Layout) -> dict[str, Array]:
    """Return outputs in the layout that the user asked for; ``arrays`` have channels last.

    Images have four axes, or five with one for jobs in front.
    """
    if layout is not Layout.NCHW:
        return dict(arrays)
    return {
        name: np.ascontiguousarray(np.moveaxis(array, -1, -3)) if array.ndim in (4, 5) else array
        for name, array in arrays.items()
    }


def _fitted(array: Array, tensor: Tensor, layout: Layout) -> Array:
    if array.dtype.kind == "f" and array.dtype != tensor.data_type.numpy():
        array = array.astype(np.float32)
    if tensor.ndim != 4 or array.ndim not in (4, 5):
        return array
    height, width, channels = tensor.dims[1:]
    own, onnx = (height, width, channels), (channels, height, width)
    fits_onnx_only = array.shape[-3:] == onnx and array.shape[-3:] != own
    if layout is Layout.NCHW or (layout is Layout.AUTO and fits_onnx_only):
        return np.ascontiguousarray(np.moveaxis(array, -3, -1))
    return array
