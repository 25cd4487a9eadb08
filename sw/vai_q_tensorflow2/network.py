# SPDX-License-Identifier: Apache-2.0
"""Quantized networks as a layer of Keras, so that they are saved, loaded and evaluated as models.

The layer computes the quantized network bit by bit as the DPU does, in onnxruntime.
"""

import base64
import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opendpu.export import to_onnx
from opendpu.frontend import load_onnx
from opendpu.frontend.tensorflow.quantized_keras import PACKAGE
from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ir import Array, QuantizedGraph
from opendpu.ops.inference import open_session
from opendpu.quantize import complete
from opendpu_arch.errors import UnsupportedError
from vai_q_tensorflow2.structure import inputs_like, nested_like

LAYER = "vitis_quantized"


class ExactNetwork:
    """A quantized network that computes bit by bit as the DPU does.

    Parameters
    ----------
    model
        ONNX with quantizing operators.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.input_names = [item.name for item in model.graph.input]
        self.types = [
            helper.tensor_dtype_to_np_dtype(item.type.tensor_type.elem_type)
            for item in model.graph.input
        ]
        self.outputs_of = [
            (item.name, [d.dim_value for d in item.type.tensor_type.shape.dim][1:])
            for item in model.graph.output
        ]

    @property
    def graph(self) -> QuantizedGraph:
        """The network as quantized graph."""
        return complete(load_onnx(self.model, channels_last=True))

    @functools.cached_property
    def _session(self) -> Any:
        return open_session(self.model, threads=0)

    def compute(self, *arrays: Array) -> list[Array]:
        """Return what the network makes of batches, one array an output."""
        names = [name for name, _ in self.outputs_of]
        feeds = {
            name: array.astype(dtype)
            for name, dtype, array in zip(self.input_names, self.types, arrays, strict=True)
        }
        count = min(len(array) for array in arrays)
        parts = [
            self._session.run(names, {n: a[i : i + 1] for n, a in feeds.items()})
            for i in range(count)
        ]
        shapes = [shape for _, shape in self.outputs_of]
        return [
            np.concatenate([part[k] for part in parts]) if parts
            else np.zeros((0, *shape), np.float32)
            for k, shape in enumerate(shapes)
        ]  # fmt: skip


@tf.keras.utils.register_keras_serializable(package=PACKAGE)
class QuantizedNetwork(tf.keras.layers.Layer):  # type: ignore[misc]
    """A quantized network.

    Parameters
    ----------
    network
        ONNX with quantizing operators, base64.
    """

    def __init__(self, network: str, **settings: Any) -> None:
        super().__init__(**settings | {"trainable": False})
        self.network = network
        self.exact = ExactNetwork(onnx.load_model_from_string(base64.b64decode(network)))
        self.input_names = self.exact.input_names

    @property
    def quantized_onnx(self) -> onnx.ModelProto:
        """The network as ONNX."""
        return self.exact.model

    @property
    def graph(self) -> QuantizedGraph:
        """The network as quantized graph."""
        return self.exact.graph

    def call(self, inputs: Any) -> Any:
        """Compute in TensorFlow, eager or in a graph."""
        given = inputs if isinstance(inputs, list | tuple) else [inputs]
        outputs = self.exact.outputs_of
        made = tf.numpy_function(self.exact.compute, list(given), [tf.float32] * len(outputs))
        made = list(made) if isinstance(made, list | tuple) else [made]
        for tensor, (_, shape) in zip(made, outputs, strict=True):
            tensor.set_shape([given[0].shape[0], *shape])
        return made[0] if len(made) == 1 else made

    def get_config(self) -> dict[str, Any]:
        """Return what makes the layer again."""
        return {**super().get_config(), "network": self.network}


def as_model(graph: QuantizedGraph, like: Any, *, exact: bool) -> Any:
    """Return a Keras model of a quantized graph, named and called as the model ``like`` is."""
    proto = to_onnx(graph, exact=exact)
    layer = QuantizedNetwork(base64.b64encode(proto.SerializeToString()).decode(), name=LAYER)
    types = {node.name: node.type for node in graph if node.kind == "data"}
    inputs = [
        tf.keras.Input(types[name].shape[1:], name=name, dtype=types[name].dtype.name)
        for name in layer.input_names
    ]
    made = layer(inputs[0] if len(inputs) == 1 else inputs)
    outputs = nested_like(like, "outputs", made if isinstance(made, list) else [made])
    return tf.keras.Model(inputs_like(like, inputs), outputs, name=like.name)


def network_of(model: Any) -> QuantizedNetwork:
    """Return the network in a model that :func:`as_model` made.

    Raises
    ------
    UnsupportedError
        It is another model.
    """
    found = [layer for layer in model.layers if isinstance(layer, QuantizedNetwork)]
    if len(found) != 1:
        raise UnsupportedError(
            f"model {model.name!r} is not quantized: VitisQuantizer.quantize_model makes one",
            code="QUANTIZER_TF2_UNSUPPORTED_MODEL",
        )
    return found[0]


@contextlib.contextmanager
def quantize_scope(custom_objects: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Let Keras know the layers of quantized models, and others, while models are loaded."""
    known = {"QuantizedNetwork": QuantizedNetwork, **dict(custom_objects or {})}
    with tf.keras.utils.custom_object_scope(known):
        yield
