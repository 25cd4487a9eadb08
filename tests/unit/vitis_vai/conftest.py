# SPDX-License-Identifier: Apache-2.0
"""A small Keras model in a folder of its own, and images for it."""

from frameworks.keras_fixtures import images as images
from frameworks.keras_fixtures import model as model
