# SPDX-License-Identifier: Apache-2.0
"""Caffe's two files: layers in ``deploy.prototxt``, weights in ``.caffemodel``."""

import pathlib
from typing import Any

import numpy as np
from google.protobuf import text_format
from google.protobuf.message import DecodeError

from opendpu.frontend.caffe.proto import Net
from opendpu.frontend.whole_file import read_bytes
from opendpu.ir import Array
from opendpu_arch.errors import ModelFormatError

RAW_TYPES = {0: "<f8", 1: "<f4", 2: "<f2"}
"""Numbers by ``RawType``."""
TEST = 1
"""``Phase`` of inference."""


def read_net(path: pathlib.Path) -> Any:
    """Return the layers of a ``.prototxt``, those of inference only.

    Raises
    ------
    ModelFormatError
        The file cannot be read, is no network, or is of Caffe before 2014.
    """
    net = Net()
    try:
        text_format.Parse(read_bytes(path).decode(), net, allow_unknown_field=True)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ModelFormatError(f"{path} is not a network of Caffe: {error}") from None
    if net.layers:
        raise ModelFormatError(
            f"{path} has 'layers' of Caffe before 2014; upgrade_net_proto_text makes 'layer' of "
            "them"
        )
    if not net.layer:
        raise ModelFormatError(f"{path} is not a network of Caffe: it has no layers")
    kept = [layer for layer in net.layer if _is_for_inference(layer)]
    del net.layer[:]
    net.layer.extend(kept)
    return net


def _is_for_inference(layer: Any) -> bool:
    included = [rule.phase for rule in layer.include if rule.HasField("phase")]
    excluded = [rule.phase for rule in layer.exclude if rule.HasField("phase")]
    return (not included or TEST in included) and TEST not in excluded


def read_weights(path: pathlib.Path) -> dict[str, list[Array]]:
    """Return the arrays of each layer in a ``.caffemodel``.

    Raises
    ------
    ModelFormatError
        The file cannot be read, or is none.
    """
    net = Net()
    try:
        net.ParseFromString(read_bytes(path))
        found = {layer.name: [_array(blob) for blob in layer.blobs]
                 for layer in (*net.layers, *net.layer)}  # fmt: skip
    except (DecodeError, ValueError) as error:
        raise ModelFormatError(f"{path} is no .caffemodel: {error}") from None
    if not found:
        raise ModelFormatError(f"{path} is no .caffemodel: it has no layers")
    return found


def _array(blob: Any) -> Array:
    """Return the numbers of a blob; old ones have four dimensions."""
    if blob.HasField("raw_data"):
        if blob.raw_data_type not in RAW_TYPES:
            raise ValueError("a blob's raw_data_type is none of DOUBLE, FLOAT and FLOAT16")
        data = np.frombuffer(blob.raw_data, RAW_TYPES[blob.raw_data_type]).astype(np.float32)
    else:
        data = np.array(blob.data or blob.double_data, np.float32)
    if blob.HasField("shape"):
        return data.reshape(tuple(blob.shape.dim))
    return data.reshape(blob.num, blob.channels, blob.height, blob.width)
