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


@pytest.mark.parametrize("windows", [1, 4])
def test_a_number_a_head_on_scores(windows: int) -> None:
    """Cosine attention of SwinV2, and the temperature of XCiT and Restormer."""
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[1, {windows * 6}, 16] x) => (float[1, {windows * 6}, 16] y)
        <int64[4] split = {{{windows}, 6, 2, 8}}, int64[3] whole = {{1, {windows * 6}, 16}}> {{
          heads = Reshape(x, split)
          rows = Transpose <perm = [0, 2, 1, 3]> (heads)
          columns = Transpose <perm = [0, 2, 3, 1]> (heads)
          products = MatMul(rows, columns)
          scores = Mul(products, factors)
          seen = Softmax <axis = -1> (scores)
          mixed = MatMul(seen, rows)
          tokens = Transpose <perm = [0, 2, 1, 3]> (mixed)
          y = Reshape(tokens, whole)
        }}""")
    factors = np.array([0.5, 1.5], np.float32).reshape(2, 1, 1)
    model.graph.initializer.append(onnx.numpy_helper.from_array(factors, "factors"))
    target = "B512+table"
    graph = quantized(model, target, 3)
    compiled = check(graph, Target.from_name(target), 3, reference=by_integers)
    assert not compiled.report.on_cpu


def test_rows_whose_means_are_nothing_but_rounding() -> None:
    """A LayerNorm of what one without scale and bias made, as in CLIP and SegFormer."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 10, 16] x) => (float[1, 10, 16] y) <float[1] one = {1.0}> {
          size = Constant <value_ints = [16]> ()
          ones = Expand(one, size)
          first = LayerNormalization(x, ones)
          second = LayerNormalization(first, ones)
          y = Add(first, second)
        }""")
    target = "B512+table"
    compiled = check(
        quantized(model, target, 4), Target.from_name(target), 4, reference=by_integers
    )
    assert not compiled.report.on_cpu


@pytest.mark.slow
@pytest.mark.parametrize("draw", [draw_transformer, draw_patches])
@pytest.mark.parametrize("part", range(8))
def test_many_random_transformers(rng: np.random.Generator, draw: Draw, part: int) -> None:
    check_seeds(rng, 20, draw)


def test_patches_of_frames() -> None:
    """TimeSformer: frames are a batch, whose patches are as wide as no stride."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 9, 32, 48] x) => (float[1, 72, 2, 3] y)
        <int64[4] frames = {3, 3, 32, 48}, int64[4] maps = {1, 24, 2, 3}> {
          each = Reshape(x, frames)
          patches = Conv <kernel_shape = [16, 16], strides = [16, 16]> (each, weights)
          rows = Reshape(patches, maps)
          y = Concat <axis = 1> (rows, rows, rows)
        }""")
    weights = np.random.default_rng(5).standard_normal((8, 3, 16, 16)).astype(np.float32) / 28
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "weights"))
    target = "B512+table"
    check(quantized(model, target, 3), Target.from_name(target), 3, reference=by_integers)
