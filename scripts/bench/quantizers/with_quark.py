# SPDX-License-Identifier: Apache-2.0
"""AMD Quark's ``XINT8``, alone, or with its AdaRound or AdaQuant. Runs where ``amd-quark`` is.

``adaround 100`` bounds the iterations a layer, 1000 of which its preset has.
"""

import importlib
import pathlib
import tempfile
from typing import Any

import numpy as np

from quantizers.worker import Array, Reader, Run, input_name, work

PRESETS = {"plain": "XINT8", "adaround": "XINT8_ADAROUND", "adaquant": "XINT8_ADAQUANT"}


def quantize(method: str, model: pathlib.Path, samples: Array) -> Run:
    """Quantize with the preset configuration of a method, as Quark's manual does."""
    api: Any = importlib.import_module("quark.onnx")
    custom: Any = importlib.import_module("quark.onnx.quantization.config.custom_config")
    config: Any = importlib.import_module("quark.onnx.quantization.config.config")
    runtime: Any = importlib.import_module("onnxruntime")
    operators: Any = importlib.import_module("quark.onnx.operators.custom_ops")
    name = input_name(model)
    folder = tempfile.TemporaryDirectory()
    made = pathlib.Path(folder.name) / "quantized.onnx"
    kind, _, iterations = method.partition(" ")
    preset = custom.get_default_config(PRESETS[kind])
    if iterations:
        options = preset.extra_options
        preset.extra_options = {
            **options, "FastFinetune": {**options["FastFinetune"], "NumIterations": int(iterations)}
        }  # fmt: skip
    quantizer = api.ModelQuantizer(config.Config(global_quant_config=preset))
    quantizer.quantize_model(str(model), str(made), Reader(name, samples))
    settings = runtime.SessionOptions()
    settings.register_custom_ops_library(operators.get_library_path())
    session = runtime.InferenceSession(str(made), settings, providers=["CPUExecutionProvider"])

    def run(sample: Array) -> Array:
        assert folder is not None
        (found,) = session.run(None, {name: sample})
        return np.asarray(found)

    return run


if __name__ == "__main__":
    work(quantize)
