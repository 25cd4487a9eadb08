# SPDX-License-Identifier: Apache-2.0
"""Keras models, live and in files (``.keras``, ``.h5``), as float graphs."""

import pathlib
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opendpu.frontend.binding import Sizes
from opendpu.frontend.input_values import Values
from opendpu.frontend.lowering import load_onnx
from opendpu.frontend.tensorflow.graphdef import Node
from opendpu.frontend.tensorflow.importer import load_nodes
from opendpu.frontend.tensorflow.keras_file import read_keras
from opendpu.frontend.tensorflow.quantized_keras import quantized_network
from opendpu.frontend.tensorflow.runtime import common_scope, frozen, tf
from opendpu.ir import FloatGraph
from opendpu_arch.errors import UnsupportedError

QUANTIZED = "quantized_onnx"
"""Attribute of a layer that is a quantized network: ONNX with quantizing operators."""
_NUMBER = re.compile(r"_\d+$")


def load_keras(
    model: Any,
    input_shapes: Sizes | None = None,
    *,
    input_values: Values | None = None,
    custom_objects: Mapping[str, Any] | None = None,
) -> FloatGraph:
    """Convert a Keras model, live or in a file, to a float graph.

    Inputs and outputs have the names that the model gives them; ops those of its layers.

    Parameters
    ----------
    model
        The model, or a file that Keras wrote.
    input_shapes, input_values
        As of :func:`opendpu.frontend.load_onnx`.
    custom_objects
        Layers by name that are not Keras's own, for files.

    Raises
    ------
    ModelFormatError
        The file cannot be read by Keras.
    UnsupportedError
        A model that has no inputs of known rank yet, or as of
        :func:`opendpu.frontend.tensorflow.importer.load_nodes`.
    """
    label = getattr(model, "name", "model")
    if isinstance(model, str | pathlib.Path):
        label = str(model)
        network = quantized_network(pathlib.Path(model))
        if network is not None:
            return load_onnx(network, input_shapes, input_values=input_values, channels_last=True)
        model = read_keras(model, custom_objects)
    for layer in getattr(model, "layers", ()):
        if hasattr(layer, QUANTIZED):
            return load_onnx(
                getattr(layer, QUANTIZED), input_shapes, input_values=input_values,
                channels_last=True,
            )  # fmt: skip
    if not getattr(model, "inputs", None):
        raise UnsupportedError(
            f"{label} has no inputs yet: call it once, or make it of layers (Sequential, "
            "functional)"
        )
    inputs = list(model.inputs)
    names = [tensor.name.partition(":")[0] for tensor in inputs]
    specs = [
        tf.TensorSpec(tensor.shape, tensor.dtype, name=f"input{i}")
        for i, tensor in enumerate(inputs)
    ]
    function = tf.function(lambda *given: model(_as_called(model, given), training=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nodes, placeholders, results = frozen(function.get_concrete_function(*specs), label)
    outputs = list(getattr(model, "output_names", ()))
    if len(set(outputs)) != len(results):
        outputs = [f"output_{i}" for i in range(len(results))]
    return load_nodes(
        nodes, label, model.name, input_shapes, input_values=input_values,
        inputs=dict(zip(placeholders, names, strict=True)),
        outputs=dict(zip(outputs, results, strict=True)),
        shorten=_shortener(nodes, [layer.name for layer in model.layers]),
    )  # fmt: skip


def _shortener(nodes: Mapping[str, Node], layers: Sequence[str]) -> Callable[[str], str]:
    """Return what gives the names of ops: they begin with their layer's.

    Where Keras opens the scope of a layer again, TensorFlow puts a number behind its name.
    """
    scope = common_scope(nodes)
    heads = {name.removeprefix(scope).partition("/")[0] for name in nodes if "/" in name}
    computing = {head for head in heads if any(head.startswith(layer) for layer in layers)}
    again = computing and all(_NUMBER.sub("", head) in layers for head in computing)

    def shorten(name: str) -> str:
        head, slash, rest = name.removeprefix(scope).partition("/")
        return f"{_NUMBER.sub('', head) if again and head in computing else head}{slash}{rest}"

    return shorten


def _as_called(model: Any, given: tuple[Any, ...]) -> Any:
    """Return inputs in the structure that a model takes."""
    structure = getattr(model, "_inputs_struct", None)
    if structure is None:
        return given[0] if len(given) == 1 else list(given)
    return tf.nest.pack_sequence_as(structure, list(given))
