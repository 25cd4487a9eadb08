# SPDX-License-Identifier: Apache-2.0
"""``create_wego_model``: a quantized Keras model as a concrete function."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from opendpu.frontend.tensorflow.keras_file import read_keras
from opendpu.frontend.tensorflow.keras_model import load_keras
from opendpu.frontend.tensorflow.runtime import tf
from opendpu.quantize import complete
from opendpu_arch.errors import UnsupportedError
from vai_q_tensorflow2.network import QuantizedNetwork
from vai_q_tensorflow2.structure import is_nested, name_of, nested_like
from vitis_vai.compiled import CompiledNetwork, specs
from vitis_vai.enums import AccuracyMode


def create_wego_model(
    input_h5: str | os.PathLike[str] | Any,
    feed_dict: Mapping[str, Sequence[int]] | None = None,
    accuracy_mode: AccuracyMode = AccuracyMode.Default,
    *,
    target: str | None = None,
) -> Any:
    """Return a concrete function that computes a quantized model on the DPU.

    Parameters
    ----------
    input_h5
        The model that ``VitisQuantizer`` or :func:`vitis_vai.quantize` made, or its file.
    feed_dict
        Shapes by input, where the model leaves sizes open; -1 is any batch.
    accuracy_mode
        Taken for both: what is on the CPU is rounded where the quantized model rounds it.
    target
        Of older scripts: the DPU, by default ``XLNX_TARGET_NAME``.

    Returns
    -------
    A concrete function of one tensor an input, with any batch, which returns a list, or what the
    model has its outputs in, such as a dictionary; its attribute
    ``wego_report`` says what runs where, and :mod:`OnBoard` shows it. In a module it can be
    saved (``tf.saved_model.save``), and loaded by whoever has imported this package.

    Raises
    ------
    ModelFormatError, UnsupportedError
        The file cannot be read, or the model is not quantized.
    """
    AccuracyMode(accuracy_mode)
    known = {"QuantizedNetwork": QuantizedNetwork}
    shapes = {name: tuple(shape) for name, shape in (feed_dict or {}).items()}
    is_file = isinstance(input_h5, str | os.PathLike)
    model: Any = read_keras(os.fspath(input_h5), known) if is_file else input_h5
    if not hasattr(model, "name"):
        raise UnsupportedError(
            f"input_h5 is {type(model).__name__}, but must be a Keras model, or its file"
        )
    label = os.fspath(input_h5) if is_file else model.name
    network = CompiledNetwork(complete(load_keras(model, shapes)), label, target)

    own = [name_of(tensor) for tensor in model.inputs]
    order = own if set(own) == set(network.inputs) else list(network.inputs)
    named = dict(zip(network.inputs, specs(network.inputs, network.types), strict=True))

    def compute(*tensors: Any) -> Any:
        given = dict(zip(order, tensors, strict=True))
        found = network.operator([given[name] for name in network.inputs])
        return nested_like(model, "outputs", found) if is_nested(model, "outputs") else found

    function = tf.function(compute)
    made = function.get_concrete_function(*(named[name] for name in order))
    made.wego_report, made.wego_network = network.report, network
    return made
