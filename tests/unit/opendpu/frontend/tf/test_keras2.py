# SPDX-License-Identifier: Apache-2.0
"""Files of Keras 2 with arguments that Keras 3 has no longer."""

import importlib
import pathlib
import sys

import numpy as np
import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")
from tf_graphs import computed, tf

from opendpu.frontend import load_model
from opendpu_arch.errors import ModelFormatError

keras2 = pytest.importorskip("tf_keras", reason="Keras 2 is not installed (opendpu[keras2])")
layers = keras2.layers
pytestmark = pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5:UserWarning")


@pytest.fixture(params=["h5", "keras"])
def written(request, tmp_path) -> tuple[object, pathlib.Path]:
    """Return a network of Keras 2 whose LSTM says ``time_major``, and its file."""
    image = keras2.Input((12, 8, 3), name="image")
    x = layers.Conv2D(6, 3, padding="same", activation="relu")(image)
    x = layers.Reshape((12, 48))(x)
    x = layers.LSTM(5, return_sequences=True)(layers.Dense(8)(x))
    model = keras2.Model(image, layers.Dense(4, name="scores")(layers.Flatten()(x)))
    path = tmp_path / f"old.{request.param}"
    model.save(path)
    return model, path


def test_keras_3_cannot_read_it_and_we_do(written):
    model, path = written
    with pytest.raises((ValueError, TypeError)):
        tf.keras.models.load_model(path, compile=False)
    graph = load_model(path)
    x = np.random.default_rng(1).standard_normal((1, 12, 8, 3)).astype(np.float32)
    (found,) = computed(graph, [x])
    np.testing.assert_allclose(found, model(x).numpy(), rtol=0, atol=1e-5)
    assert graph.outputs == ["scores"]


def test_without_keras_2_the_error_names_what_to_install(written, monkeypatch):
    monkeypatch.setitem(sys.modules, "tf_keras", None)
    with pytest.raises(ModelFormatError, match=r"pip install 'opendpu\[keras2\]'"):
        load_model(written[1])
    monkeypatch.undo()
    assert importlib.import_module("tf_keras") is keras2
