# SPDX-License-Identifier: Apache-2.0
"""A small Keras model, trained on nothing, in a folder of its own."""

import numpy as np
import pytest


@pytest.fixture
def model(rng, tmp_path, monkeypatch):
    """Return a model with random weights; files go to a folder of the test's."""
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    monkeypatch.chdir(tmp_path)
    layers = tf.keras.layers
    image = tf.keras.Input((12, 12, 3), name="image")
    x = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False, name="conv1")(image)
    x = layers.ReLU(name="relu1")(layers.BatchNormalization(name="norm")(x))
    y = layers.Conv2D(8, 3, padding="same", activation="relu", name="conv2")(x)
    x = layers.Activation("sigmoid", name="gate")(layers.Add(name="sum")([x, y]))
    x = layers.GlobalAveragePooling2D(name="mean")(x)
    made = tf.keras.Model(image, layers.Dense(4, activation="softmax", name="probs")(x), name="net")
    for variable in made.weights:
        positive = "variance" in variable.name or "gamma" in variable.name
        variable.assign(rng.uniform(0.3 if positive else -0.5, 0.8, variable.shape))
    return made


@pytest.fixture
def images(rng):
    return rng.standard_normal((40, 12, 12, 3)).astype(np.float32)
