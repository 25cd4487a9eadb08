# SPDX-License-Identifier: Apache-2.0
"""Keyword spotting with weights of three bits: what finetuning gives back."""

import numpy as np
import pytest

from opendpu.frontend import load_onnx
from opendpu.ops.session import Session
from opendpu.quantize import quantize
from opendpu.quantize.config import FinetuneConfig, QuantizeConfig
from opendpu.quantize.tensor_spec import TensorSpec

pytestmark = pytest.mark.system

BITS = 3
"""Width of weights at which rounding alone costs far more than three points."""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adaquant", "adaround"])
def test_half_of_the_loss_comes_back(models, method):
    """100 clips to quantize and finetune with, without labels; accuracy is that of 800 others."""
    pytest.importorskip("torch")
    data = np.load(models / "mlperf_tiny" / "kws01.npz")
    clips = ((data["x"].astype(np.float32) - data["zero_point"]) * data["scale"]).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(clips))
    calibration, test = order[:100], order[200:]
    network = load_onnx(models / "mlperf_tiny" / "kws_dscnn.onnx")

    def accuracy(graph):
        (found,) = Session(graph, batched=True).run({"input_1": clips[test]}).values()
        return float((found.argmax(axis=1) == data["y"][test]).mean())

    def made(**options):
        config = QuantizeConfig(weights=TensorSpec(bits=BITS), **options)
        return accuracy(quantize(network, {"input_1": clips[calibration]}, config))

    whole, plain = accuracy(network), made(weight_correction=False)
    tuned = made(finetune=FinetuneConfig(method=method, iterations=300))
    print(f"float {whole:.1%}, {BITS} bits {plain:.1%}, {method} {tuned:.1%}")
    assert whole - plain > 0.03
    assert tuned - plain > 0.5 * (whole - plain)
