# SPDX-License-Identifier: Apache-2.0
"""One handler for every ONNX operator that can be converted, grouped by what they do."""

from opendpu.frontend.ops import (
    activation,
    arithmetic,
    blocks,
    convolution,
    dense,
    normalization,
    pooling,
    quantization,
    resize,
    shaping,
    slicing,
)
from opendpu.frontend.ops.registry import HANDLERS

__all__ = [
    "HANDLERS",
    "activation",
    "arithmetic",
    "blocks",
    "convolution",
    "dense",
    "normalization",
    "pooling",
    "quantization",
    "resize",
    "shaping",
    "slicing",
]
