# SPDX-License-Identifier: Apache-2.0
"""Networks that take integers, and several inputs: quantized, saved, as functions of WeGO."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

import vitis_vai  # noqa: E402
from opendpu_arch.errors import TensorError, UnsupportedError  # noqa: E402
from tensorflow_model_optimization.quantization.keras import vitis_quantize  # noqa: E402

layers = tf.keras.layers
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setenv("XLNX_TARGET_NAME", "B512")
    tf.keras.utils.set_random_seed(3)


def pixels():
    """Images of bytes, which the network makes floats of."""
    x = layers.Input((24, 24, 3), dtype="uint8")
    y = layers.Rescaling(1 / 127.5, -1)(x)
    for _ in range(3):
        y = layers.Conv2D(32, 3, padding="same", activation="relu")(y)
    return tf.keras.Model(x, layers.Dense(3)(layers.GlobalAveragePooling2D()(y)))


def words():
    """Numbers of words, which the network makes vectors of."""
    x = layers.Input((48,), dtype="int32")
    y = layers.Embedding(20, 64)(x)
    for _ in range(2):
        y = layers.Conv1D(128, 5, activation="relu")(y)
    return tf.keras.Model(x, layers.Dense(2)(layers.GlobalMaxPooling1D()(y)))


@pytest.mark.parametrize(
    ("make", "size", "limit", "dtype"),
    [(pixels, (24, 24, 3), 256, "uint8"), (words, (48,), 20, "int32")],
)
def test_integers(make, size, limit, dtype, rng, tmp_path):
    model, data = make(), rng.integers(0, limit, (8, *size)).astype(dtype)
    quantized = vitis_quantize.VitisQuantizer(model).quantize_model(calib_dataset=data)
    wanted, found = model.predict(data, verbose=0), quantized.predict(data, verbose=0)
    assert 0 < np.square(found - wanted).sum() < np.square(wanted).sum() / 30
    quantized.save(tmp_path / "quantized.h5")
    function = vitis_vai.create_wego_model(input_h5=str(tmp_path / "quantized.h5"))
    assert any(part.device == "DPU" for part in function.wego_report.subgraphs)
    (result,) = function(tf.constant(data[:5]))
    np.testing.assert_allclose(result, found[:5], rtol=0, atol=1e-6)


def two_inputs():
    image, other = layers.Input((12, 12, 3), name="image"), layers.Input((4,), name="other")
    y = layers.GlobalAveragePooling2D()(layers.Conv2D(8, 3, activation="relu")(image))
    both = layers.Concatenate()([y, layers.Dense(8, activation="relu")(other)])
    return tf.keras.Model([image, other], layers.Dense(3)(both))


def test_all_samples_of_every_input(rng):
    """As Keras' own ``predict`` takes them; or as batches."""
    model = two_inputs()
    data = [rng.standard_normal((8, *size)).astype("float32") for size in ((12, 12, 3), (4,))]
    quantizer = vitis_quantize.VitisQuantizer(model)
    wanted = model.predict(data, verbose=0)
    found = quantizer.quantize_model(calib_dataset=data).predict(data, verbose=0)
    assert 0 < np.square(found - wanted).sum() < np.square(wanted).sum() / 30
    batches = [[part[:4] for part in data], [part[4:] for part in data]]
    again = quantizer.quantize_model(calib_dataset=batches).predict(data, verbose=0)
    np.testing.assert_array_equal(again, found)
    with pytest.raises(TensorError, match="samples"):
        quantizer.quantize_model(calib_dataset=[data[0], data[1][:3]])


def test_a_network_of_which_nothing_is_for_the_dpu(rng, tmp_path):
    x = layers.Input((6,), dtype="int32")
    y = layers.GlobalMaxPooling1D()(layers.Conv1D(2, 3)(layers.Embedding(9, 4)(x)))
    model, data = tf.keras.Model(x, y), rng.integers(0, 9, (4, 6)).astype("int32")
    quantized = vitis_quantize.VitisQuantizer(model).quantize_model(calib_dataset=data)
    np.testing.assert_allclose(quantized.predict(data, verbose=0), model(data), rtol=1e-5)
    quantized.save(tmp_path / "quantized.h5")
    with pytest.raises(UnsupportedError, match="nothing that is worth the DPU"):
        vitis_vai.create_wego_model(input_h5=str(tmp_path / "quantized.h5"))
