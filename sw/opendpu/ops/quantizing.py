# SPDX-License-Identifier: Apache-2.0
"""Names of the ONNX operators that quantize: ONNX's own, and those of AMD's quantizers.

Front end and export share them: what one writes, the other reads.
"""

QUANTIZE = (
    "QuantizeLinear", "VitisQuantizeLinear", "ExtendedQuantizeLinear", "VAIQuantizeLinear",
)  # fmt: skip
"""Real numbers to integers."""
DEQUANTIZE = (
    "DequantizeLinear", "VitisDequantizeLinear", "ExtendedDequantizeLinear", "VAIDeQuantizeLinear",
)  # fmt: skip
"""Integers to real numbers."""
BOTH = ("FixNeuron", "fix_neuron")
"""Real numbers to those that integers stand for."""
QUANTIZERS = (*QUANTIZE, *BOTH)
OPERATORS = (*QUANTIZE, *DEQUANTIZE, *BOTH)

DOMAINS = ("com.microsoft", "com.vai.quantize", "com.amd.quark", "ai.onnx.contrib", "vai")
"""Where quantizers put these operators beside ONNX's own domain."""

ROUNDING_DOMAIN, ROUNDING = "opendpu", "RoundHalfUp"
"""Our function in front of a QuantizeLinear: real numbers rounded to its grid, halves up."""


def is_quantizing(domain: str, op_type: str) -> bool:
    """Return whether an operator of a domain other than ONNX's own quantizes, or rounds for it."""
    if domain == ROUNDING_DOMAIN:
        return op_type == ROUNDING
    return domain in DOMAINS and op_type in OPERATORS
