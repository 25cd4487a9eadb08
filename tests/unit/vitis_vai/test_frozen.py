# SPDX-License-Identifier: Apache-2.0
"""Frozen graphs: quantized on the way, compiled, saved, and run by scripts of TensorFlow 1."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

import vitis_vai  # noqa: E402
from opendpu_arch.errors import DPUError  # noqa: E402

v1 = tf.compat.v1
SCRIPT = """
import tensorflow as tf
from tensorflow.contrib import vitis_vai
from beside import PATH

tf.app.flags.DEFINE_string("graph", "", "")
session = tf.Session()
image = tf.placeholder(tf.float32, (None, 12, 12, 3))
graph = tf.GraphDef()
with tf.gfile.GFile(tf.app.flags.FLAGS.graph, "rb") as file:
    graph.ParseFromString(file.read())
mode = vitis_vai.wrap_conversion.AccuracyMode.ReserveReduantFixNeurons
found = vitis_vai.create_wego_graph(input_graph_def=graph, accuracy_mode=mode)
with open(PATH, "wb") as file:
    file.write(found.SerializeToString())
tf.import_graph_def(found, name="", input_map={"image:0": image})
top, _ = tf.nn.top_k(session.graph.get_tensor_by_name("classes:0"), 2)
print("shape", session.run(top, {image: [[[[0.5] * 3] * 12] * 12] * 3}).shape)
"""
RUN = """
import sys, numpy, tensorflow as tf, vitis_vai
graph = tf.compat.v1.GraphDef()
graph.ParseFromString(open("wego.pb", "rb").read())
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    tf.import_graph_def(graph, name="")
    numpy.save("found.npy", session.run("classes:0", {"image:0": numpy.load("images.npy")}))
"""


@pytest.fixture
def frozen(tmp_path, monkeypatch):
    """Write a float graph with operators in front of what is quantized, and behind it."""
    rng = np.random.default_rng(3)

    def weights(*shape):
        return tf.constant(rng.normal(0, np.prod(shape[:-1]) ** -0.5, shape).astype("float32"))

    with tf.Graph().as_default() as graph:
        image = v1.placeholder(tf.float32, [None, 12, 12, 3], name="image")
        scaled = tf.multiply(image, 0.5, name="scaled")
        x = tf.nn.relu(tf.nn.conv2d(scaled, weights(3, 3, 3, 8), 2, "SAME"), name="block/relu")
        x = tf.nn.conv2d(x, weights(3, 3, 8, 8), 1, "SAME") + x
        mean = tf.reduce_mean(tf.nn.relu(x), [1, 2], name="mean")
        logits = tf.matmul(mean, weights(8, 5), name="block/logits")
        tf.nn.softmax(logits, name="classes")
    monkeypatch.chdir(tmp_path)
    Path("float.pb").write_bytes(graph.as_graph_def().SerializeToString())
    return graph.as_graph_def()


def computed(graph_def, images):
    with tf.Graph().as_default(), v1.Session() as session:
        tf.import_graph_def(graph_def, name="")
        return session.run(["block/logits:0", "classes:0"], {"image:0": images})


def quantized(images, **more):
    return vitis_vai.quantize(
        input_frozen_graph="float.pb", input_nodes="scaled", input_shapes="?,12,12,3",
        output_nodes="block/logits", method=1, calib_iter=4, output_dir="written",
        input_fn=lambda step: {"image": images[step * 10 : step * 10 + 10]}, **more,
    )  # fmt: skip


def test_frozen_graphs_are_quantized_compiled_and_run_by_other_processes(frozen, images):
    found = quantized(images, simulate_dpu=1)
    assert Path("written/quantize_eval_model.pb").read_bytes() == found.SerializeToString()
    kinds = [node.op for node in found.node]
    assert "Conv2D" not in kinds and {"Mul", "Softmax", "PyFunc"} <= set(kinds)
    logits, classes = computed(found, images[:6])
    exact, expected = computed(frozen, images[:6])
    assert 0 < np.abs(logits - exact).max() < 0.1 * np.abs(exact).max()
    coarse, _ = computed(quantized(images, weight_bit="2"), images[:6])
    assert np.abs(coarse - exact).mean() > 2 * np.abs(logits - exact).mean()
    np.testing.assert_allclose(classes, expected, atol=0.05)
    np.testing.assert_allclose(classes.sum(-1), 1, atol=1e-6)

    made = vitis_vai.create_wego_graph(found)
    np.testing.assert_array_equal(computed(made, images[:6])[0], logits)
    Path("wego.pb").write_bytes(made.SerializeToString())
    np.save("images.npy", images[:6])
    subprocess.run([sys.executable, "-c", RUN], check=True, timeout=300)
    np.testing.assert_array_equal(np.load("found.npy"), classes)


def test_scripts_of_tensorflow_1_run(frozen, images, tmp_path):
    Path("quantized.pb").write_bytes(quantized(images).SerializeToString())
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/script.py").write_text(SCRIPT)
    (tmp_path / "scripts/beside.py").write_text('PATH = "wego.pb"\n')
    done = subprocess.run(
        [sys.executable, "-m", "vitis_vai", "scripts/script.py", "--graph", "quantized.pb"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "shape (3, 2)", done.stderr[-800:]


def test_nodes_outside_may_share_constants_with_the_network(tmp_path, monkeypatch, images):
    with tf.Graph().as_default() as graph:
        image = v1.placeholder(tf.float32, [None, 12, 12, 3], name="image")
        two = tf.constant(np.full(4, 2.0, "float32"), name="two")
        weights = tf.constant(np.random.default_rng(0).normal(size=(3, 3, 3, 4)).astype("float32"))
        x = tf.nn.relu(tf.nn.conv2d(image, weights, 1, "SAME") + two, name="inside")
        tf.add(tf.reduce_sum(x, [1, 2], name="sum"), two, name="behind")
    monkeypatch.chdir(tmp_path)
    Path("float.pb").write_bytes(graph.as_graph_def().SerializeToString())

    def made(output):
        return vitis_vai.quantize(
            "float.pb", "image", "?,12,12,3", output, lambda step: {"image": images}, calib_iter=1
        )

    with tf.Graph().as_default(), v1.Session() as session:
        tf.import_graph_def(made("sum"), name="")
        total, behind = session.run(["sum:0", "behind:0"], {"image:0": images[:2]})
    np.testing.assert_array_equal(behind, total + 2)


def test_what_is_refused(frozen, images, tmp_path):
    def refuse(match, **changes):
        arguments = {
            "input_frozen_graph": "float.pb", "input_nodes": "scaled", "input_shapes": "?,12,12,3",
            "output_nodes": "block/logits", "input_fn": lambda step: {"image": images},
        } | changes  # fmt: skip
        with pytest.raises(DPUError, match=match):
            vitis_vai.quantize(**arguments)

    refuse(r"'gone\.pb' cannot be read as frozen graph", input_frozen_graph="gone.pb")
    refuse("no node 'middle'", output_nodes="middle")
    refuse("do not depend on input 'classes'", input_nodes="classes")
    refuse("input_nodes has 1 names", input_shapes="?,12,12,3:?,4")
    refuse("has '12,x,3', but must have numbers", input_shapes="12,x,3")
    refuse("method is 3, but must be one of 0, 1, 2", method=3)
    refuse("17 bits", weight_bit=17)
    refuse("convert_datatype is 1, but must be 0", convert_datatype=1)
    refuse("no option 'colour'", colour="blue")
    refuse("input_fn is 'nowhere.data', which cannot be imported", input_fn="nowhere.data")
    refuse("output_nodes is empty", output_nodes="")
    refuse("'block/relu' is needed outside", output_nodes="Conv2D_1")
