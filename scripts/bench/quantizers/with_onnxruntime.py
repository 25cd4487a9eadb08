# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's ``quantize_static`` with its defaults: float scales and zero points."""

import pathlib
import tempfile

import onnxruntime
from onnxruntime.quantization import quantize_static
from worker import Array, Reader, Run, input_name, work


def quantize(method: str, model: pathlib.Path, samples: Array) -> Run:
    """Quantize a model that was preprocessed as onnxruntime recommends."""
    assert method == "plain", method
    name = input_name(model)
    folder = tempfile.TemporaryDirectory()
    made = pathlib.Path(folder.name) / "quantized.onnx"
    quantize_static(str(model), str(made), Reader(name, samples))
    session = onnxruntime.InferenceSession(str(made), providers=["CPUExecutionProvider"])

    def run(sample: Array) -> Array:
        assert folder is not None
        (found,) = session.run(None, {name: sample})
        return found  # type: ignore[no-any-return]

    return run


if __name__ == "__main__":
    work(quantize)
