# SPDX-License-Identifier: Apache-2.0
"""Keras models and SavedModels as float graphs: they compute what TensorFlow computes."""

import json
import zipfile

import numpy as np
import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

from tf_graphs import computed, tf
from typer.testing import CliRunner

from opendpu.cli.app import app
from opendpu.frontend import load_model
from opendpu.frontend.formats import Format, format_of, signed
from opendpu.frontend.tensorflow.keras_model import load_keras
from opendpu.frontend.tensorflow.saved_model import load_saved_model
from opendpu_arch.errors import ModelFormatError, UnsupportedError

layers = tf.keras.layers
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def seeded(model, rng):
    """Give a model random weights, statistics of normalization included."""
    for variable in model.weights:
        positive = "variance" in variable.name or "gamma" in variable.name
        low = 0.2 if positive else -0.5
        variable.assign(rng.uniform(low, 0.9 if positive else 0.5, variable.shape))
    return model


def every_layer():
    """Return a model with the layers of the guide's table 17."""
    image = tf.keras.Input((16, 16, 3), name="image")
    x = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False, name="first")(image)
    x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
    y = layers.DepthwiseConv2D(3, padding="same")(x)
    x = layers.Add()([x, layers.Activation("swish")(y)])
    x = layers.Conv2DTranspose(6, 3, strides=2, padding="same")(x)
    x = layers.LeakyReLU(0.1)(layers.PReLU(shared_axes=[1, 2])(x))
    x = layers.UpSampling2D(2, interpolation="bilinear")(x)
    x = layers.ZeroPadding2D(1)(layers.MaxPooling2D(2)(x))
    x = layers.SeparableConv2D(4, 3, dilation_rate=2)(x)
    x = layers.Multiply()([layers.Activation("hard_silu")(x), x])
    x = layers.AveragePooling2D(3, 2, padding="same")(layers.Concatenate()([x, x]))
    mean = layers.GlobalAveragePooling2D(name="mean")(x)
    flat = layers.Dense(5, activation="relu")(layers.Flatten()(x))
    flat = layers.Dropout(0.5)(layers.Reshape((5,))(flat))
    joined = layers.Concatenate()([flat, mean])
    return tf.keras.Model(
        image, [layers.Dense(4, activation="softmax", name="probs")(joined), mean]
    )


@pytest.fixture
def model(rng):
    return seeded(every_layer(), rng)


@pytest.fixture
def image(rng):
    return rng.standard_normal((1, 16, 16, 3)).astype(np.float32)


def test_pixels_that_upsampling_repeats_are_resized(rng):
    """Keras 3 repeats rows, then columns; Keras 2 resizes."""
    given = tf.keras.Input((4, 3, 3))
    x = layers.UpSampling2D((2, 3))(layers.Conv2D(4, 1)(given))
    net = seeded(tf.keras.Model(given, layers.Conv2D(2, 3)(x)), rng)
    graph = load_keras(net)
    value = rng.standard_normal((1, 4, 3, 3)).astype(np.float32)
    (found,) = computed(graph, [value])
    np.testing.assert_allclose(found, net(value).numpy(), rtol=0, atol=1e-5)
    assert [node.attrs["scale"] for node in graph if node.kind == "resize"] == [[3.0, 2.0]]
    assert not [node for node in graph if node.kind == "onnx"]


def check(graph, model, image):
    for want, found in zip(model(image), computed(graph, [image]), strict=True):
        np.testing.assert_allclose(found, want.numpy(), rtol=0, atol=1e-5)


def test_a_live_model(model, image):
    graph = load_keras(model)
    check(graph, model, image)
    assert graph.outputs == ["probs", "mean"]
    assert graph["image"].shape == (1, 16, 16, 3)
    assert any(
        node.kind == "conv2d" and node.origin.op_type == "Conv2D" and "first" in node.name
        for node in graph
    )
    kinds = {node.kind for node in graph}
    assert "onnx" not in kinds
    assert kinds.issuperset(("swish", "hard-swish", "prelu", "resize", "depthwise-conv2d"))


@pytest.mark.parametrize("suffix", ["keras", "h5"])
def test_files(suffix, model, image, tmp_path):
    path = tmp_path / f"model.{suffix}"
    model.save(path)
    check(load_model(path), model, image)
    if suffix == "h5":  # Keras itself goes by the suffix of the other
        assert format_of(path.rename(tmp_path / "other")) is Format.KERAS


def test_a_saved_model(model, image, tmp_path):
    model.export(tmp_path / "saved", verbose=False)
    graph = load_model(tmp_path / "saved")
    check(graph, model, image)
    assert graph.outputs == ["output_0", "output_1"]
    with pytest.raises(UnsupportedError, match=r"has no signature 'train', but: "):
        load_saved_model(tmp_path / "saved", signature="train")


class _Functions(tf.Module):
    """Two functions of one image, saved as signatures."""

    SPEC = tf.TensorSpec([None, 4, 4, 2], tf.float32, name="image")

    @tf.function(input_signature=[SPEC])
    def double(self, image):
        return {"twice": image + image}

    @tf.function(input_signature=[SPEC])
    def halve(self, image):
        return {"half": image * 0.5}


def test_signatures_with_other_names(tmp_path):
    module = _Functions()
    one, two = tmp_path / "one", tmp_path / "two"
    tf.saved_model.save(module, str(one), signatures={"double": module.double})
    tf.saved_model.save(
        module, str(two), signatures={"double": module.double, "halve": module.halve}
    )
    assert load_model(one).outputs == ["twice"]
    with pytest.raises(UnsupportedError, match="but: double, halve; choose one: --signature"):
        load_model(two)
    assert load_saved_model(two, signature="halve").outputs == ["half"]
    assert load_model(signed(two, "halve")).outputs == load_model(f"{two}::halve").outputs
    assert format_of(signed(two, "halve")) is Format.SAVED_MODEL
    with pytest.raises(UnsupportedError, match=r"has no signature 'train', but: double, halve$"):
        load_model(signed(two, "train"))
    command = ["inspect", str(two), "--target", "B512"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 1
    assert "but: double, halve; choose one: --signature NAME" in done.output
    done = CliRunner().invoke(app, [*command, "--signature", "halve"])
    assert (done.exit_code, done.output) == (0, "All the operators are assigned to the DPU.\n")
    with pytest.raises(UnsupportedError, match=r"'halve', but .* is no SavedModel: .* for Keras"):
        signed(tmp_path / "other.keras", "halve")


def test_several_inputs_and_open_dimensions(rng):
    one, two = tf.keras.Input((None, None, 2), name="one"), tf.keras.Input((4,), name="two")
    x = layers.Conv2D(4, 3, padding="same")(one) * layers.Reshape((1, 1, 4))(two)
    model = seeded(tf.keras.Model([two, one], {"sum": x + 1.0}), rng)
    with pytest.raises(UnsupportedError, match=r"one: \[\?, \?, \?, 2\]"):
        load_keras(model)
    graph = load_keras(model, {"one": [1, 5, 6, 2]})
    arrays = {
        "one": rng.standard_normal((1, 5, 6, 2)).astype(np.float32),
        "two": rng.standard_normal((1, 4)).astype(np.float32),
    }
    want = model([arrays["two"], arrays["one"]])["sum"].numpy()
    found = computed(graph, [arrays["one"], arrays["two"]])
    np.testing.assert_allclose(found[0], want, rtol=0, atol=1e-5)


def test_inputs_that_always_have_one_value(rng, tmp_path):
    """Of a live model, its file, and a SavedModel, which names them as its signature."""
    one, two = tf.keras.Input((6, 6, 2), name="one"), tf.keras.Input((4,), name="two")
    x = layers.Conv2D(4, 3, padding="same")(one) * layers.Reshape((1, 1, 4))(two)
    model = seeded(tf.keras.Model([one, two], x), rng)
    model.save(tmp_path / "net.keras")
    model.export(tmp_path / "saved", verbose=False)
    image = rng.normal(size=(1, 6, 6, 2)).astype(np.float32)
    gains = [0.5, 1.0, -2.0, 3.0]
    wanted = model([image, np.array([gains], np.float32)]).numpy()
    for loaded in (
        load_keras(model, input_values={"two": gains}),
        load_model(tmp_path / "net.keras", input_values={"two": gains}),
        load_model(tmp_path / "saved", input_values={"two": [gains]}),
    ):
        assert [node.name for node in loaded if node.kind == "data"] == ["one"]
        (found,) = computed(loaded, [image])
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(UnsupportedError, match="has input 'three', but the inputs are: one"):
        load_model(tmp_path / "saved", input_values={"three": 1})


def test_convolutions_with_groups(rng, tmp_path):
    """Keras has them in functions that XLA shall compile."""
    image = tf.keras.Input((9, 9, 8), name="image")
    x = layers.Conv2D(8, 3, groups=2, padding="same", activation="relu", name="halves")(image)
    x = layers.Conv2D(8, 3, groups=8, strides=2, name="each")(x)
    model = seeded(tf.keras.Model(image, layers.Conv2D(4, 1, groups=4)(x)), rng)
    model.save(tmp_path / "groups.keras")
    model.export(tmp_path / "saved", verbose=False)
    x = rng.normal(size=(1, 9, 9, 8)).astype(np.float32)
    for graph in (
        load_keras(model),
        load_keras(str(tmp_path / "groups.keras")),
        load_saved_model(tmp_path / "saved"),
    ):
        kinds = [node.kind for node in graph if "conv" in node.kind]
        assert kinds == ["conv2d", "depthwise-conv2d", "conv2d"]
        (found,) = computed(graph, [x])
        np.testing.assert_allclose(found, model(x), rtol=1e-5, atol=1e-5)


def test_custom_layers(rng, tmp_path):
    class Doubled(layers.Layer):
        def call(self, x):
            return x + x

    model = tf.keras.Sequential([tf.keras.Input((3,)), Doubled()])
    model.save(tmp_path / "custom.h5")
    with pytest.raises(ModelFormatError, match=r"custom\.h5 cannot be read by Keras: .*Doubled"):
        load_keras(tmp_path / "custom.h5")
    graph = load_keras(tmp_path / "custom.h5", custom_objects={"Doubled": Doubled})
    assert [node.kind for node in graph] == ["data", "add"]


def test_weights_alone_are_no_network(model, tmp_path):
    model.save_weights(tmp_path / "m.weights.h5")
    with pytest.raises(ModelFormatError, match=r"it has weights, but no network: build the model"):
        load_model(tmp_path / "m.weights.h5")


def test_tables_of_text_are_refused_by_name(tmp_path):
    class Words(tf.Module):
        def __init__(self):
            keys, values = tf.constant(["a", "b"]), tf.constant([1.0, 2.0])
            made = tf.lookup.KeyValueTensorInitializer(keys, values)
            self.table = tf.lookup.StaticHashTable(made, 0.0)
            self.weight = tf.Variable(2.0)

        @tf.function(input_signature=[tf.TensorSpec([1, 3], tf.string, name="words")])
        def __call__(self, words):
            return {"y": self.table.lookup(words) * self.weight}

    words = Words()
    tf.saved_model.save(words, str(tmp_path), signatures=words.__call__)
    with pytest.raises(UnsupportedError) as caught:
        load_saved_model(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_what_is_refused(tmp_path):
    class Unbuilt(tf.keras.Model):
        def call(self, x):
            return x

    with pytest.raises(UnsupportedError, match=r"has no inputs yet: call it once"):
        load_keras(Unbuilt())
    with pytest.raises(ModelFormatError, match=r"gone\.h5: no such file"):
        load_model(tmp_path / "gone.h5")
    (tmp_path / "bad.h5").write_bytes(b"\x89HDF\r\n\x1a\nnothing")
    with pytest.raises(ModelFormatError, match=r"bad\.h5 cannot be read by Keras: "):
        load_model(tmp_path / "bad.h5")
    with zipfile.ZipFile(tmp_path / "bad.keras", "w") as archive:
        archive.writestr("config.json", json.dumps({}))
    with pytest.raises(ModelFormatError, match=r"bad\.keras cannot be read by Keras: "):
        load_model(tmp_path / "bad.keras")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"\x0a\x03abc")
    with pytest.raises(ModelFormatError, match=r"saved cannot be read as SavedModel: "):
        load_model(tmp_path / "saved")
