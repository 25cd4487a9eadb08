# SPDX-License-Identifier: Apache-2.0
"""The typed graphs that front ends, quantizer and compiler work on."""

from opendpu.ir.digest import digest_of
from opendpu.ir.graph import (
    NOTES,
    SCALARS,
    Array,
    FixedGraph,
    FloatGraph,
    Graph,
    Node,
    QuantizedGraph,
)
from opendpu.ir.types import UNKNOWN, NumberFormat, Origin, Quantization, Rounding, TensorType
from opendpu.ir.xir_bridge import from_xir, to_xir

__all__ = [
    "NOTES",
    "SCALARS",
    "UNKNOWN",
    "Array",
    "FixedGraph",
    "FloatGraph",
    "Graph",
    "Node",
    "NumberFormat",
    "Origin",
    "Quantization",
    "QuantizedGraph",
    "Rounding",
    "TensorType",
    "digest_of",
    "from_xir",
    "to_xir",
]
