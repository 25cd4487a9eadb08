# SPDX-License-Identifier: Apache-2.0
"""Post-training quantization of float graphs to powers of two, as the DPU wants it."""

from opendpu.quantize.complete import complete, is_quantized
from opendpu.quantize.config import SUBSTITUTIONS, FinetuneConfig, QuantizeConfig
from opendpu.quantize.quantizer import Quantized, check_substitution, quantize, quantize_with_report
from opendpu.quantize.report import Report
from opendpu.quantize.samples import Samples
from opendpu.quantize.tensor_spec import METHODS, Override, TensorSpec

__all__ = [
    "METHODS",
    "SUBSTITUTIONS",
    "FinetuneConfig",
    "Override",
    "QuantizeConfig",
    "Quantized",
    "Report",
    "Samples",
    "TensorSpec",
    "check_substitution",
    "complete",
    "is_quantized",
    "quantize",
    "quantize_with_report",
]
