# SPDX-License-Identifier: Apache-2.0
"""Each test works in a folder of its own."""

from frameworks.keras_fixtures import images as images
from frameworks.keras_fixtures import model as model
