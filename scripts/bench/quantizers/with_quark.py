# SPDX-License-Identifier: Apache-2.0
"""AMD Quark's ``XINT8``, alone, or with its AdaRound or AdaQuant. Runs where ``amd-quark`` is."""

import importlib
import pathlib
import tempfile
from typing import Any

from worker import Array, Reader, Run, input_name, work

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
    preset = custom.get_default_config(PRESETS[method])
    quantizer = api.ModelQuantizer(config.Config(global_quant_config=preset))
    quantizer.quantize_model(str(model), str(made), Reader(name, samples))
    options = runtime.SessionOptions()
    options.register_custom_ops_library(operators.get_library_path())
    session = runtime.InferenceSession(str(made), options, providers=["CPUExecutionProvider"])

    def run(sample: Array) -> Array:
        assert folder is not None
        (found,) = session.run(None, {name: sample})
        return found  # type: ignore[no-any-return]

    return run


if __name__ == "__main__":
    work(quantize)
