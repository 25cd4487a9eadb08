# SPDX-License-Identifier: Apache-2.0
"""Constants that are too large for a session to copy are inputs of its model."""

import numpy as np
import pytest

import opendpu.ops.onnx_builder as onnx_builder
from opendpu.ir import FloatGraph
from opendpu.ops.session import Session


def dense(weights, bias):
    graph = FloatGraph("dense")
    graph.add("x", "data", (1, weights.shape[1]))
    graph.add_const("w", weights)
    graph.add_const("b", bias)
    graph.add("y", "inner-product", (1, len(weights)),
              {"input": ["x"], "weights": ["w"], "bias": ["b"]}, {"axis": 1})  # fmt: skip
    graph.outputs = ["y"]
    return graph


@pytest.mark.parametrize("rows", [1, 3])
def test_the_same_numbers(monkeypatch, rows):
    rng = np.random.default_rng(rows)
    weights = rng.integers(-8, 8, (96, 256)).astype(np.float32)
    bias = rng.integers(-8, 8, 96).astype(np.float32)
    x = rng.integers(-8, 8, (rows, 256)).astype(np.float32)
    copied = Session(dense(weights, bias), batched=True)
    monkeypatch.setattr(onnx_builder, "FED_BYTES", 1 << 12)
    fed = Session(dense(weights, bias), batched=True)
    assert fed.inputs == copied.inputs == ["x"]
    assert len(fed._fed) == 1
    assert not copied._fed
    for session in (copied, fed):
        np.testing.assert_array_equal(session.run({"x": x})["y"], x @ weights.T + bias)


def test_integers_are_copied(monkeypatch):
    """Indices, say, which kernels want to know before they run."""
    monkeypatch.setattr(onnx_builder, "FED_BYTES", 8)
    builder = onnx_builder.OnnxBuilder(FloatGraph("none"))
    name = builder.initializer(np.arange(100))
    assert name in builder.initializers
    assert not builder.fed
