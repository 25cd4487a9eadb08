# SPDX-License-Identifier: Apache-2.0
"""``VaiWeGOOp``: the operator of TensorFlow that computes a network, which it has as a constant.

It is TensorFlow's ``PyFunc`` with a token that every process knows which has imported this
package, so graphs with it can be saved, and loaded in another process.
"""

import collections
import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from tensorflow.python.ops import script_ops

from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ir import Array

OPERATOR = "VaiWeGOOp"
TOKEN = f"vitis_vai.{OPERATOR}"
KEPT = 16
"""Networks that are kept ready at a time."""


class Network(Protocol):
    """What computes: whole batches, one array an input and an output."""

    def compute(self, *arrays: Array) -> list[Array]:
        """Return the outputs for a batch."""
        ...


readers: dict[str, Callable[[bytes, Mapping[str, Any]], Network]] = {}
"""What makes a network out of its file and its header, by the header's ``form``."""
_ready: "collections.OrderedDict[str, Network]" = collections.OrderedDict()
_LOCK = threading.Lock()


def place(
    header: Mapping[str, Any], content: bytes, tensors: Sequence[Any],
    shapes: Sequence[Sequence[int | None]], network: Network | None = None,
) -> list[Any]:  # fmt: skip
    """Put the operator into the current graph; return the outputs.

    Parameters
    ----------
    header
        Plain values; ``form`` says which of :data:`readers` reads the network, ``types`` what it
        takes, if that is not ``float32``.
    content
        The network's file.
    tensors
        The inputs.
    shapes
        Of the outputs; None for any batch.
    network
        The network, if it is there already.
    """
    text = head(header, content)
    if network is not None:
        _keep(text, network)
    types = header.get("types")
    made = tf.raw_ops.PyFunc(
        input=[
            tf.constant(text), tf.constant(np.frombuffer(content, np.uint8)),
            *(
                tf.cast(tensor, dtype)
                for tensor, dtype in zip(tensors, types or ["float32"] * len(tensors), strict=True)
            ),
        ],
        token=TOKEN, Tout=[tf.float32] * len(shapes), name=OPERATOR,
    )  # fmt: skip
    results = list(made) if isinstance(made, list | tuple) else [made]
    for tensor, shape in zip(results, shapes, strict=True):
        tensor.set_shape(shape)
    return results


def head(header: Mapping[str, Any], content: bytes) -> str:
    """Return the header as the operator has it, with what tells the network from others."""
    return json.dumps({**header, "sha256": hashlib.sha256(content).hexdigest()}, sort_keys=True)


def _keep(text: str, network: Network) -> None:
    with _LOCK:
        _ready[text] = network
        _ready.move_to_end(text)
        while len(_ready) > KEPT:
            _ready.popitem(last=False)


def _compute(text: Any, content: Array, *arrays: Array) -> list[Array]:
    """Compute what an operator asks for; TensorFlow calls it."""
    key = np.asarray(text).item().decode()
    network = _ready.get(key)
    if network is None:
        header = json.loads(key)
        network = readers[header["form"]](content.tobytes(), header)
        _keep(key, network)
    return network.compute(*arrays)


# TensorFlow numbers what it registers; a name of our own is the same in every process.
script_ops._py_funcs._funcs[TOKEN] = _compute
