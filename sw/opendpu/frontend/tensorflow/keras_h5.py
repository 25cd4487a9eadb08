# SPDX-License-Identifier: Apache-2.0
"""What Keras 3 writes into ``.h5`` files, but does not read again.

Arithmetic of tensors (``x + 3``) is written by the name of its operation alone, which Keras takes
for the layer of the same name (``Add``); layers of ``keras.applications`` are written without their
modules.
"""

import contextlib
import json
import pathlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

CONFIG = "model_config"
"""Attribute of a file: the network as JSON."""
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
"""Before each capital letter but the first: ``TrueDivide`` is ``true_divide``."""
_WITH_LAYERS = ("ConvNeXtTiny", "InceptionResNetV2")
"""Networks of ``keras.applications`` whose modules have layers of their own."""


def layers_of_applications(keras: Any) -> dict[str, Any]:
    """Return the layers that networks of ``keras.applications`` have beside Keras's, by name."""
    found = {}
    for name in _WITH_LAYERS:
        network = getattr(keras.applications, name, None)
        module = sys.modules.get(getattr(network, "__module__", ""))
        for own in vars(module).values() if module else ():
            if isinstance(own, type) and issubclass(own, keras.layers.Layer):
                found[own.__name__] = own
    return found


@contextlib.contextmanager
def readable(path: pathlib.Path, keras: Any) -> Iterator[pathlib.Path]:
    """Give a file in which arithmetic has its module: the file itself if it has none without."""
    import h5py  # of TensorFlow, which is named where it is missing

    if not hasattr(keras, "ops") or not h5py.is_hdf5(path):
        yield path
        return
    with h5py.File(path) as file:
        text = file.attrs.get(CONFIG, "{}")
    config = json.loads(text)
    if not _name_operations(config, keras):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="opendpu-h5-") as folder:
        copied = pathlib.Path(folder) / path.name
        shutil.copyfile(path, copied)
        with h5py.File(copied, "r+") as file:
            file.attrs[CONFIG] = json.dumps(config).encode()
        yield copied


def _name_operations(config: Any, keras: Any) -> int:
    """Say in a network, and those inside of it, where its operations are; return how many."""
    count = 0
    inner = config.get("config") if isinstance(config, Mapping) else None
    for layer in inner.get("layers", ()) if isinstance(inner, Mapping) else ():
        name, own = layer.get("class_name"), layer.get("config")
        function = getattr(keras.ops, _CAPITAL.sub("_", str(name)).lower(), None)
        if isinstance(own, Mapping) and set(own) == {"name"} and "module" not in layer and function:
            layer.update(module=function.__module__, registered_name=None)
            count += 1
        count += _name_operations(layer, keras)
    return count
