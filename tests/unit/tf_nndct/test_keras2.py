# SPDX-License-Identifier: Apache-2.0
"""Scripts of Keras 2: pruned as printed in the guide, files without suffix included."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")
pytest.importorskip("tf_keras", reason="Keras 2 is not installed (opendpu[keras2])")

SCRIPT = """
import numpy as np, tensorflow as tf
assert "tf_keras" in tf.keras.Model.__module__ or "tf_keras" in tf.keras.layers.Layer.__module__
from tf_nndct import IterativePruningRunner

def make():
    image = tf.keras.Input((12, 12, 3))
    x = tf.keras.layers.ReLU()(tf.keras.layers.Conv2D(8, 3)(image))
    y = tf.keras.layers.Conv2D(8, 3, padding="same")(x)
    x = tf.keras.layers.GlobalAveragePooling2D()(tf.keras.layers.Add()([x, y]))
    return tf.keras.Model(image, tf.keras.layers.Dense(4)(x))

tf.keras.utils.set_random_seed(1)
model = make()
data = np.random.default_rng(1).standard_normal((4, 12, 12, 3)).astype(np.float32)
runner = IterativePruningRunner(model, tf.TensorSpec((1, 12, 12, 3), tf.float32))
runner.ana(lambda one: float(np.abs(one.predict(data, verbose=0)).mean()))
sparse = runner.prune(ratio=0.3)
sparse.save_weights("sparse", save_format="tf")
again = runner.prune(ratio=0.3)
again.load_weights("sparse")
slim = IterativePruningRunner(again, tf.TensorSpec((1, 12, 12, 3), tf.float32)).get_slim_model()
one, other = sparse.predict(data, verbose=0), slim.predict(data, verbose=0)
assert slim.count_params() < model.count_params(), (slim.count_params(), model.count_params())
np.testing.assert_allclose(one, other, atol=1e-5)
"""


def test_a_script_of_keras_2_prunes(tmp_path):
    environment = os.environ | {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
