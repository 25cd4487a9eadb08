# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs in integers, against the oracle."""

import numpy as np
import pytest
from oracle import evaluate_quantized

from opendpu.integer import IntegerNetwork
from opendpu.ir import Quantization, QuantizedGraph
from opendpu_arch.errors import TensorError


def small_graph() -> QuantizedGraph:
    """Return a convolution and a softmax of its channels."""
    noise = np.random.default_rng(7)
    graph = QuantizedGraph("small")
    graph.add("x", "data", (1, 6, 5, 3))

    def fix(name: str, point: int) -> str:
        return graph.add_fix(f"{name}_fix", name, Quantization.power_of_two(point)).name

    def const(name: str, *shape: int) -> str:
        graph.add(name, "const", shape, value=noise.normal(size=shape).astype(np.float32))
        return fix(name, 6)

    given = {"input": [fix("x", 4)], "weights": [const("w", 4, 3, 3, 3)], "bias": [const("b", 4)]}
    window = {"kernel": [3, 3], "stride": [1, 1], "pad": [1, 1, 1, 1], "pad_mode": "FLOOR"}
    graph.add("conv", "conv2d", (1, 6, 5, 4), given, window)
    graph.add("relu", "relu", (1, 6, 5, 4), {"input": ["conv"]})
    graph.add("soft", "softmax", (1, 6, 5, 4), {"input": [fix("relu", 3)]}, {"axis": -1})
    graph.outputs = ["soft"]
    return graph


@pytest.fixture
def images(rng) -> np.ndarray:
    return rng.normal(size=(5, 6, 5, 3)).astype(np.float32)


def test_many_samples_at_once(images):
    network = IntegerNetwork(small_graph(), keep=["relu_fix", "soft"])
    found = network.run({"x": images})
    wanted = evaluate_quantized(small_graph(), {"x": images}, keep=["relu_fix", "soft"])
    assert found["relu_fix"].dtype == np.int8
    np.testing.assert_array_equal(found["relu_fix"], wanted["relu_fix"])
    np.testing.assert_allclose(found["soft"], wanted["soft"], rtol=1e-5)
    assert network.fix_point("relu_fix") == 3
    assert network.fix_point("soft") is None
    assert set(network.tensors) >= {"relu_fix", "soft"}


def test_batch_after_batch(images):
    network = IntegerNetwork(small_graph())
    parts = list(network.evaluate({"x": part} for part in np.array_split(images, 2)))
    assert [len(part["soft"]) for part in parts] == [3, 2]
    whole = network.run({"x": images})["soft"]
    np.testing.assert_array_equal(np.concatenate([part["soft"] for part in parts]), whole)


def test_integers_are_taken_as_they_are(images):
    network = IntegerNetwork(small_graph(), keep=["relu_fix"])
    integers = np.clip(np.floor(images * 16 + 0.5), -128, 127).astype(np.int8)
    np.testing.assert_array_equal(
        network.run({"x": integers})["relu_fix"], network.run({"x": images})["relu_fix"]
    )


def test_a_graph_that_would_join_samples_takes_one_after_the_other(images):
    graph = small_graph()
    graph.add("rows", "reshape", (30, 4), {"input": ["relu_fix"]}, {"shape": [30, 4]})
    graph.add_fix("rows_fix", "rows", Quantization.power_of_two(3))
    graph.outputs = ["rows_fix"]
    found = IntegerNetwork(graph).run({"x": images})["rows_fix"]
    wanted = evaluate_quantized(small_graph(), {"x": images}, keep=["relu_fix"])["relu_fix"]
    np.testing.assert_array_equal(found, wanted.reshape(150, 4))


def test_what_is_refused(images):
    with pytest.raises(TensorError, match="graph 'small' has no tensor 'conv' in integers; it has"):
        IntegerNetwork(small_graph(), keep=["conv"])
    network = IntegerNetwork(small_graph())
    with pytest.raises(TensorError, match="'y' is no input of graph 'small'; its inputs are: x"):
        network.run({"x": images, "y": images})
    with pytest.raises(TensorError, match="input 'x' of graph 'small' is missing"):
        network.run({})
    with pytest.raises(
        TensorError, match=r"input 'x' has shape \[5, 5, 3\], but must be \[N, 6, 5, 3\]"
    ):
        network.run({"x": images[0, :5]})
