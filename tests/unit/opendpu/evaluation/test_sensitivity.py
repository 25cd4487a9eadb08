# SPDX-License-Identifier: Apache-2.0
"""Sensitivity finds the layer that spoils the outputs."""

import numpy as np
import pytest

from opendpu.evaluation import sensitivity
from opendpu.evaluation.sensitivity import with_some_fixes
from opendpu.ir import FloatGraph, Quantization
from opendpu.ops.session import Session
from opendpu.quantize import quantize_with_report
from opendpu.quantize.quantizer import Quantized
from opendpu.quantize.samples import calibration_samples

POINT = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}


def network() -> FloatGraph:
    """Three 1x1 convolutions with ReLUs behind two of them."""
    random = np.random.default_rng(3)
    graph = FloatGraph("chain")
    name = graph.add("x", "data", (1, 4, 4, 8)).name
    for number in range(3):
        weights = graph.add_const(f"w{number}", random.normal(0, 0.4, (8, 1, 1, 8)))
        inputs = {"input": [name], "weights": [weights.name]}
        name = graph.add(f"c{number}", "conv2d", (1, 4, 4, 8), inputs, POINT).name
        if number < 2:
            name = graph.add(f"r{number}", "relu", (1, 4, 4, 8), {"input": [name]}).name
    graph.outputs = [name]
    return graph


@pytest.fixture
def made() -> tuple[Quantized, dict[str, np.ndarray]]:
    samples = {"x": np.random.default_rng(4).normal(0, 1, (32, 4, 4, 8)).astype(np.float32)}
    return quantize_with_report(network(), samples, refinement=False), samples


def test_the_layer_with_coarse_weights_is_named_first(made):
    quantized, arrays = made
    graph, reference = quantized.graph, quantized.reference
    assert reference is not None
    samples = calibration_samples(reference, arrays)
    fix = graph[graph["c1"].inputs["weights"][0]]
    coarse = fix.fix_point - 4
    fix.type = fix.type.with_quantization(Quantization.power_of_two(coarse))
    found = sensitivity(graph, reference, samples, count=16)
    assert {one.name for one in found} == {"c0", "c1", "c2"}
    assert found[0].name == "c1"
    assert found[0].gain > 5
    assert found[0].alone_sqnr < min(one.alone_sqnr for one in found[1:]) - 5
    assert [one.gain for one in found] == sorted((one.gain for one in found), reverse=True)


def test_no_fixes_are_the_float_network_and_all_are_the_quantized_one(made):
    quantized, arrays = made
    graph, reference = quantized.graph, quantized.reference
    assert reference is not None
    feed = {"x": arrays["x"][:1]}
    none, moved = with_some_fixes(graph, reference, ())
    (found,) = Session(none, keep=[moved["c2"]]).run(feed).values()
    (wanted,) = Session(reference).run(feed).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    every = {node.name for node in graph if node.kind == "fix"}
    whole, moved = with_some_fixes(graph, reference, every)
    (found,) = Session(whole, keep=[moved["c2"]]).run(feed).values()
    plain = graph.copy()
    for node in plain:
        if node.value is not None:
            node.value = reference[node.name].value
    (wanted,) = Session(plain).run(feed).values()
    np.testing.assert_array_equal(found, wanted)
    kept = [node.name for node in whole if node.kind == "fix"]
    assert set(kept) == every
