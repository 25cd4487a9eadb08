# SPDX-License-Identifier: Apache-2.0
"""Our quantizer with its defaults, or with finetuning."""

import pathlib

import numpy as np

from opendpu.frontend import load_onnx
from opendpu.ops.session import Session
from opendpu.quantize import quantize_with_report
from opendpu.quantize.config import FinetuneConfig, QuantizeConfig
from opendpu.quantize.samples import calibration_samples
from quantizers.worker import Array, Run, work


def quantize(method: str, model: pathlib.Path, samples: Array) -> Run:
    """Quantize; ``hard`` has the DPU's activations, others but ``plain`` are of finetuning."""
    graph = load_onnx(model)
    (name,) = (node.name for node in graph if node.kind == "data")
    tuning = None if method in ("plain", "hard") else FinetuneConfig(method=method)
    config = QuantizeConfig(
        finetune=tuning, activation_substitution="hard" if method == "hard" else "none"
    )
    made = quantize_with_report(graph, {name: samples}, config).graph
    session = Session(made)
    order = graph.attrs.get("onnx_order", {})

    def run(sample: Array) -> Array:
        given = calibration_samples(graph, {name: sample}).single(0)
        (found,) = session.run(given).values()
        axes = order.get(graph.outputs[0])
        return found if axes is None else np.asarray(found.transpose(np.argsort(axes)))

    return run


if __name__ == "__main__":
    work(quantize)
