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
    input_h5: str | os.PathLike[str],
    feed_dict: Mapping[str, Sequence[int]] | None = None,
    accuracy_mode: AccuracyMode = AccuracyMode.Default,
) -> Any:
    """Return a concrete function that computes a quantized model on the DPU.

    Parameters
    ----------
    input_h5
        The file, of ``VitisQuantizer`` or :func:`vitis_vai.quantize`.
    feed_dict
        Shapes by input, where the model leaves sizes open.
    accuracy_mode
        Taken for both: what is on the CPU is rounded where the quantized model rounds it.

    Returns
    -------
    A concrete function of one tensor an input, with any batch; its attribute ``wego_report`` says
    what runs where.

    Raises
    ------
    ModelFormatError, UnsupportedError
        The file cannot be read, or the model is not quantized.
    """
    AccuracyMode(accuracy_mode)
    known = {"QuantizedNetwork": QuantizedNetwork}
    shapes = {name: tuple(shape) for name, shape in (feed_dict or {}).items()}
    graph = load_keras(os.fspath(input_h5), shapes, custom_objects=known)
    network = CompiledNetwork(complete(graph), os.fspath(input_h5))
    function = tf.function(lambda *tensors: network.operator(tensors))
    made = function.get_concrete_function(*specs(network.inputs))
    made.wego_report = network.report
    made.wego_network = network  # lives as long as the function
    return made
