# SPDX-License-Identifier: Apache-2.0
"""Names of the ONNX operators that quantize: ONNX's own, and those of AMD's quantizers.

Front end and export share them: what one writes, the other reads.
"""

QUANTIZE_LINEAR, DEQUANTIZE_LINEAR = "QuantizeLinear", "DequantizeLinear"
"""ONNX's own."""
QUANTIZE = (
    QUANTIZE_LINEAR, "VitisQuantizeLinear", "ExtendedQuantizeLinear", "VAIQuantizeLinear",
)  # fmt: skip
"""Real numbers to integers."""
DEQUANTIZE = (
    DEQUANTIZE_LINEAR, "VitisDequantizeLinear", "ExtendedDequantizeLinear", "VAIDeQuantizeLinear",
)  # fmt: skip
"""Integers to real numbers."""
BOTH = ("FixNeuron", "fix_neuron")
"""Real numbers to those that integers stand for."""
QUANTIZERS = (*QUANTIZE, *BOTH)
OPERATORS = (*QUANTIZE, *DEQUANTIZE, *BOTH)

DOMAINS = ("com.microsoft", "com.vai.quantize", "com.amd.quark", "ai.onnx.contrib", "vai")
"""Where quantizers put these operators beside ONNX's own domain."""

NNDCT, FIX_NEURON = "vai", "fix_neuron"
"""Domain and operator that AMD's quantizer for PyTorch writes; its inputs are a tensor, the largest
integer, 1 / scale and a method of rounding."""
NNDCT_HALF_UP = 2
"""The method that rounds as the DPU does: halves up."""
LARGEST = 127
"""The largest integer of 8 bits."""

ROUNDING_DOMAIN = "opendpu"
HALF_UP, DOWN = "RoundHalfUp", "RoundDown"
ROUNDINGS = (HALF_UP, DOWN)
"""Our functions that round real numbers to the grid of a scale as the DPU does: in front of a
QuantizeLinear halves up, in front of a sum the finer of its terms down."""


def is_quantizing(domain: str, op_type: str) -> bool:
    """Return whether an operator of a domain other than ONNX's own quantizes, or rounds for it."""
    if domain == ROUNDING_DOMAIN:
        return op_type in ROUNDINGS
    return domain in DOMAINS and op_type in OPERATORS
