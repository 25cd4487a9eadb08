# SPDX-License-Identifier: Apache-2.0
"""One handler for every TFLite operator that can be converted, grouped by what they do."""

from opendpu.frontend.tflite.ops import (
    activation,
    detection,
    elementwise,
    mediapipe,
    recurrent,
    reducing,
    shaping,
    spectral,
    windows,
)

__all__ = [
    "activation", "detection", "elementwise", "mediapipe", "recurrent", "reducing", "shaping",
    "spectral", "windows",
]  # fmt: skip
