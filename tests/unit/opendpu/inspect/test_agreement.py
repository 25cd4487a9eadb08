# SPDX-License-Identifier: Apache-2.0
"""The devices of an inspection are those of a compilation."""

import numpy as np
import pytest
from random_graphs import draw
from random_graphs.check import deadline
from random_graphs.onnx_models import draw_model

from opendpu.compiler.pipeline import compile_with_report
from opendpu.compiler.report import Report
from opendpu.frontend import load_onnx
from opendpu.inspect import inspect_graph
from opendpu.ir import FloatGraph
from opendpu.quantize import quantize
from opendpu_arch.target import Target

TARGETS = ("B64", "B512", "B1152", "B4096")


def devices_of(report: Report) -> dict[str, str]:
    return {name: part.device for part in report.subgraphs for name in part.ops}


def check_quantized(seed: int) -> None:
    """With the scales of the graph, nothing may differ."""
    grower = draw(seed)
    with deadline():
        found = inspect_graph(grower.graph, grower.target)
        report = compile_with_report(grower.graph, grower.target, verified=False).report
    assert found.devices == devices_of(report), f"seed {seed}"
    assert not found.assumed_scales


def calibrated(graph: FloatGraph, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        node.name: 3 * random.standard_normal((2, *node.shape[1:])).astype(np.float32)
        for node in graph
        if node.kind == "data"
    }


def check_float(seed: int) -> None:
    """With calibrated scales, only what the assumed ones decided may differ.

    Operators are compared: scales also decide whether ops for other scales go between them.
    """
    graph = load_onnx(draw_model(seed))
    target = Target.from_name(TARGETS[seed % len(TARGETS)])
    with deadline():
        found = inspect_graph(graph, target)
        quantized = quantize(graph, calibrated(graph, seed), refinement=False)
        real = inspect_graph(quantized, target)
        report = compile_with_report(quantized, target, verified=False).report
    assert real.devices == devices_of(report), f"seed {seed}"
    there = {node.name: node.device for node in real.nodes}
    other = {n.name for n in found.nodes if n.device != there.get(n.name, n.device)}
    assert not other or other & {n.name for n in found.nodes if n.of_scales}, f"seed {seed}"


@pytest.mark.parametrize("seed", [8, 70, 92, 139, 514143736])
def test_scales_that_the_data_decides(seed: int) -> None:
    """These differ: a hard-sigmoid with a scale that others share, a relu6 behind large numbers.

    The last is a hard-sigmoid that either its result's scale or its input's would keep on the DPU.
    """
    check_float(seed)


def test_random_float_models(rng: np.random.Generator) -> None:
    for _ in range(12):
        check_float(int(rng.integers(1 << 30)))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_random_graphs(rng: np.random.Generator, part: int) -> None:
    for _ in range(30):
        check_quantized(int(rng.integers(1 << 30)))
        check_float(int(rng.integers(1 << 30)))
