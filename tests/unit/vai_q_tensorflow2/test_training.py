# SPDX-License-Identifier: Apache-2.0
"""``get_qat_model`` and ``get_deploy_model``: rounding, gradients, files, and what is deployed."""

import numpy as np
import pytest
from typer.testing import CliRunner

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

from opendpu import api  # noqa: E402
from opendpu.cli.vai_c import app_tensorflow2  # noqa: E402
from opendpu_arch.errors import DPUError  # noqa: E402
from tensorflow_model_optimization.quantization.keras import vitis_quantize  # noqa: E402
from vai_q_tensorflow2.network import network_of  # noqa: E402
from vai_q_tensorflow2.training import rounded, training_layer  # noqa: E402

keras = tf.keras
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def test_rounding_and_its_gradients():
    x = tf.constant([0.0, 1 / 128, -1 / 128, 0.3, 5.0, -5.0])
    threshold = tf.Variable(0.5)  # scale 1/64, range -2 .. 1.984375
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = rounded(x, threshold, 8)
        total = tf.reduce_sum(found)
    steps = np.array([0, 1, 0, 19, 127, -128], np.float32)  # halves up
    np.testing.assert_array_equal(found.numpy() * 64, steps)
    gradient, of_threshold = tape.gradient(total, [x, threshold])
    np.testing.assert_array_equal(gradient.numpy(), [1, 1, 1, 1, 0, 0])
    inside = float((steps[:4] - x.numpy()[:4] * 64).sum())
    np.testing.assert_allclose(of_threshold.numpy(), np.log(2) / 64 * (inside + 127 - 128), 1e-5)


def noise(found, wanted):
    return float(np.square(found - wanted).mean() / np.square(wanted).mean())


@pytest.mark.parametrize("begun", [True, False])
def test_train_save_deploy_compile(begun, model, images):
    labels = model(images).numpy().argmax(-1)
    quantizer = vitis_quantize.VitisQuantizer(model, "8bit_tqt" if begun else "pof2s")
    data = {"init_quant": True, "calib_dataset": images, "include_cle": True} if begun else {}
    qat = quantizer.get_qat_model(**data, freeze_bn_delay=1000)
    layer = training_layer(qat)
    scales = [v for v in layer.trainable_variables if "threshold" in v.name]
    assert bool(scales) == begun  # of pof2s they stay
    qat.compile(
        optimizer=keras.optimizers.Adam(1e-4),
        loss=keras.losses.SparseCategoricalCrossentropy(), metrics=["accuracy"],
    )  # fmt: skip
    before = [variable.numpy() for variable in layer.trainable_variables]
    qat.fit(images, labels, epochs=1, batch_size=20, verbose=0, validation_data=(images, labels))
    after = [variable.numpy() for variable in layer.trainable_variables]
    assert any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    trained = qat.predict(images, verbose=0)
    assert noise(trained, model(images).numpy()) < 0.01
    qat.save("qat.h5")
    with vitis_quantize.quantize_scope():
        again = keras.models.load_model("qat.h5", compile=False)
    np.testing.assert_array_equal(again.predict(images, verbose=0), trained)
    deployed = vitis_quantize.VitisQuantizer.get_deploy_model(again)
    found = deployed.predict(images, verbose=0)
    assert noise(found, trained) < 0.005
    deployed.save("quantized.h5")
    arguments = ["-m", "quantized.h5", "-a", "B512", "-o", ".", "-n", "net"]
    result = CliRunner().invoke(app_tensorflow2, arguments)
    assert result.exit_code == 0, result.output
    with api.create_runner("net.xmodel", device="ref") as runner:
        (outputs, _) = api.run_batch(runner, {"image": images[:5]}, floats=True)
    np.testing.assert_allclose(outputs["probs"].reshape(5, 4), found[:5], atol=1e-6)


def test_what_is_trained_before_training_is_what_calibration_found(model, images):
    quantizer = vitis_quantize.VitisQuantizer(model)
    plain = {"include_cle": False}
    qat = quantizer.get_qat_model(init_quant=True, calib_dataset=images, **plain)
    points = [
        sorted(node.fix_point for node in graph if node.kind == "fix")
        for graph in (
            network_of(quantizer.get_deploy_model(qat)).graph, training_layer(qat).quantized()
        )
    ]  # fmt: skip
    assert points[0] == points[1]
    assert noise(qat.predict(images, verbose=0), model(images).numpy()) < 0.01


def test_what_cannot_be_trained(model, images):
    with pytest.raises(DPUError, match="get_qat_model trains what a DPU runs, but input has a sc"):
        vitis_quantize.VitisQuantizer(model, "fs").get_qat_model()
    with pytest.raises(DPUError, match="model 'net' is not trained with quantization"):
        vitis_quantize.VitisQuantizer.get_deploy_model(model)
