# SPDX-License-Identifier: Apache-2.0
"""Functions of TensorFlow as frozen graphs, and what TensorFlow computes of them."""

import warnings

import numpy as np
import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

from opendpu.frontend.tensorflow.importer import load_nodes
from opendpu.frontend.tensorflow.runtime import frozen, tf
from opendpu.ir import to_xir
from opendpu.ops.session import Session


def frozen_graph(function, shapes):
    """Return nodes, placeholders and results of a function of float tensors."""
    specs = [tf.TensorSpec(shape, tf.float32) for shape in shapes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return frozen(tf.function(function).get_concrete_function(*specs), "function")


def load_function(function, shapes):
    """Return the float graph of a function."""
    nodes, inputs, outputs = frozen_graph(function, shapes)
    return load_nodes(
        nodes, "function", "function",
        inputs={name: f"x{i}" for i, name in enumerate(inputs)},
        outputs={f"y{i}": name for i, name in enumerate(outputs)},
    )  # fmt: skip


def computed(graph, arrays):
    """Return what a graph makes of arrays, in order."""
    to_xir(graph)  # every op is as XIR defines it
    heads = [node.name for node in graph if node.kind == "data"]
    found = Session(graph).run(dict(zip(sorted(heads), arrays, strict=True)))
    return [found[name] for name in graph.outputs]


def agree(function, arrays, tolerance=2e-5):
    """Compare a function's graph with TensorFlow; return the graph."""
    graph = load_function(function, [array.shape for array in arrays])
    expected = tf.nest.flatten(function(*map(tf.constant, arrays)))
    for want, found in zip(expected, computed(graph, arrays), strict=True):
        want = want.numpy()
        assert found.shape == (want.shape or (1,))
        scale = max(1.0, float(np.abs(want).max(initial=0)))
        np.testing.assert_allclose(found, want, rtol=0, atol=tolerance * scale)
    return graph
