# SPDX-License-Identifier: Apache-2.0
"""Post-training quantization of float graphs to powers of two, as the DPU wants it."""

from opendpu.quantize.calibrate import METHODS
from opendpu.quantize.complete import complete, is_quantized
from opendpu.quantize.quantizer import Quantized, check_substitution, quantize, quantize_with_report
from opendpu.quantize.report import Report
from opendpu.quantize.substitute import SUBSTITUTIONS

__all__ = [
    "METHODS",
    "SUBSTITUTIONS",
    "Quantized",
    "Report",
    "check_substitution",
    "complete",
    "is_quantized",
    "quantize",
    "quantize_with_report",
]
