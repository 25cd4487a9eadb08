# SPDX-License-Identifier: Apache-2.0
"""Ops beside an ONNX operator are computed in the operator set that this one needs."""

import numpy as np
import onnx
import pytest

from opendpu.ir import FloatGraph, NumberFormat, Quantization, QuantizedGraph
from opendpu.ops.foreign import KIND
from opendpu.ops.session import Session


def add_foreign(graph: FloatGraph | QuantizedGraph, name: str, source: str, opset: int) -> None:
    """Add a Softsign of an operator set."""
    shape = graph[source].shape
    size = ", ".join(map(str, shape))
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : {opset}]>
        g (float[{size}] x) => (float[{size}] y) {{ y = Softsign(x) }}""")
    attrs = {"model": model.SerializeToString(), "call": name, "output": 0}
    graph.add(name, KIND, shape, {"input": [source]}, attrs)


@pytest.mark.parametrize("opset", [13, 14, 18, 22])
def test_a_constant_beside_many_samples(opset):
    graph = FloatGraph("g")
    graph.add("x", "data", (1, 2, 3, 4))
    add_foreign(graph, "y", "x", opset)
    graph.add_const("c", np.arange(6).reshape(1, 2, 3, 1))
    graph.add("z", "concat", (1, 2, 3, 5), {"input": ["y", "c"]}, {"axis": 3})
    graph.outputs = ["z"]
    x = np.random.default_rng(0).standard_normal((5, 2, 3, 4)).astype(np.float32)
    found = Session(graph, batched=True).run({"x": x})["z"]
    np.testing.assert_allclose(found[..., :4], x / (1 + abs(x)), rtol=1e-6)
    np.testing.assert_array_equal(found[..., 4], np.tile(np.arange(6).reshape(1, 2, 3), (5, 1, 1)))


@pytest.mark.parametrize("opset", [13, 22])
def test_sizes_that_no_factor_gives(opset):
    graph = FloatGraph("g")
    graph.add("x", "data", (1, 3, 3, 2))
    add_foreign(graph, "y", "x", opset)
    attrs = {"mode": "NEAREST", "align_corners": False, "half_pixel_centers": False, "scale": []}
    graph.add("z", "resize", (1, 5, 4, 2), {"input": ["y"]}, attrs)
    graph.outputs = ["z"]
    x = np.random.default_rng(0).standard_normal((2, 3, 3, 2)).astype(np.float32)
    found = Session(graph, batched=True).run({"x": x})["z"]
    wanted = (x / (1 + abs(x)))[:, [0, 0, 1, 1, 2]][:, :, [0, 0, 1, 2]]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("opset", [13, 22])
def test_largest_of_a_block(opset):
    graph = QuantizedGraph("g")
    graph.add("x", "data", (1, 1, 1, 16))
    add_foreign(graph, "y", "x", opset)
    graph.add_fix("z", "y", Quantization((1.0,), number_format=NumberFormat.MX9))
    graph.outputs = ["z"]
    x = np.linspace(-3, 3, 16, dtype=np.float32).reshape(1, 1, 1, 16)
    found = Session(graph).run({"x": x})["z"]
    np.testing.assert_allclose(found, x / (1 + abs(x)), atol=2.0**-7)


@pytest.mark.parametrize("opset", [13, 22])
def test_reductions(opset):
    graph = FloatGraph("g")
    graph.add("x", "data", (1, 4, 4, 2))
    add_foreign(graph, "y", "x", opset)
    attrs = {"axis": [1, 2], "keep_dims": False}
    for kind in ("reduction_max", "reduction_mean", "reduction_sum"):
        graph.add(kind, kind, (1, 2), {"input": ["y"]}, attrs)
    graph.outputs = ["reduction_max", "reduction_mean", "reduction_sum"]
    x = np.random.default_rng(0).standard_normal((1, 4, 4, 2)).astype(np.float32)
    found = Session(graph).run({"x": x})
    y = x / (1 + abs(x))
    for kind, wanted in (("max", y.max((1, 2))), ("mean", y.mean((1, 2))), ("sum", y.sum((1, 2)))):
        np.testing.assert_allclose(found[f"reduction_{kind}"], wanted, rtol=1e-5)
