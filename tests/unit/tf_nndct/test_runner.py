# SPDX-License-Identifier: Apache-2.0
"""Keras models are pruned: what is cut together, files, and slim models that equal sparse ones."""

import json
from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

from opendpu.pruning import Dependencies  # noqa: E402
from opendpu_arch.errors import DPUError, UnsupportedError  # noqa: E402
from tf_nndct import IterativePruningRunner  # noqa: E402
from tf_nndct.groups import analyze  # noqa: E402
from tf_nndct.network import network_of  # noqa: E402
from tf_nndct.objective import Macs  # noqa: E402
from tf_nndct.optimization.expanding import ExpandingRunner  # noqa: E402
from tf_nndct.surgery import slim_model, sparse_model  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
L = tf.keras.layers


def residual():
    """Additions, depthwise and separable convolutions, a gate, and a concatenation."""
    image = tf.keras.Input((16, 16, 3))
    x = L.ReLU(6.0)(L.BatchNormalization()(L.Conv2D(8, 3, 2, "same", use_bias=False)(image)))
    y = L.DepthwiseConv2D(3, padding="same", depth_multiplier=2)(x)
    y = L.PReLU(shared_axes=[1, 2])(L.BatchNormalization()(y))
    x = L.Add()([x, L.Conv2D(8, 1)(y)])
    gate = L.Reshape((1, 1, 8))(L.Dense(8, "sigmoid")(L.GlobalAveragePooling2D()(x)))
    x = L.Multiply()([x, gate])
    x = L.Concatenate()([L.SeparableConv2D(6, 3, padding="same")(x), L.MaxPooling2D(1)(x)])
    x = L.Conv2DTranspose(10, 2, strides=2, activation="swish")(x)
    return tf.keras.Model(image, L.Dense(4, "softmax")(L.Flatten()(L.AveragePooling2D(4)(x))))


def inside():
    """A model in a model, and a layer that is called twice."""
    head = tf.keras.Sequential([tf.keras.Input((8, 8, 3)), L.Conv2D(6, 3), L.ReLU()])
    shared = L.Conv2D(6, 1)
    image = tf.keras.Input((8, 8, 3))
    x = shared(shared(head(image)))
    return tf.keras.Model(image, L.Dense(3)(L.GlobalMaxPooling2D()(L.Conv2D(5, 1)(x))))


def settled(model, rng):
    for variable in model.weights:
        low = 0.3 if "variance" in variable.name or "gamma" in variable.name else -0.6
        variable.assign(rng.uniform(low, 0.8, variable.shape))
    return model


def half(dependencies: Dependencies, rng):
    return {
        name: sorted(rng.permutation(group.units)[: group.units // 2].tolist())
        for name, group in dependencies.groups.items()
    }


@pytest.mark.parametrize(("make", "groups"), [
    (residual, {"conv2d": 8, "separable_conv2d": 6, "conv2d_transpose": 10}),
    (inside, {"sequential/conv2d": 6, "conv2d_1": 5}),
])  # fmt: skip
def test_slim_models_are_sparse_ones_without_the_zeros(make, groups, rng):
    tf.keras.backend.clear_session()
    model = settled(make(), rng)
    before = model.get_weights()
    structure = analyze(network_of(model))
    found = {name: group.units for name, group in structure.dependencies.groups.items()}
    assert {name: found[name] for name in groups} == groups
    removed = half(structure.dependencies, rng)
    sparse, slim = (made(model, structure, removed) for made in (sparse_model, slim_model))
    images = rng.normal(size=(3, *model.input_shape[1:])).astype("float32")
    expected = np.asarray(sparse(images))
    np.testing.assert_allclose(slim(images), expected, rtol=1e-4, atol=1e-6)
    assert np.ptp(expected) > 1e-3
    assert slim.count_params() < 0.65 * model.count_params()
    widths = {name: found[name] - len(removed.get(name, ())) for name in found}
    again = analyze(network_of(slim))
    whole = {name: group.units for name, group in again.dependencies.groups.items()}
    assert Macs(structure).exact(widths) == Macs(again).exact(whole)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_multiply_accumulates_are_counted():
    model = tf.keras.Sequential([
        tf.keras.Input((10, 10, 3)), L.Conv2D(8, 3), L.DepthwiseConv2D(3), L.Flatten(), L.Dense(7),
    ])  # fmt: skip
    structure = analyze(network_of(model))
    expected = 64 * 9 * 3 * 8 + 36 * 9 * 8 + 36 * 8 * 7
    assert Macs(structure).exact({"conv2d": 8}) == expected
    assert structure.dependencies.groups["conv2d"].depthwise
    assert structure.dependencies.kept == {"dense": "an output of the network"}


@pytest.fixture
def trained(rng, tmp_path, monkeypatch):
    """Train a small model on made-up classes; return it, and data."""
    monkeypatch.chdir(tmp_path)
    labels = rng.integers(0, 4, 200)
    patterns = rng.normal(size=(4, 12, 12, 1))
    images = (patterns[labels] + 0.5 * rng.normal(size=(200, 12, 12, 1))).astype("float32")
    model = tf.keras.Sequential([
        tf.keras.Input((12, 12, 1)), L.Conv2D(16, 3, activation="relu"), L.MaxPooling2D(),
        L.Conv2D(24, 3, activation="relu"), L.Flatten(), L.Dropout(0.1), L.Dense(4, "softmax"),
    ], name="tiny")  # fmt: skip
    fit(model, images, labels)
    return model, images, labels


def fit(model, images, labels, epochs=3):
    model.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
    model.fit(images, labels, batch_size=20, epochs=epochs, verbose=0)


def test_models_are_analyzed_pruned_trained_and_made_slim(trained):
    model, images, labels = trained
    calls = []

    def evaluate(candidate):
        calls.append(candidate)
        guess = np.asarray(candidate(images)).argmax(-1)
        return float((guess == labels).mean())

    spec = tf.TensorSpec((1, 12, 12, 1), tf.float32)
    runner = IterativePruningRunner(model, spec)
    runner.ana(evaluate)
    assert len(calls) == 1 + 2 * 9
    runner.ana(evaluate)
    assert len(calls) == 1 + 2 * 9  # the file has it
    sparse = runner.prune(0.5)
    assert Path(".vai/latest_spec").read_text() == ".vai/tiny_ratio_0.5.spec\n"
    kernel = sparse.layers[2].kernel
    zeros = np.asarray(kernel) == 0
    assert zeros.mean() > 0.3
    fit(sparse, images, labels)
    assert (np.asarray(kernel)[zeros] == 0).all() and (np.asarray(kernel)[~zeros] != 0).mean() > 0.9
    assert evaluate(sparse) > 0.9

    model.set_weights(sparse.get_weights())
    slim = IterativePruningRunner(model, [spec]).get_slim_model()
    np.testing.assert_allclose(slim(images), sparse(images), rtol=1e-4, atol=1e-6)
    costs = [
        Macs(s).exact({name: group.units for name, group in s.dependencies.groups.items()})
        for s in (analyze(network_of(item)) for item in (model, slim))
    ]
    assert 0.3 * costs[0] < costs[1] <= 0.51 * costs[0]
    slim.save("slim.keras")
    assert tf.keras.models.load_model("slim.keras").count_params() == slim.count_params()
    again = IterativePruningRunner(model, spec).prune(ratio=0.5, mode="slim")
    assert [w.shape for w in again.weights] == [w.shape for w in slim.weights]
    whole = IterativePruningRunner(model, spec).prune(ratio=0.0)
    np.testing.assert_array_equal(whole(images), model(images))


def test_thresholds_specifications_and_excludes(trained):
    model, images, _ = trained
    wanted = np.asarray(model(images))

    def likeness(candidate):
        return 1 - float(np.abs(np.asarray(candidate(images)) - wanted).mean())

    runner = IterativePruningRunner(model, tf.TensorSpec((None, 12, 12, 1)))
    first = model.layers[0]
    runner.ana(likeness, excludes=[first])
    (scores,) = json.loads(Path(".vai/tiny.sens").read_text())["scores"].values()
    threshold = round(1.001 - min(scores.values()), 3)  # what nine of ten filters cost
    sparse = runner.prune(threshold=threshold, excludes=[first.name])
    assert likeness(sparse) > 0.99 - threshold
    slim = runner.get_slim_model(f".vai/tiny_ratio_{threshold:g}.spec")
    assert slim.layers[0].filters == 16 and slim.layers[2].filters < 24
    other = runner.prune(spec_path=f".vai/tiny_ratio_{threshold:g}.spec", mode="slim")
    np.testing.assert_array_equal(other(images), slim(images))


def test_what_is_refused(trained):
    model, _, _ = trained
    spec = tf.TensorSpec((1, 12, 12, 1), tf.float32)
    runner = IterativePruningRunner(model, spec)

    def refuse(match, function, *args, **kwargs):
        with pytest.raises(DPUError, match=match):
            function(*args, **kwargs)

    refuse(r"tiny\.sens: no such file; analyze the network first", runner.prune, 0.5)
    refuse("latest_spec: no such file; prune the model first", runner.get_slim_model)
    refuse("ratio is 1.5, but must be between 0 and 1", runner.prune, 1.5)
    refuse("say how much to prune", runner.prune)
    refuse("mode is 'thin'", runner.prune, 0.5, mode="thin")
    refuse("ratio is 'half', but must be between 0 and 1", runner.prune, "half")
    refuse("threshold is 'a', but must be between 0 and 1", runner.prune, threshold="a")
    refuse("spec_path is 3, but must be a path", runner.prune, spec_path=3)
    refuse("excludes is 3, but must be a list of layers", runner.prune, 0.5, excludes=3)
    refuse("eval_fn is 3, but must be a function", runner.ana, 3)
    refuse("no such layer", runner.ana, float, excludes=["conv9"])
    refuse("returned list, but must return one number", runner.ana, lambda m: [1])
    refuse("failed: ZeroDivisionError", runner.ana, lambda m: 1 / 0)
    refuse(r"input_specs says \(1, 9\)", IterativePruningRunner, model, tf.TensorSpec((1, 9)))

    for given in ("model.h5", model.layers[-1], None):
        refuse("^.OPTIMIZER_KERAS_MODEL_ERROR. ", IterativePruningRunner, given, spec)

    class Own(tf.keras.Model):
        def call(self, x):
            return x

    refuse("must be a functional or Sequential model", IterativePruningRunner, Own(), spec)
    first = tf.keras.Sequential([tf.keras.Input((4, 4, 3)), L.Conv2D(4, 3, groups=1)])
    plain = IterativePruningRunner(first, tf.TensorSpec((1, 4, 4, 3)))
    refuse("nothing of sequential can be pruned", plain.ana, lambda m: 1.0)


def test_models_are_not_expanded():
    """There the compiler fills channels up."""
    model = tf.keras.Sequential([tf.keras.Input((4, 4, 1)), L.Conv2D(3, 3)], name="small")
    with pytest.raises(UnsupportedError, match=r"does not expand Keras models \(small\): the comp"):
        ExpandingRunner(model, tf.TensorSpec((1, 4, 4, 1)))
