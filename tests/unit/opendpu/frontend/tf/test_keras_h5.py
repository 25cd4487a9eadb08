# SPDX-License-Identifier: Apache-2.0
"""Files of HDF5 that Keras 3 writes, and does not read again: they are read here."""

import importlib

import numpy as np
import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

import h5py
from tf_graphs import tf

from opendpu.frontend.tensorflow.keras_file import read_keras
from opendpu_arch.errors import ModelFormatError

layers = tf.keras.layers
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def compare(path, model, shape):
    """Check that Keras does not read a file, and that what is read here is the model."""
    model.save(path)
    before = path.read_bytes()
    with pytest.raises((ValueError, TypeError)):
        tf.keras.models.load_model(path, compile=False)
    found = read_keras(path)
    image = np.random.default_rng(3).uniform(-1, 1, shape).astype(np.float32)
    np.testing.assert_array_equal(found(image), model(image))
    assert path.read_bytes() == before


def test_arithmetic_of_tensors(tmp_path):
    """Operations beside layers of the same names, in a network inside of another one, too."""
    given = tf.keras.Input((4, 4, 3))
    x = layers.Conv2D(3, 1)(given) + 3.0
    inner = tf.keras.Model(given, layers.Add()([x, given * 0.5]), name="inner")
    image = tf.keras.Input((4, 4, 3))
    y = (inner(image) - 1.0) / 2.0
    model = tf.keras.Model(image, layers.Multiply()([y, image]))
    compare(tmp_path / "model.h5", model, (2, 4, 4, 3))


def test_layers_of_applications(tmp_path):
    network = importlib.import_module(tf.keras.applications.ConvNeXtTiny.__module__)
    image = tf.keras.Input((4, 4, 6))
    x = network.LayerScale(0.3, 6)(layers.Conv2D(6, 1)(image))
    compare(tmp_path / "model.h5", tf.keras.Model(image, x), (1, 4, 4, 6))


def test_what_is_no_network(tmp_path):
    """A configuration that is no JSON, or JSON of something else."""
    for number, text in enumerate(("{", '{"config": {"layers": [3]}}', '{"class_name": "Odd"}')):
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w") as file:
            file.attrs["model_config"] = text
        with pytest.raises(ModelFormatError, match=r"\.h5 cannot be read by Keras"):
            read_keras(path)
