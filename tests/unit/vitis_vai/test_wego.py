# SPDX-License-Identifier: Apache-2.0
"""The guide's WeGO for TensorFlow: what it computes is what the quantized model does."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

import vitis_vai  # noqa: E402
from opendpu_arch.errors import DPUError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

SCRIPT = """
from tensorflow.compiler import vitis_vai
target_info = vitis_vai.get_target_info()
print(target_info.batch, target_info.target, hex(target_info.fingerprint))
from tensorflow.compiler.vitis_vai.python.vai_convert import create_wego_model
import tensorflow.compiler.vitis_vai.enums as enums
assert create_wego_model is vitis_vai.create_wego_model
assert enums.AccuracyMode is vitis_vai.enums.AccuracyMode
"""


def test_quantized_models_become_functions(model, images, monkeypatch):
    monkeypatch.setenv("XLNX_TARGET_NAME", "B512")
    made = vitis_vai.quantize(model, calib_dataset=images)
    assert Path("vai_wego/quantized.h5").exists()
    wego = vitis_vai.create_wego_model(
        input_h5="vai_wego/quantized.h5", feed_dict={},
        accuracy_mode=vitis_vai.enums.AccuracyMode.Default,
    )  # fmt: skip
    (result,) = wego(tf.constant(images[:6]))
    np.testing.assert_allclose(result, made(images[:6]), rtol=0, atol=1e-6)
    with pytest.raises(DPUError, match=r"accuracy_mode is 'fast', but must be one of AccuracyMode"):
        vitis_vai.create_wego_model("vai_wego/quantized.h5", accuracy_mode="fast")
    assert wego(tf.constant(images[:0]))[0].shape == (0, *result.shape[1:])
    with pytest.raises(tf.errors.OpError, match=r"has shape \[2, 5, 12, 3\], but must be \[2, "):
        wego(tf.constant(images[:2, :5]))
    assert "VaiWeGOOp" in [operation.name for operation in wego.graph.get_operations()]
    assert [p.device for p in wego.wego_report.subgraphs if p.device != "USER"] == ["DPU", "CPU"]


def fake(x, point):
    step = 2.0**-point
    return tf.quantization.fake_quant_with_min_max_args(x, -128 * step, 127 * step)


def test_quantized_frozen_graphs_become_graphs(images):
    weights = (np.random.default_rng(1).integers(-100, 100, (3, 3, 3, 4)) / 128).astype("float32")

    def network(image):
        x = tf.nn.conv2d(fake(image, 5), fake(weights, 7), 1, "SAME")
        return tf.identity(fake(tf.nn.relu(x), 4), name="result")

    with tf.Graph().as_default() as graph:
        network(tf.compat.v1.placeholder(tf.float32, [None, 12, 12, 3], name="image"))
    found = vitis_vai.create_wego_graph(graph.as_graph_def())
    with tf.Graph().as_default() as made, tf.compat.v1.Session(graph=made) as session:
        tf.import_graph_def(found, name="")
        result = session.run("result:0", {"image:0": images[:3]})
    expected = network(images[:3]).numpy()
    assert np.count_nonzero(expected) > 100
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("axes", "one"), [(None, ()), ([1, 2, 3], (1,)), ([0], (12, 12, 4))], ids=["all", "each", "sum"]
)
def test_results_without_an_axis_for_samples(axes, one, images):
    weights = (np.random.default_rng(1).integers(-100, 100, (3, 3, 3, 4)) / 128).astype("float32")

    def network(image):
        x = fake(tf.nn.relu(tf.nn.conv2d(fake(image, 5), fake(weights, 7), 1, "SAME")), 4)
        return tf.reduce_max(x, axes, name="result")

    with tf.Graph().as_default() as graph:
        network(tf.compat.v1.placeholder(tf.float32, [None, 12, 12, 3], name="image"))
    found = vitis_vai.create_wego_graph(graph.as_graph_def())
    wanted = [network(images[:count]).numpy() for count in (1, 3)]
    with tf.Graph().as_default() as made, tf.compat.v1.Session(graph=made) as session:
        tf.import_graph_def(found, name="")
        result = session.run("result:0", {"image:0": images[:1]})
        assert result.shape == one
        np.testing.assert_array_equal(result, wanted[0])
        if one == (1,):
            several = session.run("result:0", {"image:0": images[:3]})
            np.testing.assert_array_equal(several, wanted[1])
        else:
            with pytest.raises(tf.errors.OpError, match=r"for any: give them one"):
                session.run("result:0", {"image:0": images[:3]})


def test_rounded_outputs_keep_the_float_name_and_sizes_may_be_left_open(images, caplog):
    weights = (np.random.default_rng(1).integers(-100, 100, (3, 3, 3, 4)) / 128).astype("float32")
    with tf.Graph().as_default() as graph:
        image = tf.compat.v1.placeholder(tf.float32, [None, None, None, 3], name="image")
        product = tf.nn.conv2d(fake(image, 5), fake(weights, 7), 1, "SAME")
        fake(tf.identity(tf.nn.bias_add(product, [0.5] * 4, name="head/BiasAdd")), 4)
    found = vitis_vai.create_wego_graph(
        input_graph_def=graph.as_graph_def(), feed_dict={"image": [-1, 12, 12, 3]},
        target="DPUCVDX8H_ISA1_F2W2_8PE",
    )  # fmt: skip
    assert "target DPUCVDX8H_ISA1_F2W2_8PE is another DPU" in caplog.text
    with tf.Graph().as_default() as made, tf.compat.v1.Session(graph=made) as session:
        tf.import_graph_def(found, name="")
        rounded, given = session.run(
            ["FakeQuantWithMinMaxArgs_2:0", "head/BiasAdd:0"], {"image:0": images[:2]}
        )
    assert rounded.shape == (2, 12, 12, 4)
    np.testing.assert_array_equal(given, rounded)


def test_scripts_find_it_inside_tensorflow(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "vitis_vai", str(tmp_path / "script.py")], capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    info = vitis_vai.get_target_info()
    assert done.stdout.strip() == f"1 {info.target} {hex(info.fingerprint)}", done.stderr[-500:]


def test_what_is_refused(model, tmp_path):
    model.save("float.h5")
    with pytest.raises(DPUError, match=r"float\.h5 is a float model: quantize it first"):
        vitis_vai.create_wego_model("float.h5")
    with pytest.raises(DPUError, match=r"gone\.h5: no such file"):
        vitis_vai.create_wego_model("gone.h5")
    (tmp_path / "saved").mkdir()
    for call in (vitis_vai.create_wego_model, vitis_vai.quantize):
        with pytest.raises(DPUError, match=r"saved is a folder, but must be a file of Keras"):
            call(tmp_path / "saved")
    with pytest.raises(DPUError, match=r"input_h5 is NoneType, but must be a Keras model"):
        vitis_vai.create_wego_model(None)


LOAD = """
import numpy, tensorflow as tf, vitis_vai
wego = tf.saved_model.load("saved").network
numpy.save("found.npy", wego(tf.constant(numpy.load("images.npy")))[0].numpy())
"""


def test_compiled_models_are_saved_and_loaded_by_other_processes(model, images):
    model.save("float.keras")
    made = vitis_vai.quantize("float.keras", calib_dataset=images)
    wego = vitis_vai.create_wego_model(made)
    module = tf.Module()
    module.network = wego
    tf.saved_model.save(module, "saved")
    np.save("images.npy", images[:5])
    subprocess.run([sys.executable, "-c", LOAD], check=True, timeout=300)
    np.testing.assert_array_equal(np.load("found.npy"), wego(tf.constant(images[:5]))[0])
