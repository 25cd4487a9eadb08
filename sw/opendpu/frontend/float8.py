# SPDX-License-Identifier: Apache-2.0
"""Floating-point numbers of eight bits, which some quantizers store in place of integers.

The DPU has integers. What such a format rounds to is known here, so that weights are what the file
says and ranges are, where scales may change.
"""

import numpy as np

from opendpu.ir import Array

LARGEST = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}
"""By name of a format, as ONNX has them."""


def is_float8(dtype: np.dtype[np.generic]) -> bool:
    """Return whether an element type is one of these formats."""
    return dtype.name in LARGEST


def largest(dtype: np.dtype[np.generic]) -> float:
    """Return the largest number of a format."""
    return LARGEST[dtype.name]


def rounded(values: Array, scale: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return what is left of real numbers; ``scale`` has their axes, too large ones saturate."""
    most = largest(dtype)
    stored = np.clip(np.asarray(values, np.float32) / scale, -most, most).astype(dtype)
    return np.asarray(stored.astype(np.float32) * scale, np.float32)
