# SPDX-License-Identifier: Apache-2.0
"""VAIQuantizeLinear and VAIDeQuantizeLinear as functions of arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu_arch import numerics
from vai_q_onnx.operators.library import get_library_path

_lib_path = get_library_path

Array = npt.NDArray[Any]


def vai_quantize(x: Array, scale: Array, zero_point: Array, bit_width: int = 8) -> Array:
    """Return the integers of real numbers, in the type of ``zero_point``: halves go up."""
    low = -(1 << (bit_width - 1)) if np.asarray(zero_point).dtype.kind == "i" else 0
    high = low + (1 << bit_width) - 1
    scaled = np.divide(x, scale, dtype=np.float32)
    integers = numerics.round_float(scaled) + np.asarray(zero_point, np.float64)
    return np.asarray(np.clip(integers, low, high).astype(np.asarray(zero_point).dtype))


def vai_dquantize(x: Array, scale: Array, zero_point: Array) -> Array:
    """Return the real numbers, float32, that integers stand for."""
    difference = np.asarray(x, np.float64) - np.asarray(zero_point, np.float64)
    return np.asarray((difference * np.asarray(scale, np.float64)).astype(np.float32))
