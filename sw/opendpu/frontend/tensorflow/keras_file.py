# SPDX-License-Identifier: Apache-2.0
"""Files of Keras (``.keras``, ``.h5``) as models; those of Keras 2 where Keras 3 cannot read them.

Keras 3 refuses arguments of layers that it no longer has (``time_major``, ``batch_input_shape``,
``groups`` of a depthwise convolution). The package ``tf_keras`` is Keras 2, and reads them.
"""

import contextlib
import importlib
import json
import pathlib
import warnings
import zipfile
from collections.abc import Mapping
from typing import Any

from opendpu.frontend.tensorflow.keras_h5 import layers_of_applications, readable
from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ops.inference import reason_of
from opendpu_arch.errors import ModelFormatError

KERAS_2 = "tf_keras"
METADATA, VERSION = "metadata.json", "keras_version"
"""Where both kinds of files say which version wrote them."""
MOST_METADATA = 1 << 16


def read_keras(path: str | pathlib.Path, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """Return the model in a file, of Keras 3, or of Keras 2 where that has written it.

    Raises
    ------
    ModelFormatError
        Neither can read it, or Keras 2 would be needed and is not installed.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        raise ModelFormatError(
            f"{path} is a folder, but must be a file of Keras (.keras, .h5); a SavedModel is taken "
            "by the commands opendpu quantize and opendpu compile"
        )
    if not path.is_file():
        raise ModelFormatError(f"{path}: no such file", code="XCOM_FILE_NOT_EXISTS")
    try:
        return _loaded(tf.keras, path, custom_objects)
    except Exception as error:  # Keras raises what its parts happen to raise
        reason = reason_of(error)
        if _has_only_weights(path):
            reason = (
                "it has weights, but no network: build the model, load them (load_weights), and "
                "write it whole (save)"
            )
        elif _version(path).startswith("2."):
            try:
                return _loaded(importlib.import_module(KERAS_2), path, custom_objects)
            except ModuleNotFoundError:
                reason += "; Keras 2 has written it: pip install 'opendpu[keras2]'"
            except Exception as other:
                reason = f"{reason}; nor by Keras 2, which has written it: {reason_of(other)}"
        raise ModelFormatError(f"{path} cannot be read by Keras: {reason}") from error


def _loaded(keras: Any, path: pathlib.Path, custom_objects: Mapping[str, Any] | None) -> Any:
    known = {**layers_of_applications(keras), **(custom_objects or {})}
    with warnings.catch_warnings(), readable(path, keras) as found:
        warnings.simplefilter("ignore")
        return keras.models.load_model(found, compile=False, custom_objects=known)


def _version(path: pathlib.Path) -> str:
    """Return the version of Keras that wrote a file; empty where it does not say."""
    import h5py  # of TensorFlow, which is named where it is missing

    with contextlib.suppress(OSError, KeyError, ValueError, zipfile.BadZipFile):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as file, file.open(METADATA) as entry:
                found = json.loads(entry.read(MOST_METADATA))
            return str(found[VERSION]) if isinstance(found, dict) else ""
        with h5py.File(path) as file:
            found = file.attrs[VERSION]
            return found.decode() if isinstance(found, bytes) else str(found)
    return ""


def _has_only_weights(path: pathlib.Path) -> bool:
    """Return whether ``save_weights`` wrote a file of HDF5."""
    import h5py

    if not h5py.is_hdf5(path):
        return False
    try:
        with h5py.File(path) as file:
            return "model_config" not in file.attrs and bool(len(file) or len(file.attrs))
    except OSError:  # damaged
        return False
