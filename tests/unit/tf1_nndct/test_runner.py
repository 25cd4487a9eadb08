# SPDX-License-Identifier: Apache-2.0
"""Graphs of TensorFlow 1 are pruned in their session, and slim graphs equal sparse ones."""

from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

from opendpu_arch.errors import DPUError  # noqa: E402
from tf1_nndct.frozen import frozen, graph_of  # noqa: E402
from tf1_nndct.numbering import analyze  # noqa: E402
from tf1_nndct.optimization.pruning import IterativePruningRunner  # noqa: E402
from tf1_nndct.surgery import masked, masks_of, sizes_of, slim  # noqa: E402
from tf_nndct.objective import Macs  # noqa: E402

v1 = tf.compat.v1
SPECS = {"image:0": tf.TensorSpec((1, 12, 12, 3), tf.float32)}


class Layers:
    """Layers as scripts for TensorFlow 1 write them, with variables of either kind."""

    def __init__(self, rng, resource):
        self.rng, self.resource = rng, resource

    def variable(self, name, shape, low=-0.5):
        value = self.rng.uniform(low, 0.8, shape).astype("float32")
        trained = name not in ("mean", "variance")
        return v1.get_variable(
            name, initializer=value, use_resource=self.resource, trainable=trained
        )

    def conv(self, name, x, count, size=3, stride=1):
        with v1.variable_scope(name):
            w = self.variable("weights", (size, size, x.shape[-1], count))
            x = v1.nn.conv2d(x, w, stride, "SAME")
            return v1.nn.bias_add(x, self.variable("biases", (count,)))

    def norm(self, name, x, fused=True):
        count = x.shape[-1]
        with v1.variable_scope(name):
            found = [self.variable(n, (count,), 0.3) for n in ("gamma", "beta", "mean", "variance")]
        gamma, beta, mean, variance = found
        if not fused:
            return v1.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)
        return v1.nn.fused_batch_norm(x, gamma, beta, mean, variance, is_training=False)[0]


def residual(at, image, drawn=False):
    """Additions, concatenations, depthwise and transposed kernels, pads, gates, flattening.

    What is drawn, as by a dropout in training, has its size from the graph; all of it is kept.
    """
    x = v1.nn.relu6(at.norm("bn1", at.conv("conv1", image, 8, stride=2)))
    y = at.norm("bn2", at.conv("conv2", tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 8), False)
    x = x + v1.nn.leaky_relu(at.conv("conv3", y, 8)[:, 1:-1, 1:-1])
    with v1.variable_scope("depth"):
        kernel = at.variable("depthwise_weights", (3, 3, 8, 2))
    y = v1.nn.depthwise_conv2d(x, kernel, [1, 1, 1, 1], "SAME")
    x = tf.concat([at.conv("conv4", y, 10, 1), v1.nn.max_pool2d(x, 3, 1, "SAME")], 3)
    gate = tf.sigmoid(at.conv("gate", tf.reduce_mean(x, [1, 2], keepdims=True), 18, 1))
    x = x * gate
    with v1.variable_scope("up"):
        kernel = at.variable("weights", (2, 2, 6, 18))
    x = v1.nn.conv2d_transpose(x, kernel, (1, 12, 12, 6), 2)
    x = tf.reshape(v1.nn.avg_pool2d(x, 2, 2, "SAME"), (-1, 216))
    if drawn:
        x = x * tf.cast(v1.random_uniform((1, 216)) >= 0.0, tf.float32)
    with v1.variable_scope("fc"):
        x = tf.matmul(x, at.variable("weights", (216, 7))) + at.variable("biases", (7,))
    x = tf.matmul(x, at.variable("last", (4, 7)), transpose_b=True, name="logits")
    return tf.nn.softmax(x, name="scores")


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def session(request, rng):
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as found:
        image = v1.placeholder(tf.float32, (None, 12, 12, 3), name="image")
        residual(Layers(rng, request.param), image)
        found.run(v1.global_variables_initializer())
        yield found


def computed(definition, images):
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as found:
        tf.import_graph_def(definition, name="")
        return found.run("scores:0", {"image:0": images})


def close(images):
    """Return a function that says how near a frozen graph is to the first that it sees."""
    wanted = []

    def eval_fn(frozen_graph_def):
        (given,) = [node for node in frozen_graph_def.node if node.op == "Placeholder"]
        assert given.attr["shape"].shape.dim[0].size == -1
        found = computed(frozen_graph_def, images)
        wanted.append(found)
        return -float(np.square(found - wanted[0]).mean())

    return eval_fn


def work(definition):
    """Return the multiply-accumulates, by the shapes that TensorFlow infers."""
    with tf.Graph().as_default() as graph:
        for node in definition.node:
            if node.op == "Placeholder":
                node.attr["shape"].shape.CopyFrom(tf.TensorShape((1, 12, 12, 3)).as_proto())
        tf.import_graph_def(definition, name="")
        total = 0
        for op in graph.get_operations():
            if op.type in ("Conv2D", "DepthwiseConv2dNative", "MatMul", "Conv2DBackpropInput"):
                kernel = op.inputs[1].shape.as_list()
                made = op.outputs[0].shape.num_elements()
                if op.type == "Conv2DBackpropInput":
                    total += op.inputs[2].shape.num_elements() * int(np.prod(kernel[:3]))
                elif op.type == "DepthwiseConv2dNative":
                    total += made * kernel[0] * kernel[1]
                elif op.type == "MatMul":
                    total += int(np.prod(kernel))
                else:
                    total += made * int(np.prod(kernel[:3]))
        return total


def test_slim_graphs_are_sparse_ones_without_the_zeros(session, rng):
    images = rng.normal(size=(1, 12, 12, 3)).astype("float32")
    whole = computed(frozen(session, ["scores"]), images)
    runner = IterativePruningRunner("net", session, SPECS, ["scores"])
    runner.ana(close(images), gpu_ids=["/GPU:0", "/GPU:1"])
    before = runner.get_slim_graph_def()
    np.testing.assert_array_equal(computed(before, images), whole)
    shape_tensors, masks = runner.prune(sparsity=0.5)
    assert Path(".vai/net_sparsity_0.5.spec").is_file()
    sparse = session.run("scores:0", {"image:0": images})
    small = runner.get_slim_graph_def(shape_tensors, masks)
    np.testing.assert_allclose(computed(small, images), sparse, rtol=1e-4, atol=1e-6)
    assert 0.25 * work(before) < work(small) <= 0.51 * work(before)
    assert all(set(np.unique(mask)) <= {0, 1} for mask in masks.values())
    again = IterativePruningRunner("net", session, SPECS, ["scores"])
    again.ana(lambda graph: pytest.fail("the analysis is known"))
    again.prune(threshold=0.9)


def test_zeros_stay_in_training(session, rng):
    images = rng.normal(size=(4, 12, 12, 3)).astype("float32")
    runner = IterativePruningRunner("net", session, SPECS, ["scores"])
    runner.ana(close(images[:1]))
    _, masks = runner.prune(sparsity=0.4)
    with session.graph.as_default():
        image, logits = "image:0", session.graph.get_tensor_by_name("logits:0")
        loss = 1e-2 * tf.reduce_mean(tf.asinh(logits))  # its slope is small where logits are large
        known, variables = v1.global_variables(), v1.trainable_variables()
        step = v1.train.MomentumOptimizer(0.05, 0.9).minimize(loss, var_list=variables)
        fresh = [v for v in v1.global_variables() if v not in known]
        session.run(v1.variables_initializer(fresh))
    old = [np.array(value) for value in session.run(variables)]
    for _ in range(3):
        session.run(step, {image: images[:1]})
    changed = 0
    for variable, was, now in zip(variables, old, session.run(variables), strict=True):
        mask = masks.get(variable.op.name, np.ones(1))
        assert not (now * (1 - mask)).any(), variable.name
        changed += not np.array_equal(was, now)
    assert changed > 5


def test_every_group_can_lose_half_and_sizes_follow(rng):
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        image = v1.placeholder(tf.float32, (1, 12, 12, 3), name="image")
        residual(Layers(rng, True), image, drawn=True)
        session.run(v1.global_variables_initializer())
        definition = frozen(session, ["scores"])
    graph = graph_of(definition, {}, ["scores"])
    structure = analyze(graph)
    units = {name: group.units for name, group in structure.dependencies.groups.items()}
    assert units == {
        "conv1/Conv2D": 8, "conv2/Conv2D": 8, "conv4/Conv2D": 10, "conv2d_transpose": 6,
        "fc/MatMul": 7,
    }  # fmt: skip
    assert structure.dependencies.kept == {"logits": "scores (Softmax) reads it"}
    removed = {n: sorted(rng.permutation(c)[: c // 2].tolist()) for n, c in units.items()}
    masks = masks_of(graph, structure, removed)
    sizes = sizes_of(graph, structure, removed)
    found = sorted(tf.make_ndarray(value).tolist() for value in sizes.values())
    assert found == [[-1, 108], [1, 12, 12, 3], [1, 108]]
    images = rng.normal(size=(1, 12, 12, 3)).astype("float32")
    expected = computed(masked(definition, masks), images)
    small = slim(definition, sizes, masks)
    np.testing.assert_allclose(computed(small, images), expected, rtol=1e-4, atol=1e-6)
    widths = {name: count - count // 2 for name, count in units.items()}
    assert work(small) == Macs(structure).exact(widths)
    assert work(definition) == Macs(structure).exact(units)


def test_graphs_without_variables_are_pruned_too(session, rng):
    definition = frozen(session, ["scores"])
    images = rng.normal(size=(1, 12, 12, 3)).astype("float32")
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as other:
        tf.import_graph_def(definition, name="")
        runner = IterativePruningRunner("frozen", other, SPECS, ["scores"])
        runner.ana(close(images))
        shape_tensors, masks = runner.prune(sparsity=0.5)
        small = runner.get_slim_graph_def(shape_tensors, masks)
    expected = computed(masked(definition, masks), images)
    np.testing.assert_allclose(computed(small, images), expected, rtol=1e-4, atol=1e-6)
    assert work(small) <= 0.51 * work(definition)


def test_excluded_nodes_stay(session, rng):
    images = rng.normal(size=(1, 12, 12, 3)).astype("float32")
    runner = IterativePruningRunner("net", session, SPECS, ["scores"], ["conv4/Conv2D"])
    runner.ana(close(images))
    _, masks = runner.prune(sparsity=0.3)
    assert masks.get("conv4/biases", np.ones(1)).all()


def refused(code, text):
    return pytest.raises(DPUError, match=rf"^\[OPTIMIZER_{code}\] .*{text}")


def test_what_is_refused(session, rng):
    images = rng.normal(size=(1, 12, 12, 3)).astype("float32")
    with refused("INVALID_ARGUMENT_ERROR", "has no node 'probabilities' of output_node_names"):
        IterativePruningRunner("net", session, SPECS, ["probabilities"])
    with refused("INVALID_ARGUMENT_ERROR", "has no input 'input_1' of input_specs"):
        spec = {"input_1:0": tf.TensorSpec((1, 12, 12, 3))}
        IterativePruningRunner("net", session, spec, ["scores"])
    with refused("INVALID_ARGUMENT_ERROR", "input_specs do not fit the graph: "):
        spec = {"image:0": tf.TensorSpec((1, 12, 12, 4))}
        IterativePruningRunner("net", session, spec, ["scores"])
    with refused("INVALID_ARGUMENT_ERROR", "has no node 'conv9' of excludes"):
        IterativePruningRunner("net", session, SPECS, ["scores"], ["conv9"])
    with refused("UNSUPPORTED_OP_ERROR", "nothing of net can be pruned: "):
        IterativePruningRunner("net", session, SPECS, ["conv1/BiasAdd"])
    runner = IterativePruningRunner("net", session, SPECS, ["scores"])
    with refused("NO_ANA_RESULT_ERROR", r"net\.sens: no such file; analyze"):
        runner.prune(sparsity=0.5)
    with refused("INVALID_ARGUMENT_ERROR", "say how much to prune: sparsity or threshold"):
        runner.prune()
    with refused("INVALID_ARGUMENT_ERROR", r"sparsity is 1\.5, but must be between 0 and 1"):
        runner.prune(sparsity=1.5)
    with refused("INVALID_ARGUMENT_ERROR", "threshold is 'a', but must be between 0 and 1"):
        runner.prune(threshold="a")
    with refused("INVALID_ARGUMENT_ERROR", "eval_fn is 3, but must be a function"):
        runner.ana(3)
    with refused("INVALID_ARGUMENT_ERROR", "checkpoint_interval is 0, but must be at least 1"):
        runner.ana(close(images), checkpoint_interval=0)
    with refused("MODEL_ANALYSIS_ERROR", "eval_fn failed: KeyError"):

        def eval_fn(frozen_graph_def):
            return {}["accuracy"]

        runner.ana(eval_fn)
    with refused("INVALID_ARGUMENT_ERROR", r"masks has 'conv9/weights' of shape \(3,\), which"):
        runner.get_slim_graph_def({}, {"conv9/weights": np.ones(3)})
    runner.ana(close(images))
    other = IterativePruningRunner("net", session, SPECS, ["gate/BiasAdd"])
    with refused("INVALID_ANA_RESULT_ERROR", r"net\.sens is the analysis of another network"):
        other.prune(sparsity=0.2)
