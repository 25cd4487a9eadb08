# SPDX-License-Identifier: Apache-2.0
"""The operators of the DPU, kinds ``-fix``: kernels that compute their integers to the bit."""

from opendpu.ops.fixed import (
    layers,
    moves,
    pointwise,
    pooling,
    product,
    softmax,
    squared_difference,
)

__all__ = ["layers", "moves", "pointwise", "pooling", "product", "softmax", "squared_difference"]
