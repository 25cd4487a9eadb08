# SPDX-License-Identifier: Apache-2.0
"""Names of Keras layers begin anew with every test."""

import pytest


@pytest.fixture(autouse=True)
def fresh_names():
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    tf.keras.backend.clear_session()
