# SPDX-License-Identifier: Apache-2.0
"""Rounding to 8 bits as the DPU does it, in the operator that the ONNX front end knows for it."""

import math

import numpy as np

from opendpu.frontend.building import Builder
from opendpu.ops.quantizing import FIX_NEURON, LARGEST, NNDCT, NNDCT_HALF_UP


def fixed(b: Builder, value: str, point: int, *, name: str = "") -> str:
    """Append the rounding of a value to 8 bits with ``point`` fractional bits."""
    factor = b.constant(np.array([math.ldexp(1.0, point)], np.float32), f"{value}/factor")
    limit = b.constant(np.array([LARGEST], np.float32), f"{value}/limit")
    method = b.constant(np.array([NNDCT_HALF_UP], np.int64), f"{value}/method")
    inputs = [value, limit, factor, method]
    return b.node(FIX_NEURON, inputs, name or f"{value}/fix", domain=NNDCT)
