# SPDX-License-Identifier: Apache-2.0
"""Models with dictionaries of inputs and outputs, open sizes, half precision, three dimensions."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

import vitis_vai  # noqa: E402
from opendpu_arch.errors import DPUError  # noqa: E402
from tensorflow_model_optimization.quantization.keras import (  # noqa: E402
    vitis_inspect,
    vitis_quantize,
)

keras = tf.keras
layers = keras.layers
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(autouse=True)
def seeded(tmp_path, monkeypatch):
    """Let files go to a folder of the test's, and weights be the same each time."""
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(3)


def features(image):
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(image)
    return layers.Conv2D(8, 3, padding="same")(x)


def close(found, wanted):
    """Return whether a result is the float one but for quantization, by 20 dB or more."""
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    assert found.shape == wanted.shape
    return bool(((found - wanted) ** 2).sum() < (wanted**2).sum() / 100)


def same(found, wanted):
    tf.nest.assert_same_structure(found, wanted)
    pairs = zip(tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True)
    return all(close(a, b) for a, b in pairs)


def nested():
    image = keras.Input((12, 12, 3), name="image")
    extra = keras.Input((4,), name="extra")
    found = features(image)
    mean = layers.GlobalAveragePooling2D()(found)
    scores = layers.Dense(5)(layers.Concatenate()([mean, extra]))
    outputs = {"scores": scores, "maps": [found, [layers.GlobalMaxPooling2D()(found)]]}
    return keras.Model({"image": image, "extra": extra}, outputs, name="nested")


def test_inputs_and_outputs_keep_their_form(images):
    model = nested()
    extra = np.random.default_rng(0).standard_normal((len(images), 4)).astype(np.float32)
    given = {"image": images, "extra": extra}
    wanted = model.predict(given, verbose=0)
    made = vitis_quantize.VitisQuantizer(model).quantize_model(calib_dataset=given)
    assert same(made.predict(given, verbose=0), wanted)
    made.save("nested.h5")
    with vitis_quantize.quantize_scope():
        again = keras.models.load_model("nested.h5")
    assert same(again.predict(given, verbose=0), wanted)
    wego = vitis_vai.create_wego_model("nested.h5", target="B512")
    names = [one.name for one in wego.structured_input_signature[0]]
    found = wego(*(tf.constant(given[name]) for name in names))
    assert same(tf.nest.map_structure(np.asarray, found), wanted)


def test_inputs_keep_their_order(images):
    one, other = keras.Input((12, 12, 3), name="one"), keras.Input((12, 12, 3), name="other")
    mean = layers.GlobalAveragePooling2D()
    found = layers.Concatenate()([mean(features(other)), mean(features(one))])
    model = keras.Model([one, other], layers.Dense(3)(found), name="pair")
    given = [images, 0.5 * images[::-1] + 1]
    made = vitis_quantize.VitisQuantizer(model).quantize_model(
        calib_dataset=dict(zip(("one", "other"), given, strict=True))
    )
    wanted = model.predict(given, verbose=0)
    assert close(made.predict(given, verbose=0), wanted)
    wego = vitis_vai.create_wego_model(made, target="B512")
    assert close(wego(*map(tf.constant, given))[0], wanted)


def test_training_keeps_them(images):
    model = nested()
    given = {"image": images, "extra": np.ones((len(images), 4), np.float32)}
    quantizer = vitis_quantize.VitisQuantizer(model, "pof2s_tqt")
    trained = quantizer.get_qat_model(init_quant=True, calib_dataset=given)
    assert same(trained.predict(given, verbose=0), model.predict(given, verbose=0))
    deployed = vitis_quantize.VitisQuantizer.get_deploy_model(trained)
    assert same(deployed.predict(given, verbose=0), model.predict(given, verbose=0))


def open_model(*sizes):
    image = keras.Input(sizes, name="image")
    return keras.Model(image, features(image), name="open")


def test_open_sizes_are_those_of_the_data(images):
    model = open_model(None, None, 3)
    made = vitis_quantize.VitisQuantizer(model).quantize_model(calib_dataset=images)
    assert made.input_shape == (None, *images.shape[1:])
    assert close(made.predict(images, verbose=0), model.predict(images, verbose=0))
    data = tf.data.Dataset.from_tensor_slices((images, np.zeros(len(images)))).batch(8)
    found = vitis_vai.quantize(open_model(None, 12, 3), calib_dataset=data)
    assert found.input_shape == (None, 12, 12, 3)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda model: vitis_inspect.VitisInspector("B512").inspect_model(model),
            r"inspect_model\(…, input_shape=\[None, 224, 224, 3\]\)",
        ),
        (
            lambda model: vitis_quantize.VitisQuantizer(model).get_qat_model(),
            r"get_qat_model\(…, input_shape=\[None, 224, 224, 3\]\)",
        ),
    ],
    ids=["inspector", "training"],
)
def test_open_sizes_without_data(call, said):
    with pytest.raises(DPUError, match=said) as caught:
        call(open_model(None, None, 3))
    assert "--input-shape" not in caught.value.message
    assert caught.value.code == "QUANTIZER_TF2_INVALID_INPUT_SHAPE"


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision(policy, images):
    keras.mixed_precision.set_global_policy(policy)
    try:
        image = keras.Input(images.shape[1:], name="image")
        scores = layers.Dense(5)(layers.GlobalAveragePooling2D()(features(image)))
        model = keras.Model(image, layers.Activation("softmax", dtype="float32")(scores))
    finally:
        keras.mixed_precision.set_global_policy("float32")
    made = vitis_quantize.VitisQuantizer(model).quantize_model(calib_dataset=images)
    assert close(made.predict(images, verbose=0), model.predict(images, verbose=0))


def test_three_dimensions():
    video = keras.Input((4, 8, 8, 3), name="video")
    x = layers.Conv3D(8, 3, padding="same", activation="relu")(video)
    x = layers.BatchNormalization()(layers.Conv3D(8, (1, 3, 3), strides=2)(x))
    x = layers.GlobalAveragePooling3D()(layers.Conv3DTranspose(4, 2, strides=2)(x))
    model = keras.Model(video, layers.Dense(3)(x), name="video")
    data = np.random.default_rng(0).standard_normal((8, 4, 8, 8, 3)).astype(np.float32)
    made = vitis_quantize.VitisQuantizer(model).quantize_model(calib_dataset=data)
    assert close(made.predict(data, verbose=0), model.predict(data, verbose=0))


def test_two_inputs_alike_and_a_layer_and_a_model_that_both_go_through(rng):
    """A list of two arrays is one array an input, whose order is that of the model."""
    inner = keras.Input((12, 12, 3))
    inner = keras.Model(inner, layers.Conv2D(8, 3, activation="relu")(inner), name="inner")
    shared = layers.Conv2D(8, 3, padding="same")
    last, first = keras.Input((12, 12, 3), name="zz"), keras.Input((12, 12, 3), name="aa")
    joined = layers.Concatenate()([inner(last), inner(first)])
    apart = layers.Subtract()([shared(last), shared(first)])
    found = [layers.GlobalAveragePooling2D()(x) for x in (joined, apart)]
    model = keras.Model([last, first], layers.Dense(3)(layers.Concatenate()(found)))
    data = [rng.normal(size=(16, 12, 12, 3)).astype(np.float32) for _ in range(2)]
    made = vitis_quantize.VitisQuantizer(model).quantize_model(calib_dataset=data)
    assert same(made(data), model(data))
    wego = vitis_vai.create_wego_model(made)
    (result,) = wego(*map(tf.constant, data))
    np.testing.assert_allclose(result, made(data), rtol=0, atol=1e-6)
