# SPDX-License-Identifier: Apache-2.0
"""Transformers on targets with tables: softmax and LayerNorm are the DPU's."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from random_graphs.check import check
from random_graphs.patches import draw_patches
from random_graphs.scales import by_integers
from random_graphs.transformers import draw_transformer

from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph, QuantizedGraph
from opendpu.quantize import QuantizeConfig, quantize
from opendpu_arch.target import Target

Draw = Callable[[int], onnx.ModelProto]
TARGETS = ("B64+table", "B512+table", "B1152+table", "B4096+table+channel")


def samples_of(graph: FloatGraph, seed: int, count: int = 4) -> dict[str, np.ndarray]:
    """Return samples for every input."""
    values = np.random.default_rng(seed)
    return {
        node.name: values.standard_normal((count, *node.shape[1:])).astype(np.float32)
        for node in graph if node.kind == "data"
    }  # fmt: skip


def quantized(model: onnx.ModelProto, target: str, seed: int, **options: object) -> QuantizedGraph:
    graph = load_onnx(model)
    config = QuantizeConfig(target=Target.from_name(target), refinement=False,
                            weight_correction=False)  # fmt: skip
    return quantize(graph, samples_of(graph, seed), config, **options)


def check_seed(seed: int, target: str, draw: Draw = draw_transformer) -> None:
    """Check that one DPU subgraph computes all, and what the integer reference computes."""
    graph = quantized(draw(seed), target, seed)
    compiled = check(graph, Target.from_name(target), seed, reference=by_integers)
    if not any("variances" in node.reason for node in graph):
        devices = [part.device for part in compiled.report.subgraphs]
        assert devices == ["USER", "DPU"], compiled.report.on_cpu


def check_seeds(rng: np.random.Generator, count: int, draw: Draw = draw_transformer) -> None:
    for number in range(count):
        seed, target = int(rng.integers(1 << 30)), TARGETS[number % len(TARGETS)]
        try:
            check_seed(seed, target, draw)
        except Exception as error:
            error.add_note(f"seed {seed}, target {target}")
            raise


def test_random_transformers(rng: np.random.Generator) -> None:
    check_seeds(rng, 2)


def test_random_patches(rng: np.random.Generator) -> None:
    check_seeds(rng, 1, draw_patches)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [draw_transformer, draw_patches])
@pytest.mark.parametrize("part", range(8))
def test_many_random_transformers(rng: np.random.Generator, draw: Draw, part: int) -> None:
    check_seeds(rng, 20, draw)
