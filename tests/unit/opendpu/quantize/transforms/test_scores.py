# SPDX-License-Identifier: Apache-2.0
"""Scores of softmaxes in bytes: those far from zero are moved, those too far apart stay float."""

import numpy as np
import pytest

from opendpu.ir import FloatGraph
from opendpu.ops.session import Session
from opendpu.quantize import QuantizeConfig, quantize_with_report
from opendpu.quantize.samples import calibration_samples
from opendpu.quantize.transforms.centre import centre
from opendpu_arch.target import Target

TABLES = QuantizeConfig(
    target=Target.from_name("B512+table"), cross_layer=False, bias_correction=False,
    weight_correction=False, refinement=False,
)  # fmt: skip
POINT = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
ROWS, CHANNELS = 12, 16
RNG = np.random.default_rng(5)
VALUES = RNG.uniform(-1, 1, (8, 1, ROWS, CHANNELS)).astype(np.float32)


def conv(graph: FloatGraph, name: str, source: str, weights: np.ndarray, bias: float = 0) -> str:
    """Add a convolution of one pixel, ``weights`` of ``[outputs, inputs]``."""
    outputs, inputs = weights.shape
    constants = {"weights": weights.reshape(outputs, 1, 1, inputs), "bias": np.full(outputs, bias)}
    given = {key: [graph.add_const(f"{name}_{key}", one).name] for key, one in constants.items()}
    shape = (*graph[source].shape[:3], outputs)
    return graph.add(name, "conv2d", shape, {"input": [source], **given}, POINT).name


def network(common: float, bias: float = 0.0, kind: str = "reshape") -> FloatGraph:
    """Return a softmax of rows that are about ``common`` from ``bias``, and a layer behind it."""
    graph = FloatGraph("attention")
    graph.add("x", "data", (1, 1, ROWS, CHANNELS))
    own, shared = (RNG.standard_normal((n, CHANNELS)) / np.sqrt(CHANNELS / 3) for n in (ROWS, 1))
    conv(graph, "scores", "x", 2 * own + common * shared, bias)
    attrs = {"shape": [1, ROWS, ROWS]} if kind == "reshape" else {}
    shape = (1, ROWS, ROWS) if kind == "reshape" else graph["scores"].shape
    graph.add("given", kind, shape, {"input": ["scores"]}, attrs)
    graph.add("op", "softmax", shape, {"input": ["given"]}, {"axis": len(shape) - 1})
    graph.add("rows", "reshape", (1, 1, ROWS, ROWS), {"input": ["op"]}, {"shape": [1, 1, 12, 12]})
    graph.outputs = [conv(graph, "y", "rows", RNG.standard_normal((8, ROWS)))]
    return graph


def result(graph: FloatGraph) -> np.ndarray:
    """Return the network's results of a sample."""
    return Session(graph, keep=["y"]).run({"x": VALUES[:1]})["y"]


@pytest.mark.parametrize(("bias", "moved"), [(200.0, ["scores"]), (-90.0, ["scores"]), (0.5, [])])
def test_scores_far_from_zero_are_moved(bias: float, moved: list[str]) -> None:
    graph = network(4.0, bias)
    wanted = result(graph)
    assert centre(graph, calibration_samples(graph, {"x": VALUES})) == moved
    np.testing.assert_allclose(result(graph), wanted, rtol=1e-4, atol=1e-5)
    found = Session(graph, keep=["scores"]).run({"x": VALUES[:1]})["scores"]
    assert np.abs(found).max() < 40


def test_scores_that_something_else_reads_stay() -> None:
    graph = network(4.0, 200.0)
    graph.outputs.append("scores")
    assert not centre(graph, calibration_samples(graph, {"x": VALUES}))
    graph = network(4.0, 200.0, "relu")
    assert not centre(graph, calibration_samples(graph, {"x": VALUES}))


def test_scores_of_classes_stay() -> None:
    """Programs read the scores, or what the softmax makes of them; both are results."""
    graph = network(4.0, 200.0)
    graph.outputs = ["rows"]
    graph.prune()
    assert not centre(graph, calibration_samples(graph, {"x": VALUES}))


@pytest.mark.parametrize(("common", "bias"), [(4.0, 200.0), (90.0, 0.0)])
def test_probabilities_are_near_those_of_float(common: float, bias: float) -> None:
    """Whatever the scores: in parts on the DPU, or in float with the layer that makes them."""
    graph = network(common, bias)
    report = quantize_with_report(graph, {"x": VALUES}, TABLES).report
    assert report is not None
    (found,) = report.outputs_sqnr.values()
    assert list(report.tabulated) == ["op"] * (common < 90)
    assert found is None or found > 22  # none where all of it is float
