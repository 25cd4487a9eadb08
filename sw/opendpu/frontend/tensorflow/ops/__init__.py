# SPDX-License-Identifier: Apache-2.0
"""One handler for every TensorFlow operator that can be converted, grouped by what they do."""

from opendpu.frontend.tensorflow.ops import (
    activation,
    elementwise,
    quantization,
    reducing,
    shaping,
    values,
    windows,
)

__all__ = [
    "activation",
    "elementwise",
    "quantization",
    "reducing",
    "shaping",
    "values",
    "windows",
]
