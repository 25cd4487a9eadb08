# SPDX-License-Identifier: Apache-2.0
"""The quantized network in a Keras file of ``VitisQuantizer``, read without the quantizer's layer.

The layer's class is known to Keras only where ``vai_q_tensorflow2`` is imported; its configuration
holds the whole network.
"""

import base64
import binascii
import json
import pathlib
import zipfile
from collections.abc import Iterator
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from opendpu_arch.errors import ModelFormatError

PACKAGE, LAYER = "vitis_quantize", "QuantizedNetwork"
"""What Keras calls the layer: ``vitis_quantize>QuantizedNetwork``."""
_CONFIGURATION = "config.json"
"""Where a ``.keras`` file has its layers; an ``.h5`` file has them in the attribute next."""
_ATTRIBUTE = "model_config"


def quantized_network(path: pathlib.Path) -> onnx.ModelProto | None:
    """Return the network that a file holds as ONNX; nothing if it is none of the quantizer's.

    Raises
    ------
    ModelFormatError
        It is one of the quantizer's, and damaged.
    """
    for config in _layers(_configuration(path)):
        try:
            return onnx.load_model_from_string(base64.b64decode(config["network"], validate=True))
        except (KeyError, TypeError, binascii.Error, DecodeError) as error:
            raise ModelFormatError(
                f"{path}: layer {config.get('name')!r} of class {LAYER} holds no network: {error}"
            ) from None
    return None


def _configuration(path: pathlib.Path) -> Any:
    """Return the layers of a file as JSON; nothing where Keras has to say what is wrong with it."""
    import h5py  # of TensorFlow, which is named where it is missing

    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as file:
                return json.loads(file.read(_CONFIGURATION))
        with h5py.File(path) as file:
            return json.loads(file.attrs[_ATTRIBUTE])
    except (OSError, KeyError, ValueError, RecursionError, zipfile.BadZipFile):
        return None


def _layers(config: Any) -> Iterator[dict[str, Any]]:
    """Yield the configurations of the quantizer's layers, wherever they are nested."""
    if isinstance(config, list):
        for one in config:
            yield from _layers(one)
    elif isinstance(config, dict):
        names = (config.get("class_name"), config.get("registered_name"))
        inner = config.get("config")
        if isinstance(inner, dict) and f"{PACKAGE}>{LAYER}" in names:
            yield inner
        else:
            for one in config.values():
                yield from _layers(one)
