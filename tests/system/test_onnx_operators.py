# SPDX-License-Identifier: Apache-2.0
"""Every ONNX operator with random attributes, through quantizer and compiler: ISS = reference."""

import pathlib
import sys

import numpy as np
import pytest
from oracle import evaluate_quantized

from opendpu import api
from opendpu.frontend import load_onnx
from opendpu.quantize import quantize
from opendpu.runtime import GraphRunner

sys.path.append(str(pathlib.Path(__file__).parents[1] / "unit" / "opendpu" / "frontend"))

from operator_draws import DRAWS, floats

pytestmark = pytest.mark.system

ROUNDS = 2
"""Draws an operator."""
TIES = 0.05
"""Share of a result that may be next to a tie."""
ON_DPU = (
    "Add", "BatchNormalization", "Concat", "Conv", "ConvTranspose", "DepthToSpace", "Gemm",
    "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "HardSwish", "LeakyRelu",
    "MaxPool", "Mul", "PRelu", "Pad", "Pow", "Relu", "Resize", "Slice", "SpaceToDepth", "Split",
    "Sum",
)  # fmt: skip
"""Operators that the DPU has in most forms."""


def run(rng: np.random.Generator, op: str, target: str) -> int:
    """Draw, quantize, compile, run and compare; return how many ops the CPU got."""
    case = DRAWS[op](rng)
    if len(case.shape) in (3, 4):
        case = case.behind_convolution(rng)
    print(op, case)
    graph = load_onnx(case.model())
    (head,) = (node for node in graph if node.kind == "data")
    samples = floats(rng, 3, *head.shape[1:])
    quantized = quantize(graph, {case.head: samples}, refinement=False)
    compiled = api.compile_graph(quantized, target=target)
    with GraphRunner(compiled.graph, device="iss", check=True) as runner:
        (tensor,) = runner.get_input_tensors()
        given = rng.integers(-128, 128, tensor.dims, np.int8)
        if tensor.data_type.numpy() != np.int8:  # the op is on the CPU and takes floats
            given = (given / 16).astype(np.float32)
        found = runner.run({tensor.name: given})
    for name, values in evaluate_quantized(quantized, {case.head: given}).items():
        if values.dtype == np.int8 and compiled.report.on_cpu:
            # A float of the CPU next to a tie rounds either way.
            away = np.abs(found[name].astype(int) - values)
            assert away.max() <= 1
            assert np.mean(away) < TIES
        elif values.dtype == np.int8:
            np.testing.assert_array_equal(found[name], values)
        else:
            np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-6)
    return len(compiled.report.on_cpu)


@pytest.mark.parametrize("op", sorted(DRAWS))
def test_operator(rng: np.random.Generator, op: str) -> None:
    for _ in range(ROUNDS):
        run(rng, op, "B512")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["B64", "B512", "B4096"])
@pytest.mark.parametrize("op", sorted(DRAWS))
def test_many_draws(rng: np.random.Generator, op: str, target: str) -> None:
    on_cpu = [run(rng, op, target) for _ in range(12)]
    if op in ON_DPU:
        assert not min(on_cpu)
