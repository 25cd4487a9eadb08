# SPDX-License-Identifier: Apache-2.0
"""Random ONNX models: through front end, quantizer and compiler to the functional simulator."""

import numpy as np
import onnxruntime
import pytest
from oracle import evaluate_float
from random_graphs.check import check, deadline
from random_graphs.onnx_models import draw_model

from opendpu.frontend import load_onnx
from opendpu.quantize import quantize
from opendpu_arch.target import Target

TARGETS = ("B64", "B512", "B1152", "B4096")


def check_seed(seed: int) -> None:
    """Compare the float graph with onnxruntime, and the compiled one with the reference."""
    model = draw_model(seed)
    options = onnxruntime.SessionOptions()  # optimized, it merges a Pad into a pool and fails
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    random_values = np.random.default_rng(seed)
    samples = {
        i.name: random_values.standard_normal([1, *i.shape[1:]]).astype(np.float32)
        for i in session.get_inputs()
    }
    with deadline():
        graph = load_onnx(model)
        order = graph.attrs.get("onnx_order", {})
        given = {n: v.transpose(order.get(n, range(v.ndim))) for n, v in samples.items()}
        results = evaluate_float(graph, given)
        wanted = session.run(None, samples)
        for info, value in zip(session.get_outputs(), wanted, strict=True):
            value = value.transpose(order.get(info.name, range(value.ndim)))
            np.testing.assert_allclose(results[info.name], value, rtol=1e-3, atol=1e-4)
        quantized = quantize(graph, given, refinement=False)
    target = Target.from_name(TARGETS[seed % len(TARGETS)])
    check(quantized, target, seed)


def check_seeds(rng: np.random.Generator, count: int) -> None:
    for _ in range(count):
        seed = int(rng.integers(1 << 30))
        try:
            check_seed(seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def test_random_models(rng: np.random.Generator) -> None:
    check_seeds(rng, 12)


def test_input_that_only_the_cpu_reads() -> None:
    check_seed(164927067)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_random_models(rng: np.random.Generator, part: int) -> None:
    check_seeds(rng, 30)
