# SPDX-License-Identifier: Apache-2.0
"""Pass: the ops of one DPU part to layers and aliases, with one file for every family of ops."""

from opendpu.compiler.lower import (
    blocks,
    conv,
    eltwise,
    pad,
    pointwise,
    pool,
    product,
    reduce,
    resize,
    shape,
    table,
    transposed,
)
from opendpu.compiler.lower.run import lower

__all__ = [
    "blocks",
    "conv",
    "eltwise",
    "lower",
    "pad",
    "pointwise",
    "pool",
    "product",
    "reduce",
    "resize",
    "shape",
    "table",
    "transposed",
]
