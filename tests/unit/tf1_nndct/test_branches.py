# SPDX-License-Identifier: Apache-2.0
"""Layers that compute another thing in training are pruned as inference computes them."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

from opendpu_arch.errors import UnsupportedError  # noqa: E402
from tf1_nndct.branches import as_taken  # noqa: E402
from tf1_nndct.optimization.pruning import IterativePruningRunner  # noqa: E402

v1, raw = tf.compat.v1, tf.raw_ops
SPECS = {"image:0": tf.TensorSpec((1, 8, 8, 3), tf.float32)}


def variable(rng, name, shape):
    return v1.get_variable(name, initializer=rng.uniform(0.1, 1, shape).astype("float32"))


def network(rng, condition):
    """Return scores of layers as those of Keras: a switch for every operand, a merge behind."""
    image = v1.placeholder(tf.float32, (None, 8, 8, 3), name="image")
    training = v1.identity(condition)
    x = v1.nn.conv2d(image, variable(rng, "first", (3, 3, 3, 8)), 1, "SAME")
    given = [x, *(variable(rng, name, (8,)) for name in ("gamma", "beta", "mean", "variance"))]
    tested, trained = zip(*(
        (made.output_false, made.output_true)
        for made in (raw.Switch(data=tf.identity(one), pred=training) for one in given)
    ), strict=True)  # fmt: skip
    fused = v1.nn.fused_batch_norm
    tested = fused(*tested, is_training=False)[0]
    trained = fused(*trained[:3], is_training=True)[0]
    x = v1.nn.relu(raw.Merge(inputs=[tested, trained]).output)
    x = v1.nn.conv2d(x, variable(rng, "second", (3, 3, 8, 6)), 1, "SAME")
    dropped = raw.Switch(data=x, pred=training)
    noise = v1.random_uniform(tf.shape(dropped.output_true))
    x = raw.Merge(inputs=[dropped.output_true * noise, dropped.output_false]).output
    x = tf.reduce_mean(x, [1, 2])
    return tf.matmul(x, variable(rng, "last", (6, 4)), name="scores")


def test_branches_of_training_are_pruned_with_those_of_inference(rng):
    images = rng.normal(size=(2, 8, 8, 3)).astype("float32")
    with tf.Graph().as_default(), v1.Session() as session:
        network(rng, v1.placeholder_with_default(False, (), name="phase"))
        session.run(v1.global_variables_initializer())
        runner = IterativePruningRunner("net", session, SPECS, ["scores"])
        scores = iter(np.linspace(1, 0, 100))
        runner.ana(lambda graph: float(next(scores)))
        shape_tensors, masks = runner.prune(sparsity=0.5)
        sparse = session.run("scores:0", {"image:0": images})
        small = runner.get_slim_graph_def(shape_tensors, masks)
    kernels = {node.name: node.attr["value"].tensor.tensor_shape for node in small.node}
    assert kernels["first"].dim[3].size < 8 or kernels["second"].dim[3].size < 6
    with tf.Graph().as_default(), v1.Session() as session:
        tf.import_graph_def(small, name="")
        found = session.run("scores:0", {"image:0": images})
        np.testing.assert_allclose(found, sparse, rtol=1e-4, atol=1e-5)
        session.run("scores:0", {"image:0": images, "phase:0": True})


def test_branches_that_the_data_decide_stay(rng):
    with tf.Graph().as_default() as graph, v1.Session() as session:
        network(rng, v1.placeholder(tf.bool, (), name="phase"))
        session.run(v1.global_variables_initializer())
        definition = graph.as_graph_def()
        assert as_taken(definition) is definition
        with pytest.raises(UnsupportedError, match=r"first|Conv2D.*Switch"):
            IterativePruningRunner("net", session, SPECS, ["scores"])
