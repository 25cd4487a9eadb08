# SPDX-License-Identifier: Apache-2.0
"""The table of operators: what every kind of op is, said once.

A file for every family registers its operators; front ends, quantizer, compiler and runtime ask the
table (:func:`operator_of`) instead of naming kinds.
"""

from opendpu_arch.extras import needs

with needs("opendpu"):
    import onnx.helper  # noqa: F401

from opendpu.ops import (
    boundary,
    convolution,
    correlation,
    elementwise,
    fixed,
    foreign,
    move,
    normalization,
    pooling,
)
from opendpu.ops.boundary import CONSTANTS, CONVERSIONS, SOURCES
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import (
    OPERATORS,
    Operator,
    Parameters,
    Result,
    kinds_where,
    operator_of,
    register,
)

__all__ = [
    "CONSTANTS",
    "CONVERSIONS",
    "OPERATORS",
    "SOURCES",
    "OnnxBuilder",
    "Operator",
    "Parameters",
    "Result",
    "boundary",
    "convolution",
    "correlation",
    "elementwise",
    "fixed",
    "foreign",
    "kinds_where",
    "move",
    "normalization",
    "operator_of",
    "pooling",
    "register",
]
