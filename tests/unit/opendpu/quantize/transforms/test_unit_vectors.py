# SPDX-License-Identifier: Apache-2.0
"""Vectors over their lengths in parts: the same in float, and near it in integers."""

import numpy as np
import pytest

from opendpu.ir import FloatGraph, Graph
from opendpu.ops.session import Session
from opendpu.quantize import QuantizeConfig, quantize
from opendpu.quantize.samples import calibration_samples
from opendpu.quantize.transforms.tabulate import tabulate
from opendpu_arch.target import Target

TABLES = QuantizeConfig(
    target=Target.from_name("B512+table"), cross_layer=False, bias_correction=False,
    weight_correction=False, refinement=False,
)  # fmt: skip
COUNT, ROWS = 32, 24


def product(graph: Graph, name: str, source: str, outputs: int) -> str:
    """Add a product with random weights."""
    count = graph[source].shape[-1]
    weights = np.random.default_rng(len(name)).standard_normal((count, outputs)) / np.sqrt(count)
    given = [source, graph.add_const(f"{name}_w", weights).name]
    attrs = {"transpose_a": False, "transpose_b": False}
    return graph.add(
        name, "matmul", (*graph[source].shape[:-1], outputs), {"input": given}, attrs
    ).name


def network(axis: int = 2, epsilon: float = 1e-12) -> FloatGraph:
    """Return rows of lengths 1 between two products."""
    graph = FloatGraph("unit")
    graph.add("x", "data", (1, ROWS, COUNT))
    source = product(graph, "first", "x", COUNT)
    attrs = {"axis": [axis], "epsilon": epsilon}
    graph.add("op", "l2_normalize", (1, ROWS, COUNT), {"input": [source]}, attrs)
    graph.outputs = [product(graph, "y", "op", 16)]
    return graph


def rows(rng: np.random.Generator, least: float, count: int = 8) -> np.ndarray:
    """Return samples whose rows are between ``least`` and 1 times as long."""
    factors = rng.permuted(np.geomspace(least, 1, ROWS * count)).reshape(count, ROWS, 1)
    return (factors * rng.standard_normal((count, ROWS, COUNT))).astype(np.float32)


def computed(graph: Graph, values: np.ndarray) -> np.ndarray:
    (found,) = Session(graph, keep=graph.outputs, batched=True).run({"x": values}).values()
    return found


@pytest.mark.parametrize("axis", [2, -1])
@pytest.mark.parametrize("least", [0.5, 0.1])
def test_it_is_the_same_in_float(rng, least: float, axis: int) -> None:
    graph, values = network(axis), rows(rng, least)
    wanted = computed(graph, values)
    names, _ = tabulate(graph, calibration_samples(graph, {"x": values}), TABLES)
    assert names == ["op"]
    assert "l2_normalize" not in {node.kind for node in graph}
    np.testing.assert_allclose(computed(graph, values), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("least", "decibels"), [(1.0, 26), (0.4, 25), (0.1, 21)])
def test_it_loses_little(rng, least: float, decibels: int) -> None:
    graph, values = network(), rows(rng, least)
    wanted = computed(graph, values)
    quantized = quantize(graph, {"x": values}, TABLES)
    assert "l2_normalize" not in {node.kind for node in quantized}
    found = computed(quantized, values)
    assert 10 * np.log10(np.square(wanted).sum() / np.square(wanted - found).sum()) > decibels


@pytest.mark.parametrize("least", [0.4, 0.1])
def test_rows_of_zeros_stay_zero_and_do_not_count(rng, least: float) -> None:
    """Windows are padded so (Swin V2)."""
    graph, values = network(), rows(rng, least)
    values[:, ::3] = 0
    wanted = computed(graph, values)
    quantized = quantize(graph, {"x": values}, TABLES)
    assert "l2_normalize" not in {node.kind for node in quantized}
    found = computed(quantized, values)
    assert not found[:, ::3].any()
    assert 10 * np.log10(np.square(wanted).sum() / np.square(wanted - found).sum()) > 21


@pytest.mark.parametrize("least", [0.5, 0.2, 0.1])
def test_short_vectors_stay_short(rng, least: float) -> None:
    """What is below epsilon is divided by its root, as the operator says."""
    graph, values = network(epsilon=COUNT * 0.1), rows(rng, least)
    wanted = computed(graph, values)
    assert tabulate(graph, calibration_samples(graph, {"x": values}), TABLES)[0] == ["op"]
    np.testing.assert_allclose(computed(graph, values), wanted, rtol=1e-3, atol=1e-4)


def test_lengths_too_far_apart_are_the_cpus(rng) -> None:
    graph, values = network(), rows(rng, 1e-3)
    names, _ = tabulate(graph, calibration_samples(graph, {"x": values}), TABLES)
    assert names == []
    assert "variances of its rows" in graph["op"].reason


def test_of_another_axis_they_are_rows_between_transposes(rng) -> None:
    """As attention between channels has it, whose vectors are as long as there are pixels."""
    graph, values = network(axis=1), rows(rng, 0.5)
    wanted = computed(graph, values)
    quantized = quantize(graph, {"x": values}, TABLES)
    assert tabulate(graph, calibration_samples(graph, {"x": values}), TABLES)[0] == ["op"]
    np.testing.assert_allclose(computed(graph, values), wanted, rtol=1e-3, atol=1e-4)
    found = computed(quantized, values)
    assert 10 * np.log10(np.square(wanted).sum() / np.square(wanted - found).sum()) > 24


def test_of_several_axes_they_are_the_cpus(rng) -> None:
    graph, values = network(), rows(rng, 0.5)
    graph["op"].attrs["axis"] = [1, 2]
    assert tabulate(graph, calibration_samples(graph, {"x": values}), TABLES)[0] == []
