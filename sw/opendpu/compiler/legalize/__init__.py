# SPDX-License-Identifier: Apache-2.0
"""Pass: a quantized float graph to fixed-point ops, with one file for every family of ops."""

from opendpu.compiler.legalize import (
    alone,
    conv,
    dense,
    eltwise,
    move,
    pool,
    reduce,
    resize,
    shape,
    transpose,
)
from opendpu.compiler.legalize.registry import RULES
from opendpu.compiler.legalize.run import legalize

__all__ = [
    "RULES",
    "alone",
    "conv",
    "dense",
    "eltwise",
    "legalize",
    "move",
    "pool",
    "reduce",
    "resize",
    "shape",
    "transpose",
]
