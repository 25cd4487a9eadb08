# SPDX-License-Identifier: Apache-2.0
"""``create_wego_model``: a quantized Keras model as a concrete function."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from opendpu.frontend.tensorflow.keras_model import load_keras
from opendpu.frontend.tensorflow.runtime import tf
from opendpu.quantize import complete
from vai_q_tensorflow2.network import QuantizedNetwork
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
    A concrete function of one tensor an input, with any batch, which returns a list; its attribute
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
    model = os.fspath(input_h5) if isinstance(input_h5, str | os.PathLike) else input_h5
    graph = load_keras(model, shapes, custom_objects=known)
    label = model if isinstance(model, str) else model.name
    network = CompiledNetwork(complete(graph), label, target)
    function = tf.function(lambda *tensors: network.operator(tensors))
    made = function.get_concrete_function(*specs(network.inputs, network.types))
    made.wego_report, made.wego_network = network.report, network
    return made
